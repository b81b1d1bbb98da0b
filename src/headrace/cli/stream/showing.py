"""A stream for people: its configuration, its state, and where its messages come from.

`headrace stream info` prints it, and so do the commands that create or change a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from headrace.cli.arguments import name_of_stream
from headrace.cli.human import ago, duration, limit, moment, size, size_limit
from headrace.cli.tables import Cell, facts, json_option, print_json
from headrace.cli.target import Target, connection_options

Document = dict[str, Any]
Fact = tuple[str, Cell]

SWITCHES = {
    "no_ack": "no acknowledgements",
    "discard_new_per_subject": "discard new per subject",
    "allow_direct": "direct get",
    "mirror_direct": "direct get of the mirrored stream",
    "allow_rollup_hdrs": "rollups",
    "allow_msg_ttl": "per-message TTL",
    "allow_msg_counter": "counters",
    "allow_msg_schedules": "schedules",
    "allow_atomic": "atomic batches",
    "allow_batched": "fast batches",
    "deny_delete": "no deletes",
    "deny_purge": "no purges",
    "sealed": "sealed",
}


@click.command()
@click.argument("stream", callback=name_of_stream)
@connection_options
@click.option("--state", "state_only", is_flag=True, help="Only the state, not the configuration.")
@json_option
def info(target: Target, stream: str, state_only: bool, as_json: bool) -> None:
    """Show the configuration and the state of STREAM."""
    from headrace.cli.stream.api import open_api

    with open_api(target) as api:
        document = api.stream_info(stream)
    if as_json:
        print_json(document["state"] if state_only else document)
    else:
        show_stream(document, state_only=state_only)


def show_stream(info: Document, *, state_only: bool = False) -> None:
    config = info["config"]
    if not state_only:
        facts(config_facts(config), title=f"Stream {config['name']}")
        print()
    facts(state_facts(info), title=f"State of {config['name']}" if state_only else "State")


def config_facts(config: Document) -> Iterator[Fact]:
    yield "Description", config.get("description", "")
    yield "Subjects", ", ".join(config.get("subjects") or [])
    if config.get("mirror"):
        yield "Mirror of", source_text(config["mirror"])
    for source in config.get("sources") or []:
        yield "Source", source_text(source)
    yield "Storage", _storage(config)
    yield "Replicas", config["num_replicas"]
    yield "Placement", _placement(config.get("placement") or {})
    yield "Retention", config["retention"]
    yield "Discard", config["discard"]
    yield "Maximum messages", limit(config["max_msgs"])
    yield "Maximum per subject", limit(config["max_msgs_per_subject"])
    yield "Maximum bytes", size_limit(config["max_bytes"])
    yield "Maximum age", _time_limit(config["max_age"])
    yield "Maximum message size", size_limit(config.get("max_msg_size", -1))
    yield "Maximum consumers", limit(config["max_consumers"])
    yield "Duplicate window", duration(config.get("duplicate_window", 0))
    yield "Options", ", ".join(text for field, text in SWITCHES.items() if config.get(field))
    yield "Delete markers", _time(config.get("subject_delete_marker_ttl", 0))
    yield from _routing_facts(config)
    limits = config.get("consumer_limits") or {}
    yield "Consumers idle at most", _time(limits.get("inactive_threshold", 0))
    yield "Consumers pending at most", limits.get("max_ack_pending") or ""
    yield "Metadata", _metadata(config)


def _routing_facts(config: Document) -> Iterator[Fact]:
    transform, republish = config.get("subject_transform"), config.get("republish")
    if transform:
        yield "Subject transform", f"{transform['src'] or '>'} to {transform['dest']}"
    if republish:
        headers = ", headers only" if republish.get("headers_only") else ""
        yield "Republish", f"{republish.get('src') or '>'} to {republish['dest']}{headers}"


def state_facts(info: Document) -> Iterator[Fact]:
    state = info["state"]
    yield "Messages", state["messages"]
    yield "Bytes", size(state["bytes"])
    yield "First sequence", _sequence(state, "first")
    yield "Last sequence", _sequence(state, "last")
    yield "Deleted messages", state.get("num_deleted") or ""
    yield "Subjects", state.get("num_subjects") or ""
    yield "Consumers", state["consumer_count"]
    yield "Created", moment(info.get("created", ""))
    origins = [info["mirror"]] if info.get("mirror") else info.get("sources") or []
    for origin in sorted(origins, key=lambda origin: str(origin["name"])):  # the server has no order
        yield f"Lag behind {origin['name']}", _lag(origin)
    yield "Cluster", _cluster(info.get("cluster") or {})


def source_text(source: Document) -> str:
    parts = [source["name"]]
    if source.get("filter_subject"):
        parts.append(f"only {source['filter_subject']}")
    for transform in source.get("subject_transforms") or []:
        parts.append(f"{transform['src'] or '>'} to {transform['dest']}")
    if source.get("opt_start_seq"):
        parts.append(f"from sequence {source['opt_start_seq']}")
    if source.get("opt_start_time"):
        parts.append(f"from {moment(source['opt_start_time'])}")
    if source.get("external"):
        parts.append(f"API {source['external']['api']}")
    return ", ".join(parts)


def _lag(origin: Document) -> str:
    active = origin.get("active", -1)
    seen = "not seen yet" if active < 0 else f"seen {duration(active)} ago"
    error = (origin.get("error") or {}).get("description", "")
    return f"{origin['lag']:,} messages, {seen}{f', {error}' if error else ''}"


def _sequence(state: Document, end: str) -> str:
    stamp = state.get(f"{end}_ts", "")
    when = f" ({moment(stamp)}, {ago(stamp)})" if state["messages"] and ago(stamp) != "never" else ""
    return f"{state[f'{end}_seq']:,}{when}"


def _storage(config: Document) -> str:
    compressed = config.get("compression", "none")
    return (
        f"{config['storage']}, compressed with {compressed}"
        if compressed != "none"
        else str(config["storage"])
    )


def _placement(placement: Document) -> str:
    parts = [placement.get("cluster", ""), *(placement.get("tags") or [])]
    return ", ".join(part for part in parts if part)


def _cluster(cluster: Document) -> str:
    name, leader = cluster.get("name", ""), cluster.get("leader", "")
    return f"{name}, leader {leader}" if name and leader else name


def _time(nanoseconds: int) -> str:
    return duration(nanoseconds) if nanoseconds else ""


def _time_limit(nanoseconds: int) -> str:
    return duration(nanoseconds) if nanoseconds > 0 else "unlimited"


def _metadata(config: Document) -> str:
    """Without what the server adds."""
    pairs = (config.get("metadata") or {}).items()
    return ", ".join(f"{key}={value}" for key, value in pairs if not key.startswith("_nats."))

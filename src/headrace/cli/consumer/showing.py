"""A consumer for people: its configuration, and how far it is. `headrace consumer info` prints it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from headrace.cli.consumer.arguments import consumer_arguments
from headrace.cli.consumer.listing import filter_of, mode_of
from headrace.cli.human import ago, duration, moment, size
from headrace.cli.tables import Cell, facts, json_option, print_json
from headrace.cli.target import Target, connection_options

Document = dict[str, Any]
Fact = tuple[str, Cell]


@click.command()
@consumer_arguments
@connection_options
@click.option("--state", "state_only", is_flag=True, help="Only the state, not the configuration.")
@json_option
def info(target: Target, stream: str, consumer: str, state_only: bool, as_json: bool) -> None:
    """Show the configuration and the state of a consumer."""
    from headrace.cli.stream.api import open_api

    with open_api(target) as api:
        document = api.consumer_info(stream, consumer)
    if as_json:
        hidden = ("config",) if state_only else ()
        print_json({name: value for name, value in document.items() if name not in hidden})
    else:
        show_consumer(document, state_only=state_only)


def show_consumer(info: Document, *, state_only: bool = False) -> None:
    title = f"{info['name']} of {info['stream_name']}"
    if not state_only:
        facts(config_facts(info), title=f"Consumer {title}")
        print()
    facts(state_facts(info), title=f"State of {title}" if state_only else "State")


def config_facts(info: Document) -> Iterator[Fact]:
    config = info["config"]
    yield "Description", config.get("description", "")
    yield "Mode", mode_of(info)
    yield "Durable", "yes" if config.get("durable_name") else "no"
    yield "Delivers to", config.get("deliver_subject", "")
    yield "Deliver group", config.get("deliver_group", "")
    yield "Filter", filter_of(config)
    yield "Deliver", _start(config)
    yield "Ack policy", config["ack_policy"]
    yield "Ack wait", _time(config.get("ack_wait", 0))
    yield "Backoff", ", ".join(map(duration, config.get("backoff") or []))
    yield "Maximum deliveries", _limit(config.get("max_deliver", -1))
    yield "Maximum ack pending", _limit(config.get("max_ack_pending", 0))
    yield "Maximum waiting pulls", config.get("max_waiting") or ""
    yield "Maximum batch", config.get("max_batch") or ""
    yield "Maximum expiry", _time(config.get("max_expires", 0))
    yield "Maximum bytes of a pull", size(config["max_bytes"]) if config.get("max_bytes") else ""
    yield "Replay", config["replay_policy"]
    yield "Rate limit", f"{config['rate_limit_bps']:,} bit/s" if config.get("rate_limit_bps") else ""
    yield "Heartbeat", _time(config.get("idle_heartbeat", 0))
    yield "Options", _options(config)
    yield "Inactive threshold", _time(config.get("inactive_threshold", 0))
    yield "Sampling", f"{config['sample_freq'].rstrip('%')} %" if config.get("sample_freq") else ""
    yield "Priority", _priority(config)
    yield "Replicas", config.get("num_replicas") or ""
    yield "Metadata", _metadata(config)


def state_facts(info: Document) -> Iterator[Fact]:
    delivered, floor = info["delivered"], info["ack_floor"]
    yield "Last delivered", _place(delivered)
    yield "Acknowledged up to", _place(floor)
    yield "Ack pending", info["num_ack_pending"]
    yield "Redelivered", info["num_redelivered"]
    yield "Waiting pulls", info["num_waiting"]
    yield "Unprocessed messages", info["num_pending"]
    if info.get("paused"):
        yield "Paused for", duration(info.get("pause_remaining", 0))
        yield "Paused until", moment(info["config"].get("pause_until", ""))
    yield "Created", moment(info.get("created", ""))
    yield "Cluster", (info.get("cluster") or {}).get("leader", "")


def _place(pair: Document) -> str:
    seen = pair.get("last_active")
    text = f"stream sequence {pair['stream_seq']:,}, consumer sequence {pair['consumer_seq']:,}"
    return f"{text}, {ago(seen)}" if seen else text


def _start(config: Document) -> str:
    policy = str(config["deliver_policy"])
    if policy == "by_start_sequence":
        return f"from sequence {config.get('opt_start_seq', 0):,}"
    if policy == "by_start_time":
        return f"from {moment(config.get('opt_start_time', ''))}"
    return policy.replace("_", " ")


def _options(config: Document) -> str:
    switches = {
        "flow_control": "flow control",
        "headers_only": "headers only",
        "mem_storage": "state in memory",
    }
    return ", ".join(text for field, text in switches.items() if config.get(field))


def _priority(config: Document) -> str:
    groups = ", ".join(config.get("priority_groups") or [])
    return f"{config.get('priority_policy', '')}: {groups}" if groups else ""


def _limit(count: int) -> str:
    return f"{count:,}" if count > 0 else "unlimited"


def _time(nanoseconds: int) -> str:
    return duration(nanoseconds) if nanoseconds else ""


def _metadata(config: Document) -> str:
    """Without what the server adds."""
    pairs = (config.get("metadata") or {}).items()
    return ", ".join(f"{key}={value}" for key, value in pairs if not key.startswith("_nats."))

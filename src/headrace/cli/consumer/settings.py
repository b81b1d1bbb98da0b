"""The configuration of a consumer as options: one table for `add` and `edit`, with the nats tool's names."""

from __future__ import annotations

import time
from typing import Any

import click

from headrace.cli.human import Duration, Size, parse_moment, parse_time
from headrace.cli.stream.settings import Setting, key_values, split_list, subject_list
from headrace.go_formats import format_time
from headrace.quantities import parse_duration

Config = dict[str, Any]

NANOSECONDS_PER_MILLISECOND = 1_000_000
POLICIES = {"all": "all", "last": "last", "new": "new", "next": "new", "subject": "last_per_subject",
            "last_per_subject": "last_per_subject"}  # fmt: skip


def parse_until(text: str) -> int:
    """Nanoseconds since 1970 of a time, or of a duration from now. Raises ValueError."""
    return parse_moment(text, direction=1)


def until(text: str) -> str:
    try:
        return format_time(parse_until(text))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def start_fields(policy: str) -> Config:
    """`--deliver`: all, new, last, subject, a sequence, or how long ago."""
    if policy in POLICIES:
        return {"deliver_policy": POLICIES[policy]}
    if policy.isdecimal() and policy.isascii():
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": int(policy)}
    try:
        if policy[:4].isdecimal() and policy[4:5] == "-":
            start = parse_time(policy)
        else:
            start = time.time_ns() - parse_duration(policy)
    except ValueError:
        raise click.UsageError(
            f"--deliver {policy!r} is none of all, new, last, subject, a sequence, a duration or a time"
        ) from None
    return {"deliver_policy": "by_start_time", "opt_start_time": format_time(max(start, 0))}


def linear_backoff(steps: int, shortest: int, longest: int) -> list[int]:
    """Equal steps from the shortest to below the longest, in whole milliseconds, as in the nats tool."""
    shortest, longest = min(shortest, longest), max(shortest, longest)
    step = (longest - shortest) // steps
    waits = (shortest + number * step for number in range(steps))
    return [round(wait / NANOSECONDS_PER_MILLISECOND) * NANOSECONDS_PER_MILLISECOND for wait in waits]


def _sample(percent: int) -> str:
    return str(percent) if percent > 0 else ""


CONSUMER_SETTINGS = [
    Setting("--ack", "ack_policy", "What has to be acknowledged. [default: explicit; none with --target]",
            kind=click.Choice(["none", "all", "explicit", "flow_control"]), create_only=True),
    Setting("--bps", "rate_limit_bps", "At most this many bits per second, for push consumers.",
            kind=click.IntRange(min=0), metavar="N", create_only=True),
    Setting("--backoff", "backoff.mode", "Wait longer with each redelivery. [default: none]",
            kind=click.Choice(["linear", "none"])),
    Setting("--backoff-steps", "backoff.steps", "How many waits. [default: 10]",
            kind=click.IntRange(min=1, max=1000), metavar="N"),
    Setting("--backoff-min", "backoff.min", "The shortest wait. [default: 1m]", kind=Duration,
            metavar="DURATION"),
    Setting("--backoff-max", "backoff.max", "The longest wait. [default: 20m]", kind=Duration,
            metavar="DURATION"),
    Setting("--deliver", "start", "Where to start: all, new, last, subject, 1h, a sequence. [default: all]",
            metavar="POLICY", read=start_fields, create_only=True),
    Setting("--deliver-group", "deliver_group", "Queue group of the receivers of a push consumer.",
            metavar="GROUP", create_only=True),
    Setting("--description", "description", "What the consumer is for.", metavar="TEXT"),
    Setting("--filter", "filters", "Only these subjects; repeatable, or comma-separated.",
            metavar="SUBJECT", multiple=True, read=subject_list),
    Setting("--flow-control/--no-flow-control", "flow_control", "Flow control of a push consumer.", kind=bool,
            create_only=True),
    Setting("--heartbeat", "idle_heartbeat", "Heartbeats of an idle push consumer.", kind=Duration,
            metavar="DURATION", create_only=True),
    Setting("--headers-only/--no-headers-only", "headers_only", "Deliver headers without payloads.",
            kind=bool),
    Setting("--max-deliver", "max_deliver", "How often a message is delivered; -1 is unlimited.",
            kind=click.IntRange(min=-1), metavar="N"),
    Setting("--max-pending", "max_ack_pending", "How many acknowledgements may be missing.",
            kind=click.IntRange(min=-1), metavar="N"),
    Setting("--max-waiting", "max_waiting", "How many pulls may wait.", kind=click.IntRange(min=0),
            metavar="N", create_only=True),
    Setting("--max-pull-batch", "max_batch", "The largest batch of a pull.", kind=click.IntRange(min=0),
            metavar="N"),
    Setting("--max-pull-expire", "max_expires", "The longest wait of a pull.", kind=Duration,
            metavar="DURATION"),
    Setting("--max-pull-bytes", "max_bytes", "The most bytes of a pull.", kind=Size, metavar="SIZE"),
    Setting("--replay", "replay_policy", "At once, or at the speed of the original. [default: instant]",
            kind=click.Choice(["instant", "original"]), create_only=True),
    Setting("--sample", "sample_freq", "Percentage of acknowledgements to sample.",
            kind=click.IntRange(min=0, max=100), metavar="PERCENT", read=_sample),
    Setting("--target", "deliver_subject", "Make it a push consumer that delivers to this subject.",
            metavar="SUBJECT"),
    Setting("--wait", "ack_wait", "How long to wait for an acknowledgement. [default: 30s]", kind=Duration,
            metavar="DURATION"),
    Setting("--inactive-threshold", "inactive_threshold", "Remove the consumer if idle for this long.",
            kind=Duration, metavar="DURATION"),
    Setting("--memory/--no-memory", "mem_storage", "Keep its state in memory.", kind=bool, create_only=True),
    Setting("--replicas", "num_replicas", "Copies in a cluster. [default: as the stream]",
            kind=click.IntRange(min=0), metavar="N"),
    Setting("--metadata", "metadata", "Metadata; repeatable.", metavar="KEY=VALUE", multiple=True,
            read=key_values),
    Setting("--pause", "pause_until", "Start paused, for a duration or until a time.", metavar="UNTIL",
            read=until, create_only=True),
    Setting("--pinned-groups", "pinned_client", "Groups whose messages go to one client.", metavar="GROUP",
            multiple=True, read=split_list, create_only=True),
    Setting("--pinned-ttl", "priority_timeout", "How long that client may be idle.", kind=Duration,
            metavar="DURATION", create_only=True),
    Setting("--overflow-groups", "overflow", "Groups that get what others leave.", metavar="GROUP",
            multiple=True, read=split_list, create_only=True),
    Setting("--prioritized-groups", "prioritized", "Groups with priorities.", metavar="GROUP",
            multiple=True, read=split_list, create_only=True),
]  # fmt: skip


def apply_consumer_settings(config: Config, settings: Config) -> Config:
    """A new configuration. Some options are not fields: starts, filters, backoffs and groups."""
    result, given = dict(config), dict(settings)
    backoff = {name: given.pop(f"backoff.{name}", None) for name in ("mode", "steps", "min", "max")}
    if (start := given.pop("start", None)) is not None:
        result |= start
    if (filters := given.pop("filters", None)) is not None:
        result.pop("filter_subject", None)
        result.pop("filter_subjects", None)
        result |= {"filter_subject": filters[0]} if len(filters) == 1 else {"filter_subjects": filters}
    policies = [name for name in ("pinned_client", "overflow", "prioritized") if name in given]
    if len(policies) > 1:
        raise click.UsageError("use one of --pinned-groups, --overflow-groups and --prioritized-groups")
    for policy in policies:
        result |= {"priority_policy": policy, "priority_groups": given.pop(policy)}
    result |= given
    return _with_backoff(result, backoff)


def _with_backoff(config: Config, backoff: Config) -> Config:
    if backoff["mode"] is None:
        if any(value is not None for value in backoff.values()):
            raise click.UsageError("--backoff-steps, --backoff-min and --backoff-max need --backoff linear")
        return config
    if backoff["mode"] == "none":
        return {name: value for name, value in config.items() if name != "backoff"}
    minute = parse_duration("1m")
    shortest = minute if backoff["min"] is None else backoff["min"]
    longest = 20 * minute if backoff["max"] is None else backoff["max"]
    waits = linear_backoff(backoff["steps"] or 10, shortest, longest)
    # The server wants more deliveries than waits.
    deliveries = {} if config.get("max_deliver", -1) > 0 else {"max_deliver": len(waits) + 1}
    return {**config, "backoff": waits, **deliveries}

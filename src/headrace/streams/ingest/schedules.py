"""Nats-Schedule: a message that makes the stream publish another one later, once or repeatedly.

The pattern is `@at <time>`, `@every <duration>`, a name such as `@daily`, or six cron fields. This file
checks schedules and computes when they are due; scheduler.py publishes them.
"""

from __future__ import annotations

import zoneinfo
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from headrace.config.durations import parse_duration
from headrace.go_formats import NANOSECONDS
from headrace.streams import headers
from headrace.streams.errors import ApiError, api_error
from headrace.streams.formats import now, parse_time
from headrace.streams.ingest import cron
from headrace.streams.ingest.rollup import SUBJECT, read_rollup
from headrace.streams.ingest.ttl import parse_ttl
from headrace.subjects import grammar

if TYPE_CHECKING:
    from headrace.streams.config import StreamConfig
    from headrace.streams.ingest.publication import Publication

PURGE = b"purge"  # the value of Nats-Schedule-Next after a schedule that fires once
_NAMED = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}


class Due(NamedTuple):
    """When a schedule fires, in nanoseconds, and whether it does so again."""

    time: int
    repeats: bool


def read_due(block: bytes, since: int) -> Due | None:
    """When the message's schedule fires, counted from `since`; None if it has none. Raises ApiError."""
    zone = _read_zone(block)
    pattern = headers.text(block, headers.SCHEDULE).decode("utf-8", "replace")
    if not pattern:
        return None
    try:
        return parse_pattern(pattern, zone, since)
    except ValueError:
        raise api_error("message_schedules_pattern_invalid") from None


def parse_pattern(pattern: str, zone: tzinfo | None, since: int) -> Due:
    """Raises ValueError.

    Missed times are not made up for: the schedule fires once and continues from now.
    """
    if pattern.startswith(("@at ", "@every ")) and zone is not None:
        raise ValueError("a time zone goes with cron patterns only")
    if pattern.startswith("@at "):
        return Due(parse_time(pattern[4:]), False)
    if pattern.startswith("@every "):
        interval = round(parse_duration(pattern[7:]) * NANOSECONDS)
        if interval < NANOSECONDS:
            raise ValueError("less than a second")
        due = _round_to_second(since) + interval
        return Due(due if due >= now() else _round_to_second(now()) + interval, True)
    fields = _NAMED.get(pattern, pattern)
    due = cron.next_time(fields, zone or UTC, since)
    if due < now():
        due = cron.next_time(fields, zone or UTC, _round_to_second(now()))
    return Due(due, True)


def _round_to_second(time: int) -> int:
    return (time + NANOSECONDS // 2) // NANOSECONDS * NANOSECONDS


def _read_zone(block: bytes) -> tzinfo | None:
    name = headers.get(block, headers.SCHEDULE_TIME_ZONE)
    if name is None:
        return None
    if name == b"UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(name.decode())
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise api_error("message_schedules_time_zone_invalid") from None


def check_schedule(publication: Publication, config: StreamConfig) -> None:
    """Raises ApiError unless the schedule is allowed and makes sense.

    Adds Nats-Rollup: sub, which it implies.
    """
    block = publication.headers
    try:
        due = read_due(block, now())
    except ApiError as error:
        raise error if config.allow_msg_schedules else api_error("message_schedules_disabled") from None
    if due is None:
        return
    publication.has_schedule = True
    if not config.allow_msg_schedules:
        raise api_error("message_schedules_disabled")
    has_ttl = _check_ttl(block)
    if headers.text(block, headers.SCHEDULE_ROLLUP) not in (b"", b"sub"):
        raise api_error("message_schedules_rollup_invalid")
    if has_ttl and not config.allow_msg_ttl:
        raise api_error("message_ttl_disabled")
    _check_subjects(publication, config)
    rollup = read_rollup(block)
    if not rollup:
        publication.headers = headers.append(block, headers.ROLLUP, SUBJECT.encode())
    elif rollup != SUBJECT:
        raise api_error("message_schedules_rollup_invalid")


def _check_ttl(block: bytes) -> bool:
    ttl = headers.text(block, headers.SCHEDULE_TTL)
    if not ttl:
        return False
    try:
        parse_ttl(ttl)
    except ApiError:
        raise api_error("message_schedules_ttl_invalid") from None
    return True


def _check_subjects(publication: Publication, config: StreamConfig) -> None:
    """Check that the target and the source are other subjects of this stream."""
    own = grammar.decode(publication.subject)
    target = grammar.decode(headers.text(publication.headers, headers.SCHEDULE_TARGET))
    source = grammar.decode(headers.text(publication.headers, headers.SCHEDULE_SOURCE))
    if target == own or not grammar.is_valid_publish_subject(target):
        raise api_error("message_schedules_target_invalid")
    if source and (source in (target, own) or not grammar.is_valid_publish_subject(source)):
        raise api_error("message_schedules_source_invalid")
    if not any(grammar.overlap(subject, target) for subject in config.subjects):
        raise api_error("message_schedules_target_invalid")
    if source and not any(grammar.overlap(subject, source) for subject in config.subjects):
        raise api_error("message_schedules_source_invalid")


def read_cancelled(publication: Publication, config: StreamConfig) -> bytes | None:
    """The subject of the schedule that a client cancels with Nats-Schedule-Next: purge; None if it does not.

    The headers of fired messages are not for clients. Raises ApiError; whether that subject has a schedule is
    left to the caller, who knows what is stored and what is about to be.
    """
    upcoming = headers.text(publication.headers, headers.SCHEDULE_NEXT)
    scheduler = headers.text(publication.headers, headers.SCHEDULER)
    if not upcoming and not scheduler:
        return None
    if upcoming != PURGE or not scheduler or scheduler == publication.subject:
        raise api_error("message_schedules_scheduler_invalid")
    if not grammar.is_valid_publish_subject(grammar.decode(scheduler)):
        raise api_error("message_schedules_scheduler_invalid")
    if not config.allow_msg_schedules:
        raise api_error("message_schedules_disabled")
    return scheduler

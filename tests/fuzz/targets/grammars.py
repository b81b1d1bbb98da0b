"""The small languages: headers, subjects, transforms, times, durations, cron patterns, schedules and JSON.

    byte 0    which of them
    rest      the text; where two are needed, a zero byte stands between them

Right is: an error is of the family that the function declares, and what one function says fits to what
another one says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC
from zoneinfo import ZoneInfo

from headrace.config.durations import format_duration, parse_duration
from headrace.engine.basics.filters import Filter
from headrace.engine.streams.json_syntax import examine
from headrace.go_formats import LAST_TIME
from headrace.streams import headers
from headrace.streams.errors import ApiError
from headrace.streams.formats import format_time, normalise_time, parse_time
from headrace.streams.ingest import cron, expectations, ttl
from headrace.streams.ingest.schedules import parse_pattern, read_due
from headrace.subjects import grammar
from headrace.subjects.transform import Transform, TransformError, check_mapping

NOW = 1_790_000_000_123_456_789
ZONES = (UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York"))
NAMES = (headers.TTL, headers.MSG_ID, headers.SCHEDULE, b"a")
ODD_WORD = re.compile(rb"(^|\.)[*>][^.]")
JSON = json.JSONDecoder(parse_constant=int)  # which refuses NaN and the like
EMPTY = b"NATS/1.0\r\n\r\n"


def check_headers(data: bytes) -> None:
    for name in NAMES:
        value = headers.get(data, name)
        assert headers.text(data, name) == (value or b"")
        assert headers.get(headers.append(EMPTY, name, data), name) is not None
        assert len(headers.remove(data, name)) <= len(data)
        headers.replace(data, name, b"1")
    block = headers.append(EMPTY, b"x", data)
    assert block.count(b"\r\n") == 3
    assert headers.remove(block, b"x") == b""
    headers.strip_status(data)
    headers.remove_prefixed(data, headers.EXPECTED_PREFIX)
    headers.is_level_too_high(data)
    assert 0 <= headers.parse_sequence(data) < 2**64
    for read in (ttl.read_ttl, expectations.read_last_sequence, lambda block: read_due(block, NOW)):
        try:
            read(data)
        except ApiError as error:
            assert error.body.description


def check_subjects(data: bytes) -> None:
    first, _, second = data.partition(b"\0")
    subject, pattern = grammar.decode(first), grammar.decode(second)
    assert grammar.encode(subject) == first
    assert grammar.overlap(subject, pattern) == grammar.overlap(pattern, subject)
    if not (grammar.is_valid_subject(subject) and grammar.is_valid_subject(pattern)):
        return
    if ODD_WORD.search(first) or ODD_WORD.search(second):
        return  # a word that begins as a wildcard does: nats-server's own matchers do not agree about it
    if grammar.is_subset(subject, pattern):
        assert grammar.overlap(subject, pattern)
    if grammar.is_valid_publish_subject(subject):
        check_engine(first, second, grammar.matches(subject, pattern))


def check_engine(subject: bytes, pattern: bytes, matches: bool) -> None:
    """The engine's matcher agrees with the one in Python."""
    assert Filter((pattern,)).matches(subject) == matches


def check_transform(data: bytes) -> None:
    parts = [grammar.decode(part) for part in data.split(b"\0")]
    source, destination, subject = [*parts, "", "", ""][:3]
    try:
        check_mapping(source, destination)
    except TransformError as error:
        assert str(error)
    try:
        transform = Transform(source, destination)
    except TransformError as error:
        assert str(error)
        return
    transform.apply(grammar.encode(subject))


def check_time(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        time = parse_time(text)
    except (ValueError, OverflowError):
        return
    assert parse_time(normalise_time(text)) == time
    written = parse_time(format_time(time))
    if 0 <= time <= LAST_TIME:  # what no year of four digits has is written as one that has
        assert written == time


def check_duration(data: bytes) -> None:
    try:
        seconds = parse_duration(data.decode("utf-8", "replace"))
    except ValueError:
        return
    assert abs(parse_duration(format_duration(seconds)) - seconds) <= 1e-6 * max(1.0, abs(seconds))


def check_cron(data: bytes) -> None:
    if not data:
        return
    zone, pattern = ZONES[data[0] % len(ZONES)], data[1:].decode("utf-8", "replace")
    try:
        time = cron.next_time(pattern, zone, NOW)
    except ValueError:
        return
    assert time > NOW
    assert cron.next_time(pattern, zone, time - 1) == time


def check_schedule(data: bytes) -> None:
    try:
        parse_pattern(data.decode("utf-8", "replace"), None, NOW)
    except ValueError:
        return


def check_json(data: bytes) -> None:
    """The syntax is right if Python's own parser reads it to the end."""
    text = data.decode("utf-8", "replace")
    place = 0
    is_right = True
    try:
        while place < len(text):
            if text[place] in " \t\r\n":
                place += 1
            else:
                _, place = JSON.raw_decode(text, place)
    except RecursionError:
        return
    except ValueError:
        is_right = False
    fault, weight = examine(data)
    assert (fault == "") == is_right, fault
    assert 0 <= weight <= 8 * len(data)


CHECKS: tuple[Callable[[bytes], None], ...] = (
    check_headers,
    check_subjects,
    check_transform,
    check_time,
    check_duration,
    check_cron,
    check_schedule,
    check_json,
)


def check(data: bytes) -> None:
    if data:
        CHECKS[data[0] % len(CHECKS)](data[1:])

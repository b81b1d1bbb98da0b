"""How times and numbers look on the wire: RFC 3339 with nanoseconds, as Go writes them.

Inside, a time is an integer: nanoseconds since 1970, which `datetime` is too coarse for. Go's zero time,
in the year 1, means "never" and is 0 here.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta, timezone

from headrace import go_formats
from headrace.go_formats import EPOCH, FIRST_TIME, NANOSECONDS, format_fraction, quote_ascii

ZERO_TIME = "0001-01-01T00:00:00Z"
EARLIEST, LATEST = -(1 << 63), (1 << 63) - 1
"""The range of 64 bits: the times of messages, and durations on the wire."""
TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)
LAYOUT = "2006-01-02T15:04:05Z07:00"
TIME_PARTS = (
    (r"\d{4}", "2006"),
    ("-", "-"),
    (r"\d\d", "01"),
    ("-", "-"),
    (r"\d\d", "02"),
    ("T", "T"),
    (r"\d\d", "15"),
    (":", ":"),
    (r"\d\d", "04"),
    (":", ":"),
    (r"\d\d([.,]\d+)?", "05"),
    (r"Z|[+-]\d\d:\d\d", "Z07:00"),
)


def now() -> int:
    """The time, in nanoseconds since 1970."""
    return time.time_ns()


def format_time(nanoseconds: int) -> str:
    """`2026-11-15T23:20:13.504390754Z`; trailing zeros of the fraction are left out. 0 is the zero time."""
    return ZERO_TIME if nanoseconds == 0 else go_formats.format_time(nanoseconds)


def utc_time(text: str) -> str:
    """The same time in UTC, as Go would write it. Raises ValueError if it is not a time."""
    return go_formats.format_time(_parse(text))


def parse_time(text: str) -> int:
    """Nanoseconds since 1970; 0 for the zero time. Raises ValueError, in Go's words, if it is not a time."""
    nanoseconds = _parse(text)
    return 0 if nanoseconds == FIRST_TIME else nanoseconds


def _parse(text: str) -> int:
    match = TIME.fullmatch(text)
    if not match:
        raise ValueError(_explain(text))
    *numbers, fraction, offset = match.groups()
    year, month, day, hour, minute, second = map(int, numbers)
    for name, number, lowest, highest in (
        ("month", month, 1, 12),
        ("day", day, 1, 31),
        ("hour", hour, 0, 23),
        ("minute", minute, 0, 59),
        ("second", second, 0, 59),
    ):
        if not lowest <= number <= highest:
            raise ValueError(f"parsing time {quote_ascii(text)}: {name} out of range")
    try:
        zone = UTC if offset == "Z" else timezone(_offset(offset))
        moment = datetime(max(year, 1), month, day, hour, minute, second, tzinfo=zone)
    except ValueError:
        raise ValueError(f"parsing time {quote_ascii(text)}: day out of range") from None
    seconds = round((moment - EPOCH).total_seconds())
    return seconds * NANOSECONDS + _nanoseconds(fraction)


def parse_store_time(text: str) -> int:
    """The same for a time to look up messages by. Times of messages have 64 bits, from 1677 to 2262.

    A time outside of that is before or after all messages. In nats-server it wraps around: 2999 is long ago.
    """
    return min(max(parse_time(text), EARLIEST), LATEST)


def normalise_time(text: str) -> str:
    """The same time as Go would write it: the fraction without trailing zeros. Raises ValueError."""
    parse_time(text)
    match = TIME.fullmatch(text)
    assert match
    return text[:19] + format_fraction(_nanoseconds(match.group(7))) + match.group(8)


def _nanoseconds(fraction: str | None) -> int:
    return int((fraction or "0")[:9].ljust(9, "0"))


def _offset(text: str) -> timedelta:
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[4:6]))
    return -offset if text[0] == "-" else offset


def _explain(text: str) -> str:
    """Which part of a time is missing, in Go's words."""
    rest = text
    for pattern, layout in TIME_PARTS:
        match = re.match(pattern, rest, re.ASCII)
        if not match:
            whole, part = quote_ascii(text), quote_ascii(rest)
            return f'parsing time {whole} as "{LAYOUT}": cannot parse {part} as "{layout}"'
        rest = rest[match.end() :]
    return f"parsing time {quote_ascii(text)}: extra text: {quote_ascii(rest)}"

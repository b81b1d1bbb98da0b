"""Quantities as people read them, sizes, durations, ages and times, and the options that take them.

Durations are in nanoseconds, as in the JetStream API. What people write is read by `quantities.py`.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Any

import click

from headrace.go_formats import EPOCH, LAST_TIME, NANOSECONDS
from headrace.quantities import is_duration, parse_duration, parse_size

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

_SHOWN_UNITS = (("y", 365 * 86_400), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)


def size(count: int) -> str:
    """`0 B`, `1.5 KiB`, `64 MiB`."""
    value, unit = float(count), 0
    while value >= 1023.95 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.1f}".removesuffix(".0") + f" {UNITS[unit]}"


def limit(count: int) -> str:
    """A limit on a number: 0 and less mean that there is none."""
    return f"{count:,}" if count > 0 else "unlimited"


def size_limit(count: int) -> str:
    return size(count) if count > 0 else "unlimited"


def duration(nanoseconds: int) -> str:
    """The two largest units: `2d4h`, `1m30s`, `1.5s`, `20ms`; `0s`."""
    if abs(nanoseconds) < 60 * NANOSECONDS:
        return _short_duration(nanoseconds)
    sign, rest = "-" if nanoseconds < 0 else "", round(abs(nanoseconds) / NANOSECONDS)
    parts: list[str] = []
    for unit, seconds in _SHOWN_UNITS:
        count, rest = divmod(rest, seconds)
        if parts or count:
            parts.append(f"{count}{unit}" if count else "")
        if len(parts) == 2:
            break
    return sign + "".join(parts)


def _short_duration(nanoseconds: int) -> str:
    for unit, length in (("s", NANOSECONDS), ("ms", 1_000_000), ("µs", 1_000)):
        if abs(nanoseconds) >= length:
            return f"{nanoseconds / length:.3g}{unit}"
    return f"{nanoseconds}ns" if nanoseconds else "0s"


def parse_time(text: str) -> int:
    """Nanoseconds since 1970 of an RFC 3339 time; without a zone it is UTC. Raises ValueError."""
    found = _RFC3339.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a time such as 2026-11-16T20:30:00Z")
    date, clock, fraction, zone = found.groups()
    moment = datetime.fromisoformat(f"{date}T{clock}{'+00:00' if zone in (None, 'Z') else zone}")
    whole = round((moment.astimezone(UTC) - EPOCH).total_seconds())
    return whole * NANOSECONDS + int((fraction or "").ljust(9, "0"))


def age(moment: str, now_ns: int | None = None) -> str:
    """How long ago an RFC 3339 time was, in whole seconds; `never` for Go's zero time and for none at all."""
    if not moment or moment.startswith("0001-"):
        return "never"
    nanoseconds = (time.time_ns() if now_ns is None else now_ns) - parse_time(moment)
    return duration(max(nanoseconds, 0) // NANOSECONDS * NANOSECONDS)


def ago(moment: str) -> str:
    """`5s ago`, `just now`, `never`."""
    return {"0s": "just now", "never": "never"}.get(text := age(moment), f"{text} ago")


def moment(text: str) -> str:
    """A time of the API for people: `2026-11-16 20:30:00 UTC`; `never` for Go's zero time."""
    if not text or text.startswith("0001-"):
        return "never"
    seconds = parse_time(text) // NANOSECONDS
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def parse_moment(text: str, direction: int = -1) -> int:
    """Nanoseconds since 1970 of a time, or of a duration before now, or from now (1). Raises ValueError."""
    if _RFC3339.fullmatch(text.strip()):
        nanoseconds = parse_time(text)
        if not 0 <= nanoseconds <= LAST_TIME:
            raise ValueError(f"{text!r} is before 1970")
        return nanoseconds
    if not is_duration(text):
        raise ValueError(f"{text!r} is neither a duration (1h) nor a time (2026-11-16T20:30:00Z)")
    return max(time.time_ns() + direction * parse_duration(text), 0)


class _Parsed(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """An option whose value a function reads, with its ValueError as the message."""

    def __init__(self, name: str, parse: Any) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, int):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


Duration = _Parsed("duration", parse_duration)
Size = _Parsed("size", parse_size)
Moment = _Parsed("time", parse_moment)

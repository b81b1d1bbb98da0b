"""Sizes and durations as people write them, for the commands and the console: `1h30m`, `2d`, `64MB`, `10KiB`.

They follow the nats tool. Durations are in nanoseconds, as in the JetStream API.
"""

from __future__ import annotations

import re

from headrace.go_formats import NANOSECONDS

LARGEST_INTEGER = (1 << 63) - 1

_DURATION_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": NANOSECONDS,
    "m": 60 * NANOSECONDS,
    "h": 3600 * NANOSECONDS,
    "d": 86_400 * NANOSECONDS,
    "D": 86_400 * NANOSECONDS,
    "w": 7 * 86_400 * NANOSECONDS,
    "W": 7 * 86_400 * NANOSECONDS,
    "M": 30 * 86_400 * NANOSECONDS,
    "y": 365 * 86_400 * NANOSECONDS,
    "Y": 365 * 86_400 * NANOSECONDS,
}
_WRITTEN_DURATIONS = ("d", "h", "m", "s", "ms", "us", "ns")
_DURATION_PART = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,9}))?(ns|us|µs|ms|[smhdDwWMyY])")
_DURATION = re.compile(f"(?:{_DURATION_PART.pattern})+")
_SIZES = ("", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SIZE = re.compile(r"([0-9]{1,19})\s*([KMGTPE]?)(i?B)?", re.IGNORECASE)


def is_duration(text: str) -> bool:
    """Whether it has the form of one; it may be too long."""
    return text == "0" or _DURATION.fullmatch(text) is not None


def parse_duration(text: str) -> int:
    """Nanoseconds of `1h30m`, `2d`, `1.5s`. Raises ValueError."""
    if text == "0":
        return 0
    if not is_duration(text):
        raise ValueError(f"{text!r} is not a duration such as 30s, 1h30m or 2d")
    total = 0
    for whole, fraction, unit in _DURATION_PART.findall(text):
        length = _DURATION_UNITS[unit]
        total += int(whole) * length
        if fraction:
            total += int(fraction) * length // 10 ** len(fraction)
    if total > LARGEST_INTEGER:
        raise ValueError(f"{text!r} is too long: at most 292 years")
    return total


def parse_size(text: str) -> int:
    """Bytes of `1024`, `64MB`, `10KiB`, all in steps of 1024, as the nats tool does; -1 is no limit."""
    if text == "-1":
        return -1
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size such as 1024, 64MB or 1GiB")
    step = "BKMGTPE".index(found[2].upper() or "B")
    count = int(found[1]) << (10 * step)
    if count > LARGEST_INTEGER:
        raise ValueError(f"{text!r} is larger than 8 EiB")
    return count


def write_duration(nanoseconds: int) -> str:
    """The shortest text that `parse_duration` reads as exactly this: `7d`, `1h30m`, `1s500ms`; `0`."""
    parts = []
    for unit in _WRITTEN_DURATIONS:
        count, nanoseconds = divmod(nanoseconds, _DURATION_UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0"


def write_size(count: int) -> str:
    """The shortest text that `parse_size` reads as exactly this: `1000`, `64MiB`."""
    step = 0
    while count and count % 1024 == 0 and step < len(_SIZES) - 1:
        count, step = count // 1024, step + 1
    return f"{count}{_SIZES[step]}"

"""Durations as Go writes them: "1h30m", "1.5s", "100ms", "-5s", "0".

In this package they are seconds, as floats.
"""

from __future__ import annotations

import re

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"(\d*)(\.(\d*))?([^\d.]*)", re.ASCII)
_NANOSECONDS_LIMIT = 2**63


def parse_duration(text: str) -> float:
    """Seconds. Raises ValueError with Go's explanation."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    if not rest:
        raise ValueError(f'time: invalid duration "{text}"')
    total = 0
    position = 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None or not (part.group(1) or part.group(3)):
            raise ValueError(f'time: invalid duration "{text}"')
        whole, fraction, unit = part.group(1), part.group(3) or "", part.group(4)
        if not unit:
            raise ValueError(f'time: missing unit in duration "{text}"')
        if unit not in _UNITS:
            raise ValueError(f'time: unknown unit "{unit}" in duration "{text}"')
        if len(whole) > 30:  # more digits than any duration has; int() of a huge text is slow
            raise ValueError(f'time: invalid duration "{text[:40]}..."')
        total += int(whole or "0") * _UNITS[unit]
        fraction = fraction[:30]
        total += int(fraction or "0") * _UNITS[unit] // 10 ** len(fraction)
        position = part.end()
    if total > _NANOSECONDS_LIMIT or (total == _NANOSECONDS_LIMIT and sign > 0):
        raise ValueError(f'time: invalid duration "{text}"')
    return sign * total / 10**9


def format_duration(seconds: float) -> str:
    """The way Go prints it: 90.0 is "1m30s", 0.1 is "100ms", 0 is "0s"."""
    nanoseconds = round(abs(seconds) * 10**9)
    sign = "-" if seconds < 0 else ""
    if nanoseconds == 0:
        return "0s"
    for unit in ("ns", "µs", "ms"):
        if nanoseconds < _UNITS[unit] * 1000:
            return f"{sign}{_decimal(nanoseconds, _UNITS[unit])}{unit}"
    minutes, nanoseconds = divmod(nanoseconds, _UNITS["m"])
    text = f"{_decimal(nanoseconds, _UNITS['s'])}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = (f"{hours}h" if hours else "") + f"{minutes}m{text}"
    return sign + text


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    fraction = str(rest).zfill(len(str(unit)) - 1).rstrip("0")
    return f"{whole}.{fraction}" if fraction else str(whole)

"""Durations, sizes and numbers, written the way Go's encoder and nats-server write them."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.config.durations import format_duration
from headrace.go_formats import NANOSECONDS
from headrace.keys.jwt import decode_base64url

MICROSECOND = 1e-6
MILLISECOND = 1e-3
BYTE_UNITS = "KMGTPE"


def format_uptime(nanoseconds: int) -> str:
    """Whole seconds with the units that are needed, up to years: `0s`, `1m0s`, `3d0h0m1s`."""
    minutes, seconds = divmod(max(nanoseconds, 0) // NANOSECONDS, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    years, days = divmod(days, 365)
    parts = [(years, "y"), (days, "d"), (hours, "h"), (minutes, "m")]
    while parts and not parts[0][0]:
        del parts[0]
    return "".join(f"{amount}{unit}" for amount, unit in [*parts, (seconds, "s")])


def format_round_trip(seconds: float) -> str:
    """A duration, rounded down to microseconds if it is shorter than a millisecond: `867µs`, `2.159084ms`."""
    if MICROSECOND < seconds < MILLISECOND:
        seconds = int(seconds / MICROSECOND) * MICROSECOND
    return format_duration(seconds)


def format_bytes(size: int) -> str:
    """With a unit and two decimals: `512 B`, `9.31 GB`, where a GB is 1024 MB."""
    if size < 1024:
        return f"{size} B"
    exponent = min((size.bit_length() - 1) // 10, len(BYTE_UNITS))
    return f"{size / 1024**exponent:.2f} {BYTE_UNITS[exponent - 1]}B"


def plain_number(value: float) -> int | float:
    """A float for JSON: Go leaves out the fraction of a whole number."""
    return int(value) if value == int(value) else value


def to_nanoseconds(seconds: float) -> int:
    return round(seconds * NANOSECONDS)


def show_token(token: str) -> Any:
    """What a token says that was verified before."""
    return msgspec.json.decode(decode_base64url(token.split(".")[1]))

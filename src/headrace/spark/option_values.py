"""Reads the text of an option's value. Each reader raises ValueError with what it expected."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from headrace.client.credentials import is_contents

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

NANOSECONDS_PER_MILLISECOND = 1_000_000
YEAR_10000_MILLISECONDS = 253_402_300_800_000  # Python's times end before it

Start = str | int
"""`earliest`, `latest`, or a sequence."""


def read_text(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text.strip()


def read_path(text: str) -> str:
    """Not contents, which Spark would show: those have an option of their own."""
    if is_contents(text):
        raise ValueError("is the path of a file; what is in it is given with `.secret` added to the name")
    return read_text(text)


def read_directory(text: str) -> str:
    """A directory on this machine, as an absolute path for workers with a different current directory."""
    path = read_text(text).removeprefix("file://")
    if "://" in path:
        raise ValueError("must be a directory that the workers can open, not a URL")
    return os.path.abspath(os.path.expanduser(path))


def read_list(text: str) -> tuple[str, ...]:
    """A comma-separated list; each word once."""
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words:
        raise ValueError("must name at least one, or be a comma-separated list")
    return words


def read_count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError("must be a whole number, 1 or more")
    return number


def read_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:
        raise ValueError("must be a number of seconds, more than 0")
    return seconds


def read_bytes(text: str) -> int:
    """A number of bytes: `1048576`, `64k`, `10m`, `1g`, with or without a final `b`."""
    number = text.strip().lower().removesuffix("b")
    factor = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(number[-1:], 1)
    try:
        return read_count(number.rstrip("kmg")) * factor
    except ValueError:
        raise ValueError("must be a size such as 1048576, 64k, 10m or 1g") from None


def read_switch(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.strip().lower()]
    except KeyError:
        raise ValueError("must be true or false") from None


def read_choice(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.strip().lower() not in choices:
            raise ValueError(f"must be {' or '.join(choices)}")
        return text.strip().lower()

    return read


def read_offsets(text: str) -> str | dict[str, Start]:
    """`earliest`, `latest`, or JSON such as {"ORDERS": 42, "PAYMENTS": "earliest"}."""
    if text.strip().lower() in (EARLIEST, LATEST):
        return text.strip().lower()
    wanted = 'must be earliest, latest, or JSON such as {"ORDERS": 42}'
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{wanted} ({error})") from None
    if not isinstance(value, Mapping) or not value:
        raise ValueError(wanted)
    return {stream: _read_start(stream, start) for stream, start in value.items()}


def _read_start(stream: str, start: object) -> Start:
    if start in (EARLIEST, LATEST):
        return str(start)
    if isinstance(start, bool) or not isinstance(start, int) or start < 1:
        raise ValueError(
            f"must give a sequence, 1 or more, or earliest or latest for {stream}, not {json.dumps(start)}"
        )
    return start


def read_time(text: str) -> int:
    """Nanoseconds since 1970, from milliseconds since then (as Spark's Kafka source) or from ISO 8601."""
    wanted = "must be a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970"
    try:
        milliseconds = int(text)
    except ValueError:
        pass
    else:
        if not 0 <= milliseconds < YEAR_10000_MILLISECONDS:
            raise ValueError(wanted)
        return milliseconds * NANOSECONDS_PER_MILLISECOND
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(wanted) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000

"""Values and times of stored messages, for people and for programs."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

from headrace.cli.output import printable
from headrace.go_formats import NANOSECONDS, format_time


def local_time(nanoseconds: int) -> str:
    """`2026-11-16 20:30:00`, in the time zone of the machine."""
    try:
        return datetime.fromtimestamp(nanoseconds // NANOSECONDS).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return format_time(nanoseconds)


def text_of(data: bytes) -> str:
    """The text, with control characters escaped; base64 if it is none."""
    try:
        return printable(data.decode())
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def data_fields(data: bytes, name: str = "value") -> dict[str, Any]:
    """`value`, or `value_base64` if it is not text."""
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}

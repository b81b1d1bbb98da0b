"""The settings of a stream as the fields of a form have them: texts, and back.

A form sends only what was changed in it, so that editing one setting leaves all others as they are by then.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from headrace.monitor.console.refusal import bad_request
from headrace.quantities import LARGEST_INTEGER, parse_duration, parse_size, write_duration, write_size

LARGEST_MESSAGE = (1 << 31) - 1
NO_LIMIT = -1


class StreamSettings(msgspec.Struct, forbid_unknown_fields=True):
    description: str | UnsetType = UNSET
    subjects: str | UnsetType = UNSET
    """Separated by commas, spaces or lines."""
    retention: Literal["limits", "interest", "workqueue"] | UnsetType = UNSET
    storage: Literal["file", "memory"] | UnsetType = UNSET
    discard: Literal["old", "new"] | UnsetType = UNSET
    max_msgs: str | UnsetType = UNSET
    """This and the other limits: empty is none."""
    max_msgs_per_subject: str | UnsetType = UNSET
    max_bytes: str | UnsetType = UNSET
    max_age: str | UnsetType = UNSET
    max_msg_size: str | UnsetType = UNSET


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return int(text)


LIMITS: dict[str, tuple[str, int, Callable[[str], int], Callable[[int], str]]] = {
    "max_msgs": ("Most messages", LARGEST_INTEGER, _count, str),
    "max_msgs_per_subject": ("Most messages of a subject", LARGEST_INTEGER, _count, str),
    "max_bytes": ("Most bytes", LARGEST_INTEGER, parse_size, write_size),
    "max_age": ("Longest age", LARGEST_INTEGER, parse_duration, write_duration),
    "max_msg_size": ("Largest message", LARGEST_MESSAGE, parse_size, write_size),
}
"""By its field: how the form calls it, the largest one, and how its text is read and written."""


def read_limit(name: str, text: str) -> int:
    """Raises Refusal that names the field of the form."""
    title, largest, read, _ = LIMITS[name]
    text = text.strip()
    if not text:
        return 0 if name == "max_age" else NO_LIMIT
    try:
        value = read(text)
    except ValueError as error:
        raise bad_request(f"{title}: {error}.") from None
    if not 0 < value <= largest:
        raise bad_request(f"{title}: from 1 to {largest}; leave it empty for no limit.")
    return value


def read_settings(settings: StreamSettings) -> dict[str, Any]:
    """The fields of the stream's configuration that a form gives. Raises Refusal."""
    fields: dict[str, Any] = {
        name: value for name in settings.__struct_fields__ if (value := getattr(settings, name)) is not UNSET
    }
    if "subjects" in fields:
        fields["subjects"] = [subject for subject in re.split(r"[\s,]+", fields["subjects"]) if subject]
    for name in LIMITS.keys() & fields.keys():
        fields[name] = read_limit(name, fields[name])
    return fields


def write_settings(config: dict[str, Any]) -> dict[str, str]:
    """A configuration as texts for the fields of a form."""
    limits = {
        name: write(config[name]) if config.get(name, 0) > 0 else ""
        for name, (_, _, _, write) in LIMITS.items()
    }
    names = ("description", "retention", "storage", "discard")
    return {
        "subjects": "\n".join(config.get("subjects", ())),
        **{name: config.get(name, "") for name in names},
        **limits,
    }

"""The types of JSON fields, as nats-server declares them: ranges of numbers, lists of words.

They annotate the structs of the API. Encoding ignores them; `json_requests` decodes by them, and names
them in its errors as nats-server does.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import msgspec


class Number(NamedTuple):
    """An integer type of Go; `go_name` is its name in errors."""

    go_name: str
    lowest: int
    highest: int


class Text(NamedTuple):
    """Any text; `go_name` is the name of its type in errors."""

    go_name: str


class Choice(NamedTuple):
    """One of several words. `complaint` is the error for any other; {quoted} and {raw} are what was sent."""

    words: tuple[str, ...]
    complaint: str = "can not unmarshal {quoted}"
    ignore_case: bool = False
    aliases: tuple[tuple[str, str], ...] = ()
    is_decoded_first: bool = False  # so that a value that is not a string gets its own error


class Moment(NamedTuple):
    """An RFC 3339 time, kept as text."""


SIGNED_64 = (-(1 << 63), (1 << 63) - 1)

Int = Annotated[int, Number("int", *SIGNED_64)]
Int64 = Annotated[int, Number("int64", *SIGNED_64)]
Int32 = Annotated[int, Number("int32", -(1 << 31), (1 << 31) - 1)]
Uint64 = Annotated[int, Number("uint64", 0, (1 << 64) - 1)]
Duration = Annotated[int, Number("time.Duration", *SIGNED_64)]  # nanoseconds
Time = Annotated[str, Moment()]

Retention = Annotated[str, Choice(("limits", "interest", "workqueue"))]
Discard = Annotated[str, Choice(("old", "new"), ignore_case=True)]
Storage = Annotated[str, Choice(("file", "memory"))]
Compression = Annotated[str, Choice(("none", "s2"), "unknown compression algorithm", is_decoded_first=True)]
PersistMode = Annotated[str, Choice(("default", "async"), aliases=(("", "default"),))]
DeliverPolicy = Annotated[
    str,
    Choice(
        ("all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"),
        aliases=(("undefined", "all"),),
    ),
]
AckPolicy = Annotated[str, Choice(("none", "all", "explicit", "flow_control"))]
ReplayPolicy = Annotated[str, Choice(("instant", "original"))]
PriorityPolicy = Annotated[
    str, Choice(("none", "overflow", "pinned_client", "prioritized"), "unknown priority policy: {raw}")
]
ConsumerAction = Annotated[str, Choice(("", "create", "update"), "unknown consumer action: {raw}")]


def always(value: Any) -> Any:
    """A default that is written even in an `omit_defaults` struct, which leaves plain defaults out."""
    return msgspec.field(default_factory=lambda: value)

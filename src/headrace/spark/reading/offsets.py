"""The position of a query in its streams: what Spark writes into its checkpoint for us.

An offset holds one position per stream, and the version of its format:

    {"version": 2, "streams": {"ORDERS":
        {"base": 1, "next": 100001, "parts": 2, "created": 1763250000000000000, "gaps": 0}}}

`next` is the sequence that the following batch starts with. `base` is where the query began, and `parts` how
many partitions the batch that ends here is split into. They are included because Spark may ask for any batch
again, after a crash, perhaps with other options or on another machine, and must get the same rows in the same
partitions: the sink makes message ids of them. `created` distinguishes the stream from one that was created
later with the same name. `gaps` counts the sequences since `base` whose messages were gone before they could
be read; it is here because Spark shows offsets in a query's progress.

Version 1 was the value of `streams` alone, without `gaps`. It is still read, and tells the sink how the ids
of a batch were made that an older version planned (see `message_ids`).

A new query starts from {}, an offset without any position, and finds its first sequence in the `base` of the
end. It must not be a sequence: Spark asks for the initial offset again when it repeats the first batch, and
by then the end of the stream, where `latest` starts, has moved. The messages in between would be silently
lost.

    batch 0   {}            -> base 11, next 15     reads 11 to 14
    batch 1   next 15       -> base 11, next 20     reads 15 to 19
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace import __version__
from headrace.spark.failure import DataLossError, DataSourceError
from headrace.spark.option_values import EARLIEST, Start

VERSION = 2
FIRST_VERSION = 1

INITIAL: dict[str, Any] = {}


@dataclass(frozen=True)
class Position:
    base: int
    next: int
    parts: int = 1
    created: int = 0
    gaps: int = 0


Offset = Mapping[str, Position]


@dataclass(frozen=True)
class Extent:
    """The messages of a stream. Without any, `first` is the sequence that the next one will get."""

    first: int
    last: int
    messages: int = 0
    bytes: int = 0
    created: int = 0
    is_compacted: bool = False
    """Whether the stream keeps a limited number of messages per subject, and so has gaps by design."""

    @property
    def gaps(self) -> int:
        """Sequences between the first and the last without a message."""
        return self.end - self.first - self.messages

    @property
    def end(self) -> int:
        """The sequence that the next message will get."""
        return self.last + 1


@dataclass(frozen=True)
class Range:
    """The messages `first` to `last`, both included, in `parts` partitions."""

    stream: str
    first: int
    last: int
    parts: int


def to_json(offset: Offset) -> dict[str, Any]:
    """As Spark stores it. The order is fixed, because Spark compares the text."""
    streams = {stream: vars(position) for stream, position in sorted(offset.items())}
    return {"version": VERSION, "streams": streams}


def from_json(value: Mapping[str, Any]) -> Offset:
    """Raises DataSourceError if this is not ours, as when a checkpoint of another source is used."""
    version = version_of(value)
    if version is not None and version > VERSION:
        raise DataSourceError(
            f"the checkpoint holds an offset of version {version}, of a newer headrace; "
            f"headrace {__version__} reads versions up to {VERSION}",
            hint="run the query with that headrace, or use another checkpoint directory",
        )
    try:
        streams = value if version == FIRST_VERSION else value["streams"]
        return {
            stream: Position(
                position["base"],
                position["next"],
                position["parts"],
                position["created"],
                0 if version == FIRST_VERSION else position["gaps"],
            )
            for stream, position in streams.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        raise DataSourceError(
            f"the checkpoint holds an offset that is not one of this source: {value}",
            hint="use another checkpoint directory",
        ) from None


def version_of(value: Mapping[str, Any]) -> int | None:
    """The version of an offset's format; None if it is not one of this source.

    In version 1 the keys were streams, one of which may be called `version`: its value is not a number.
    """
    version = value.get("version")
    if isinstance(version, int) and "streams" in value:
        return version
    positions = value.values()
    is_first = all(isinstance(position, Mapping) and "base" in position for position in positions)
    return FIRST_VERSION if is_first else None


def ranges_between(start: Offset, end: Offset) -> list[Range]:
    """What a batch reads: for each stream from its position in `start`, or from `base` if it has none there.

    An end of a stream that was re-created since is read from `base`. If it lies before the start, that is
    certain; otherwise the two have been created at different times.
    """
    ranges = []
    for stream, position in sorted(end.items()):
        before = start.get(stream)
        if before is None or before.next > position.next or is_another(before.created, position.created):
            first = position.base
        else:
            first = before.next
        if first < position.next:
            ranges.append(Range(stream, first, position.next - 1, position.parts))
    return ranges


def resolve(stream: str, wanted: Start, extent: Extent, *, fail_on_data_loss: bool) -> int:
    """The sequence that a start such as `earliest`, `latest` or 42 means, given what the stream has now."""
    if isinstance(wanted, str):
        return extent.first if wanted == EARLIEST else extent.end
    if wanted > extent.end:
        raise DataSourceError(
            f"the stream {stream} ends at {extent.last}, but reading is to start at {wanted}",
            hint=f"the highest start is {extent.end}, or latest",
        )
    return check_kept(stream, wanted, extent, fail_on_data_loss=fail_on_data_loss)


def check_kept(stream: str, first: int, extent: Extent, *, created: int = 0, fail_on_data_loss: bool) -> int:
    """Where reading from `first` actually begins. Raises DataLossError if messages from there on are gone.

    They may have been removed by a limit of the stream, by a purge, or with the stream itself: then there may
    be a new one of that name, which was `created` at another time and is read from its beginning.
    """
    if is_another(created, extent.created) or first > extent.end:
        if fail_on_data_loss:
            raise DataLossError(
                f"the stream {stream} was deleted and re-created since it was read up to {first - 1}",
                hint=LOSS_HINT,
            )
        return extent.first
    if fail_on_data_loss and first < extent.first:
        raise DataLossError(
            f"messages {first} to {extent.first - 1} of the stream {stream} were removed before being read",
            hint=LOSS_HINT,
        )
    return max(first, extent.first)


def is_another(created: int, created_later: int) -> bool:
    """Whether these are times of different streams; 0 is unknown."""
    return bool(created and created_later) and created != created_later


LOSS_HINT = (
    "set failOnDataLoss (in a pipeline fail_on_data_loss) to false to continue with the messages that are "
    "left (`headrace land`: --on-data-loss continue), or use a new checkpoint directory (another --to)"
)


def wanted_start(starts: str | Mapping[str, Start], stream: str) -> Start:
    """The value of the option for one stream."""
    return starts if isinstance(starts, str) else starts[stream]

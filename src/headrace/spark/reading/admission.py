"""Admission control: how far a batch may go, over all streams of a query.

A limit is shared fairly. Streams that have less than an equal share get everything they have, and the others
share the rest; so a quiet stream is never kept waiting by a busy one. Every stream that has something gets at
least one message, because otherwise a small limit would block it forever.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.spark.reading.offsets import Extent, Offset, Position
from headrace.spark.reading.partitions import count_parts


def share(demands: Mapping[str, int], limit: int) -> dict[str, int]:
    """Divide `limit` among streams with messages: each gets at least one, and no more than it has."""
    granted = {}
    left = limit
    waiting = sorted((amount, name) for name, amount in demands.items() if amount > 0)
    for index, (amount, name) in enumerate(waiting):
        granted[name] = max(1, min(amount, left // (len(waiting) - index)))
        left -= granted[name]
    return granted


def advance(
    positions: Offset,
    extents: Mapping[str, Extent],
    *,
    max_rows: int | None = None,
    max_bytes: int | None = None,
    min_partitions: int | None = None,
) -> dict[str, Position]:
    """The end of the next batch.

    `extents` says how far each stream may be read. A limit in bytes is converted to a number of messages with
    the mean size of the messages in the stream.
    """
    ahead = {stream: extents[stream].end - positions[stream].next for stream in extents}
    rows = share(ahead, max_rows if max_rows is not None else sum(ahead.values()))
    if max_bytes is not None:
        sizes = {stream: _mean_size(extents[stream]) for stream in rows}
        granted = share({stream: ahead[stream] * sizes[stream] for stream in rows}, max_bytes)
        rows = {stream: min(rows[stream], max(1, granted[stream] // sizes[stream])) for stream in rows}
    parts = count_parts(rows, min_partitions)
    end = dict(positions)
    for stream, count in rows.items():
        position = positions[stream]
        end[stream] = Position(position.base, position.next + count, parts[stream], extents[stream].created)
    return end


def _mean_size(extent: Extent) -> int:
    return max(1, extent.bytes // extent.messages) if extent.messages else 1

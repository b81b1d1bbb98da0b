"""Counts what was removed from the middle of a stream before a query could read it.

Deletes, purges by subject and message TTLs leave sequences without a message. Nothing in a stream says
whether that was meant to happen, or happened to messages that the query should have seen. So it is not an
error, but counted when a batch is planned, in its offset, which Spark shows in the progress of the query. A
stream with a limit per subject consists of gaps by design, and they are not counted.

The server lists deleted sequences on request. The list comes with the state that it belongs to, which a
consumer's count of pending messages does not: messages that arrive in between would hide as many gaps.
"""

from __future__ import annotations

from bisect import bisect_left

from headrace.spark.connection import Streams
from headrace.spark.notice import warn
from headrace.spark.reading.offsets import Extent

MOST_LISTED = 100_000
"""The list of more than these is too long for a message."""

_told: set[str] = set()


def count_gaps(streams: Streams, stream: str, extent: Extent, first: int, end: int) -> int:
    """The sequences from `first` on, and before `end`, whose messages are gone."""
    removed = max(0, min(extent.first, end) - first)
    inner = 0
    if extent.gaps > MOST_LISTED and not extent.is_compacted:
        if stream not in _told:
            _told.add(stream)
            warn(
                f"the stream {stream} has {extent.gaps:,} deleted messages, too many to count "
                "which of them this query has not read"
            )
    elif extent.gaps and not extent.is_compacted:
        deleted = streams.deleted(stream)
        inner = bisect_left(deleted, end) - bisect_left(deleted, max(first, extent.first))
    if removed + inner:
        warn(
            f"{removed + inner:,} of the messages {first} to {end - 1} of the stream {stream} "
            "were removed before they could be read"
        )
    return removed + inner

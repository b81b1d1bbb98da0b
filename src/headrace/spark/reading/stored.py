"""Reads a partition from the files of a running server: the options `store` and `servers` together.

The server says what the stream has: planning is as without `store`, and a task asks once more before it
reads. Whatever the server reports is on disk, so its files have it. A task that cannot see the directory, and
messages that cannot be read there, are read through the server, with a line in Spark's log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headrace.client.api import StreamInfo
from headrace.client.arrays import Batches
from headrace.client.errors import FetchFailed, StoreUnreadable
from headrace.client.fetch import check_end, check_head, check_identity
from headrace.client.ranges import Range
from headrace.client.store_directory import StoreDirectory
from headrace.client.stored_fetch import StoredFetch
from headrace.spark.connection import Streams
from headrace.spark.failure import DataSourceError
from headrace.spark.notice import notice
from headrace.spark.reading.partitions import StreamPartition

if TYPE_CHECKING:
    import pyarrow


def read_store(
    streams: Streams,
    partition: StreamPartition,
    store: str,
    how: Mapping[str, Any],
    ask: Callable[[int], Iterator[pyarrow.RecordBatch]],
) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a partition. `how` to fetch them; `ask` fetches through the server, from a sequence on."""
    stream, first, last = partition.stream, partition.first, partition.last
    info = streams.server.ask(lambda source: source.stream_info(stream))
    check_identity(info, info.created)
    check_end(info, last)
    if how["fail_on_loss"]:
        check_head(info, first)
    if info.storage != "file":
        raise DataSourceError(f"the stream {stream} is in memory: it has no files", hint="leave out `store`")
    next_seq = first
    try:
        fetch = StoredFetch(StoreDirectory(store), Range(stream, first, last, **how), stops_at_damage=True)
        _check_same(fetch, info, store)
        for batch in fetch.batches(Batches(stream, how["batch_rows"]).take):
            yield batch
            next_seq = fetch.next_seq  # all before it is in the batches so far
        next_seq = fetch.next_seq
    except (StoreUnreadable, FetchFailed) as error:
        notice(f"the stream {stream} is read through the server: {error}")
    if next_seq <= last:
        yield from ask(next_seq)


def _check_same(fetch: StoredFetch, info: StreamInfo, store: str) -> None:
    if fetch.created != info.created:
        raise DataSourceError(
            f"the stream {info.name} in {store} is not the one of the server: it was created at another time",
            hint="`store` is the storage directory of another server, or a copy: leave out it or `servers`",
        )

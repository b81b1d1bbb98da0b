"""`spark.readStream.format("nats")`: the streams as tables that grow.

A restart needs nothing from the server or from memory: the position of the query is in Spark's checkpoint
(see `offsets`). That is why `commit` does nothing. Spark calls it late, when the next batch starts, and not
at all for the last batch of an AvailableNow query, so nothing may depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from headrace.spark.connection import Streams
from headrace.spark.failure import readable_errors
from headrace.spark.notice import warn
from headrace.spark.options import ReadOptions
from headrace.spark.patience import Contact
from headrace.spark.reading.admission import advance
from headrace.spark.reading.gaps import count_gaps
from headrace.spark.reading.offsets import (
    INITIAL,
    Extent,
    Offset,
    Position,
    check_kept,
    from_json,
    is_another,
    ranges_between,
    resolve,
    to_json,
    wanted_start,
)
from headrace.spark.reading.partitions import StreamPartition, split
from headrace.spark.reading.rows import read_rows
from headrace.spark.travel import Traveller

if TYPE_CHECKING:
    import pyarrow


class StreamReader(Traveller, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One per query and process: on the driver it plans batches, on the workers it reads them."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.streams = Streams(options.connection)
        self._bases: dict[str, int] = {}
        self._target: dict[str, Extent] | None = None

    # -- planning, on the driver

    def initialOffset(self) -> dict[str, Any]:
        return INITIAL

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.max_rows is not None:
            return ReadMaxRows(self.options.max_rows)
        if self.options.max_bytes is not None:
            return ReadMaxBytes(self.options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the current end of the streams, where this query ends."""
        with readable_errors():
            self._target = dict(self.streams.extents(self.options.streams))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; `start` itself if there is nothing new.

        A new query gets an end at once, even if there is nothing to read, so that its base is in the
        checkpoint.
        """
        with readable_errors():
            before = from_json(start)
            if before:
                self.streams.server.contact = Contact.MADE  # by an earlier run, if not by this one
            extents = self._readable()
            positions = {stream: self._position(stream, before, extents) for stream in extents}
            unlimited = isinstance(limit, ReadAllAvailable)
            end = advance(
                dict(before) | positions,
                extents,
                max_rows=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
                max_bytes=None if unlimited else self.options.max_bytes,
                min_partitions=self.options.min_partitions,
            )
            moved = [stream for stream in end if _place(end.get(stream)) != _place(before.get(stream))]
            return to_json(end | self._with_gaps(before, positions, end, moved)) if moved else start

    def reportLatestOffset(self) -> dict[str, Any]:
        """The current end of the streams; the lag in a query's progress is the distance to it."""
        with readable_errors():
            extents = self.streams.extents(self.options.streams)
            return to_json({name: Position(extent.first, extent.end) for name, extent in extents.items()})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The same start and end give the same partitions, at any time and with any options.

        Except after data loss that is allowed: a stream that was re-created is not the one that the range was
        planned for. Its partitions are empty in this batch, and the next one reads it from its beginning.
        They are not left out, because the sink makes ids of the partitions' numbers.
        """
        with readable_errors():
            positions = from_json(end)
            self.streams.server.contact = Contact.MADE
            connection = self.options.connection.renewed()
            partitions = []
            for stretch in ranges_between(from_json(start), positions):
                extent = self.streams.extent(stretch.stream)
                created = positions[stretch.stream].created
                self._check(stretch.stream, stretch.first, created, extent)
                parts = split([stretch], connection)
                if is_another(created, extent.created) or stretch.last > extent.last:
                    parts = [part.emptied() for part in parts]
                partitions += parts
            return partitions

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: see the top of this file."""

    def stop(self) -> None:
        self.streams.close()

    # -- reading, on the workers

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, StreamPartition)
        if partition.is_empty:
            return
        streams = Streams(partition.connection or self.options.connection, Contact.MADE)
        with readable_errors():
            try:
                yield from read_rows(streams, partition, self.options, self.options.subjects)
            finally:
                streams.close()

    # -- the positions of the streams

    def _readable(self) -> Mapping[str, Extent]:
        """What the streams have; in an AvailableNow query, what they had when it began."""
        if self._target is None:
            return self.streams.extents(self.options.streams)
        return self._target

    def _position(self, stream: str, before: Offset, extents: Mapping[str, Extent]) -> Position:
        """Where this stream is read next."""
        extent = extents[stream]
        position = before.get(stream)
        if position is None:
            base = self._base(stream, extent)
            return Position(base, base, created=extent.created)
        begin = self._check(stream, position.next, position.created, extent)
        if is_another(position.created, extent.created) or begin < position.next:
            warn(f"the stream {stream} was deleted and re-created: it is read from its beginning, {begin}")
            return Position(begin, begin, created=extent.created)
        return replace(position, next=begin)

    def _with_gaps(
        self, before: Offset, positions: Offset, end: Offset, moved: Sequence[str]
    ) -> dict[str, Position]:
        """The ends of a batch, with the messages that were removed before it could read them."""
        extents = self.streams.extents(self.options.streams)
        counted = {}
        for stream in moved:
            position = before.get(stream, positions[stream])
            is_same = not is_another(position.created, end[stream].created)
            first = position.next if is_same else positions[stream].next
            gaps = count_gaps(self.streams, stream, extents[stream], first, end[stream].next)
            counted[stream] = replace(end[stream], gaps=position.gaps + gaps)
        return counted

    def _check(self, stream: str, first: int, created: int, extent: Extent) -> int:
        fail = self.options.fail_on_data_loss
        return check_kept(stream, first, extent, created=created, fail_on_data_loss=fail)

    def _base(self, stream: str, extent: Extent) -> int:
        """Where this query begins in a stream that it has not read yet. The same every time."""
        if stream not in self._bases:
            self._bases[stream] = self._resolve(stream, extent)
        return self._bases[stream]

    def _resolve(self, stream: str, extent: Extent) -> int:
        if self.options.start_time is not None:
            found = self.streams.sequence_at(stream, self.options.start_time)
            return min(max(found, extent.first), extent.end)
        wanted = wanted_start(self.options.start, stream)
        return resolve(stream, wanted, extent, fail_on_data_loss=self.options.fail_on_data_loss)


def _place(position: Position | None) -> tuple[int, int] | None:
    """What must differ for a batch to be new: a re-created stream may have reached the same sequence."""
    return None if position is None else (position.next, position.created)

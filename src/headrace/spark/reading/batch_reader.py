"""`spark.read.format("nats")`: the streams as tables, as they are when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from headrace.spark.connection import Streams
from headrace.spark.failure import DataSourceError, readable_errors
from headrace.spark.option_values import EARLIEST
from headrace.spark.options import ReadOptions
from headrace.spark.reading.offsets import Extent, Range, resolve, wanted_start
from headrace.spark.reading.partitions import StreamPartition, count_parts, split
from headrace.spark.reading.rows import read_rows
from headrace.spark.travel import Traveller

if TYPE_CHECKING:
    import pyarrow


class BatchReader(Traveller, DataSourceReader):
    """Reads each stream from its start to its end.

    It has no `pushFilters`: with Spark's default settings, a reader that has one cannot be used at all. See
    `pushdown` for the one that has.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.streams = Streams(options.connection, store=options.store if options.is_offline else "")

    def partitions(self) -> Sequence[InputPartition]:
        with readable_errors():
            try:
                return split(self.ranges())
            finally:
                self.streams.close()

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        if not isinstance(partition, StreamPartition):
            return  # this is how Spark represents "no partitions": the streams are empty
        with readable_errors():
            try:
                yield from read_rows(self.streams, partition, self.options, self.subjects())
            finally:
                self.streams.close()

    def ranges(self) -> list[Range]:
        """The ranges to read."""
        bounds = {stream: self.bounds(stream) for stream in self.options.streams}
        rows = {stream: end - first for stream, (first, end) in bounds.items() if first < end}
        parts = count_parts(rows, self.options.min_partitions)
        return [
            Range(stream, first, end - 1, parts[stream])
            for stream, (first, end) in bounds.items()
            if stream in rows
        ]

    def subjects(self) -> tuple[str, ...]:
        """Subject filters for the server; all subjects if empty."""
        return self.options.subjects

    def bounds(self, stream: str) -> tuple[int, int]:
        """The first sequence to read, and the first not to read."""
        extent = self.streams.extent(stream)
        first, end = self._start(stream, extent), self._end(stream, extent)
        if first > end and not (self.options.start_time or self.options.end_time):
            raise DataSourceError(
                f"reading {stream} is to start at {first}, but to end before {end}",
                hint="`startingOffsets` is the first to read, `endingOffsets` the first not to read",
            )
        return first, end

    def _start(self, stream: str, extent: Extent) -> int:
        if self.options.start_time is not None:
            return max(extent.first, self.streams.sequence_at(stream, self.options.start_time))
        wanted = wanted_start(self.options.start, stream)
        return resolve(stream, wanted, extent, fail_on_data_loss=self.options.fail_on_data_loss)

    def _end(self, stream: str, extent: Extent) -> int:
        if self.options.end_time is not None:
            return min(extent.end, self.streams.sequence_at(stream, self.options.end_time))
        wanted = wanted_start(self.options.end, stream)
        if isinstance(wanted, str):
            return extent.first if wanted == EARLIEST else extent.end
        if wanted > extent.end and self.options.fail_on_data_loss:
            raise DataSourceError(
                f"the stream {stream} ends at {extent.last}, but reading is to end before {wanted}",
                hint=f"the highest end is {extent.end}, or latest; or set failOnDataLoss to false",
            )
        return min(wanted, extent.end)

"""The messages of a small batch, read by this process: the driver of a query that Spark runs.

A job of Spark that reads a few thousand messages takes a quarter of a second and more, most of it for
planning and Python processes; reading them takes some ten milliseconds. So a sink that needs nothing else
from Spark reads small batches here: the same messages, with the same checks. `StreamReader` plans and reads.

Nothing is lost by trying. Batches that are too large, or that fail in any way, are left to Spark, which waits
for a server that is away, and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError
from headrace.spark.connection import Streams
from headrace.spark.options import Use, read_options
from headrace.spark.reading.offsets import from_json, ranges_between
from headrace.spark.reading.partitions import StreamPartition
from headrace.spark.reading.rows import read_rows
from headrace.spark.reading.stream_reader import StreamReader

if TYPE_CHECKING:
    import pyarrow

MOST_ROWS = 100_000
"""With more, Spark's tasks, which run in parallel, are faster than one process."""
MOST_BYTES = 32 << 20
PAUSE_BATCHES = 20
"""This many batches are left to Spark after one that was too large: the next ones probably are, too."""


class SmallReader:
    """The small batches of one query. `options` are those of its source."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = read_options({name.lower(): str(value) for name, value in options.items()}, Use.STREAM)
        # Waiting for a server that is away is left to Spark.
        self._options = replace(given, connection=replace(given.connection, reconnect_timeout=0.0))
        self._reader = StreamReader(self._options)
        self._pause = 0

    def read(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> pyarrow.Table | None:
        """The messages between two offsets; None if Spark has to read them."""
        if self._pause:
            self._pause -= 1
            return None
        ranges = ranges_between(from_json(start), from_json(end))
        if sum(stretch.last - stretch.first + 1 for stretch in ranges) > MOST_ROWS:
            return None
        try:
            return self._read(start, end)
        except (HeadraceError, OSError):
            return None
        finally:
            self._reader.stop()  # there is no notification when a query is over

    def leave_to_spark(self) -> None:
        """Leave batches to Spark for a while."""
        self._pause = PAUSE_BATCHES

    def _read(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> pyarrow.Table | None:
        import pyarrow

        batches: list[pyarrow.RecordBatch] = []
        size = 0
        streams: Streams = self._reader.streams
        for partition in self._reader.partitions(dict(start), dict(end)):
            assert isinstance(partition, StreamPartition)
            if partition.is_empty:
                continue
            for batch in read_rows(streams, partition, self._options, self._options.subjects):
                size += batch.nbytes
                if size > MOST_BYTES:
                    self.leave_to_spark()
                    return None
                batches.append(batch)
        return pyarrow.Table.from_batches(batches) if batches else None

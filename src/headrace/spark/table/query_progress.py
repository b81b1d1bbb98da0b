"""Which messages a batch holds, and which query it belongs to: what Spark has written into its checkpoint.

    metadata        {"id": "…"}       the query, for as long as its checkpoint exists
    offsets/7       v1, a line about the batch, then for each source the offset at which batch 7 ends

    commits/7                         batch 7 is done, and will not be repeated

The offsets are written before the batch runs. The highest sequence among the rows would not be enough: the
last messages of a batch may have been deleted, or left out by a filter, and would be read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.spark.failure import DataSourceError, SparkError
from headrace.spark.reading.offsets import INITIAL, Offset, from_json
from headrace.spark.table.files import Files
from headrace.spark.table.interface import StreamPosition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Positions = Mapping[str, StreamPosition]


@dataclass(frozen=True)
class BatchSpan:
    """The ranges of a batch: for each stream, where it begins, and where the next one will."""

    starts: Positions
    ends: Positions


class QueryProgress:
    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._files = Files(spark, checkpoint)
        self._query = ""

    def exists(self) -> bool:
        return self._files.exists("metadata")

    @property
    def query(self) -> str:
        if not self._query:
            self._query = str(json.loads(self._files.read("metadata"))["id"])
        return self._query

    def last_recorded(self) -> int:
        """The last batch that Spark will not repeat; -1 if there is none."""
        numbers = [int(file.name) for file in self._files.list("commits") if file.name.isdecimal()]
        return max(numbers, default=-1)

    def span(self, batch: int) -> BatchSpan:
        before: dict[str, int] = {}
        if batch and self._files.exists(f"offsets/{batch - 1}"):
            for offset in self._offsets(batch - 1):
                for stream, position in offset.items():
                    before[stream] = min(position.next, before.get(stream, position.next))
        starts: dict[str, StreamPosition] = {}
        ends: dict[str, StreamPosition] = {}
        for offset in self._offsets(batch):
            for stream, position in offset.items():
                first = StreamPosition(before.get(stream, position.base), position.created)
                end = StreamPosition(position.next, position.created)
                # Two sources may read the same stream: the table is complete up to the lower one.
                starts[stream] = min(first, starts.get(stream, first), key=lambda found: found.next)
                ends[stream] = min(end, ends.get(stream, end), key=lambda found: found.next)
        return BatchSpan(starts, ends)

    def offsets(self, batch: int) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        """The start and the end of a batch, as its source knows them; None unless there is exactly one."""
        starts = self._lines(batch - 1) if batch else [json.dumps(INITIAL)]
        ends = self._lines(batch)
        if len(starts) != 1 or len(ends) != 1:
            return None
        return json.loads(starts[0]), json.loads(ends[0])

    def _lines(self, batch: int) -> list[str]:
        """One for each source."""
        version, _, *lines = self._files.read(f"offsets/{batch}").splitlines()
        if version != "v1":
            raise SparkError(f"the checkpoint in {self._files.root} has the unknown version {version}")
        return lines

    def _offsets(self, batch: int) -> list[Offset]:
        """The offsets of those sources that are ours."""
        found = []
        for line in self._lines(batch):
            try:
                found.append(from_json(json.loads(line)))
            except (ValueError, AttributeError, DataSourceError):
                continue  # `-`, or another source
        return found

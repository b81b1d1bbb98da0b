"""Splits a range of a stream into partitions, which Spark reads in parallel."""

from __future__ import annotations

import heapq
import itertools
import os
from collections.abc import Iterable, Mapping

from pyspark.sql.datasource import InputPartition

from headrace.spark.connection_options import ConnectionOptions
from headrace.spark.reading.offsets import Range

# Below this, starting another task costs more than it saves.
SMALLEST_PARTITION_ROWS = 50_000

# If it is not known how many tasks can run at once: enough for a cluster, not too many for one machine.
USUAL_PARTITION_ROWS = 100_000
MOST_PARTITIONS = 128

PARALLELISM_VARIABLE = "HEADRACE_SPARK_PARALLELISM"


class StreamPartition(InputPartition):
    """The messages `first` to `last` of a stream, both included.

    For a streaming read it also has the credentials of that time, which may be newer than the reader.
    """

    def __init__(
        self, stream: str, first: int, last: int, connection: ConnectionOptions | None = None
    ) -> None:
        self.stream = stream
        self.first = first
        self.last = last
        self.connection = connection

    @property
    def is_empty(self) -> bool:
        return self.last < self.first

    def emptied(self) -> StreamPartition:
        """A replacement that reads nothing."""
        return StreamPartition(self.stream, self.first, self.first - 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamPartition) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.stream, self.first, self.last))


def count_parts(rows: Mapping[str, int], at_least: int | None) -> dict[str, int]:
    """How many partitions each stream gets, by the number of sequences to read.

    Each gets one for every task that can run at once, if that leaves each of them enough to do. If those are
    fewer than `at_least`, the largest partitions are split until there are enough.
    """
    cores = parallelism()
    most, smallest = (cores, SMALLEST_PARTITION_ROWS) if cores else (MOST_PARTITIONS, USUAL_PARTITION_ROWS)
    parts = {stream: max(1, min(most, count // smallest)) for stream, count in rows.items()}
    sizes = [(-rows[stream] / parts[stream], stream) for stream in sorted(rows)]
    heapq.heapify(sizes)
    for _ in range((at_least or 0) - sum(parts.values())):
        if not sizes or sizes[0][0] >= -1:
            break  # there are no more messages than partitions
        stream = sizes[0][1]
        parts[stream] += 1
        heapq.heapreplace(sizes, (-rows[stream] / parts[stream], stream))
    return parts


def parallelism() -> int | None:
    """How many tasks Spark can run at once, if that is known here.

    Spark plans in separate processes, and does not tell them this. In those of a session that
    `spark_session` started, the environment has it, as far as the settings say it. The cores of the
    machine that plans say nothing about the cluster.
    """
    number = os.environ.get(PARALLELISM_VARIABLE, "")
    return int(number) if number.isdecimal() and int(number) else None


def split(ranges: Iterable[Range], connection: ConnectionOptions | None = None) -> list[StreamPartition]:
    """Partitions of nearly the same size. The same ranges always give the same partitions."""
    return [
        StreamPartition(stretch.stream, first, last, connection)
        for stretch in ranges
        for first, last in _split_one(stretch.first, stretch.last, stretch.parts)
    ]


def _split_one(first: int, last: int, parts: int) -> Iterable[tuple[int, int]]:
    count = last - first + 1
    edges = [first + count * part // parts for part in range(parts + 1)]
    return [(start, end - 1) for start, end in itertools.pairwise(edges) if start < end]

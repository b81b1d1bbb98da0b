"""Splits a range of a stream into partitions, which Spark reads in parallel."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable

from pyspark.sql.datasource import InputPartition

from headrace.spark.offsets import Range

# Below this, starting another task costs more than it saves.
SMALLEST_PARTITION_ROWS = 50_000


class StreamPartition(InputPartition):
    """The messages `first` to `last` of a stream, both included."""

    def __init__(self, stream: str, first: int, last: int) -> None:
        self.stream = stream
        self.first = first
        self.last = last

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamPartition) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.stream, self.first, self.last))


def count_parts(rows: int, at_least: int | None) -> int:
    """How many partitions a range of `rows` sequences gets.

    By default one per core of the machine that plans, if that leaves each of them enough to do.
    """
    usual = min(os.cpu_count() or 1, rows // SMALLEST_PARTITION_ROWS)
    return max(1, min(rows, at_least) if at_least else usual)


def split(ranges: Iterable[Range]) -> list[StreamPartition]:
    """Partitions of nearly the same size. The same ranges always give the same partitions."""
    return [
        StreamPartition(stretch.stream, first, last)
        for stretch in ranges
        for first, last in _split_one(stretch.first, stretch.last, stretch.parts)
    ]


def _split_one(first: int, last: int, parts: int) -> Iterable[tuple[int, int]]:
    count = last - first + 1
    edges = [first + count * part // parts for part in range(parts + 1)]
    return [(start, end - 1) for start, end in itertools.pairwise(edges) if start < end]

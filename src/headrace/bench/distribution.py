"""Percentiles from the engine's log-linear histogram: exact counts, values within 1/128.

A percentile is the nearest rank: the lowest value such that at least this share of all values is not above
it. Nothing is interpolated, so p99.99 of a thousand values is the highest one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.bench.histogram import Histogram

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)


@dataclass(frozen=True)
class Distribution:
    """Upper bounds in microseconds, ascending, with the count under each, and the highest value exactly."""

    bounds_us: tuple[float, ...]
    counts: tuple[int, ...]
    max_us: float

    @property
    def count(self) -> int:
        return sum(self.counts)

    def percentile(self, percent: float) -> float:
        """In microseconds. Raises ValueError if there are no values."""
        if not self.counts:
            raise ValueError("no values, so no percentile")
        # The product may be slightly above a whole number, and the next rank would be wrong.
        rank = max(1, math.ceil(round(self.count * percent / 100, 6)))
        seen = 0
        for bound, count in zip(self.bounds_us, self.counts, strict=True):
            seen += count
            if seen >= rank:
                return min(bound, self.max_us)
        return self.max_us

    def percentiles(self) -> dict[str, float]:
        return {f"p{percent:g}": self.percentile(percent) for percent in PERCENTILES} | {"max": self.max_us}


@dataclass(frozen=True)
class Slice:
    """What was sent (or was due) in one interval of the run."""

    number: int
    start_seconds: float
    seconds: float
    distribution: Distribution
    rate_wanted: float | None = None


def distributions(
    histogram: Histogram, run_seconds: float, rate_wanted: float | None = None
) -> tuple[Distribution, list[Slice]]:
    """The whole run, and its slices; the last one ends with the run."""
    seconds = histogram.slice_nanoseconds / 1e9
    slices = []
    for number in histogram.used():
        last = number == histogram.slices - 1 or (number + 1) * seconds > run_seconds
        length = max(run_seconds - number * seconds, 0.0) if last else seconds
        slices.append(Slice(number, number * seconds, length, _of_slice(histogram, number), rate_wanted))
    return merge(part.distribution for part in slices), slices


def merge(parts: Iterable[Distribution]) -> Distribution:
    counts: Counter[float] = Counter()
    highest = 0.0
    for part in parts:
        counts.update(dict(zip(part.bounds_us, part.counts, strict=True)))
        highest = max(highest, part.max_us)
    bounds = tuple(sorted(counts))
    return Distribution(bounds, tuple(counts[bound] for bound in bounds), highest)


def _of_slice(histogram: Histogram, number: int) -> Distribution:
    buckets = histogram.buckets(number)
    return Distribution(
        tuple(bound / 1000 for bound, _ in buckets),
        tuple(count for _, count in buckets),
        histogram.highest(number) / 1000,
    )

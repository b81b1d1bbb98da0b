"""A histogram: how many values were in each of a few fixed ranges."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Of the values up to each bound and above the one before; the last ones are above all bounds."""
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

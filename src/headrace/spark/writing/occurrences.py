"""Counts how often each number was seen before, over millions of numbers that come in arrays.

Numbers from a stream usually rise, and each occurs once: then an array is just kept. The arrays kept are
merged into a few sorted ones, each at least twice as long as the next, so that looking up and merging cost
little however many numbers there are:

    [ 1 … 70000 ]  [ 70001 … 90000 ]  [ 90001 … 98192 ]
"""

from __future__ import annotations

from typing import Any

import numpy

Counted = tuple[Any, Any]
"""Distinct numbers in ascending order, and how often each was seen."""


class Occurrences:
    def __init__(self) -> None:
        self._seen: list[Counted] = []
        self._highest: int | None = None

    def number(self, values: Any) -> Any | None:
        """For each value how often it came before, in this array or an earlier one; None if none ever did."""
        if not len(values):
            return None
        rises = bool((values[1:] > values[:-1]).all())
        if rises and (self._highest is None or values[0] > self._highest):
            self._remember(values, numpy.ones(len(values), numpy.int32))
            return None
        different, inverse, counts = numpy.unique(values, return_inverse=True, return_counts=True)
        starts = numpy.cumsum(counts) - counts
        found = numpy.empty(len(values), numpy.int64)
        found[numpy.argsort(values, kind="stable")] = numpy.arange(len(values)) - numpy.repeat(starts, counts)
        found += self._look_up(different)[inverse]
        self._remember(different, counts)
        return found if found.any() else None

    def _look_up(self, values: Any) -> Any:
        total = numpy.zeros(len(values), numpy.int64)
        for numbers, counts in self._seen:
            if numbers[0] <= values[-1] and values[0] <= numbers[-1]:
                places = numpy.minimum(numpy.searchsorted(numbers, values), len(numbers) - 1)
                total += numpy.where(numbers[places] == values, counts[places], 0)
        return total

    def _remember(self, numbers: Any, counts: Any) -> None:
        self._seen.append((numbers, counts))
        self._highest = int(numbers[-1]) if self._highest is None else max(self._highest, int(numbers[-1]))
        while len(self._seen) > 1 and len(self._seen[-2][0]) < 2 * len(self._seen[-1][0]):
            later, earlier = self._seen.pop(), self._seen.pop()
            self._seen.append(_merged(earlier, later))


def _merged(one: Counted, other: Counted) -> Counted:
    numbers = numpy.concatenate((one[0], other[0]))
    counts = numpy.concatenate((one[1], other[1]))
    if one[0][-1] < other[0][0]:
        return numbers, counts
    different, inverse = numpy.unique(numbers, return_inverse=True)
    return different, numpy.bincount(inverse, weights=counts).astype(numpy.int64)

"""The arithmetic of a benchmark: even shares, medians with their spread, percentiles."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """Several rounds of one measurement."""

    median: float
    lowest: float
    highest: float

    @property
    def spread(self) -> float:
        """The distance from lowest to highest as a share of the median."""
        return (self.highest - self.lowest) / self.median if self.median else 0.0


def summarize(values: Sequence[float]) -> Summary:
    return Summary(statistics.median(values), min(values), max(values))


def share_evenly(total: int, clients: int) -> list[int]:
    """Divide messages among clients; no two shares differ by more than one, and they add up to the total."""
    base, left_over = divmod(total, clients)
    return [base + 1] * left_over + [base] * (clients - left_over)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value below which `percent` of the ascending values lie, interpolated between neighbours."""
    if not ordered:
        raise ValueError("no values, so no percentile")
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

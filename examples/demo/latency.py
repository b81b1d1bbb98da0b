"""How long orders took into the table.

The latency of an order is the time from when it was due to be sent until the Parquet file that holds it was
in the table, where every reader sees it. From when it was due, not from when it was sent: if feed or server
stall, that counts. A file that a restarted pipeline wrote again counts from the second time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from examples.demo.orders import Plan
from examples.demo.watch import LandedFile

PERCENTS = (50.0, 90.0, 99.0)


@dataclass(frozen=True)
class Latency:
    """Of one order."""

    due: float
    """Seconds since 1970."""
    seconds: float

    @property
    def landed(self) -> float:
        return self.due + self.seconds


def latencies(plan: Plan, files: Iterable[LandedFile]) -> list[Latency]:
    """Of all orders whose file was seen. The feed is the only publisher: order n has sequence n + 1.

    What a compacted file holds has landed before, in files of its own; it counts only where those were not
    seen, and says then that it took longer than it did.
    """
    at: list[float | None] = [None] * plan.count
    for file in sorted(files, key=lambda file: (not file.compacted, file.at)):
        first, last = max(file.first_seq, 1), min(file.last_seq, plan.count)
        at[first - 1 : last] = [file.at] * (last - first + 1)
    dues = (plan.due_ms(number) / 1000 for number in range(plan.count))
    return [Latency(due, landed - due) for due, landed in zip(dues, at, strict=True) if landed is not None]


def undisturbed(found: Iterable[Latency], killed: float, back: float) -> list[Latency]:
    """Without the orders that had to wait because the pipeline was down: due before it was back and not in
    the table when it was killed."""
    return [latency for latency in found if latency.due >= back or latency.landed <= killed]


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The nearest rank: the lowest value such that at least this share of all is not above it."""
    return ordered[max(1, math.ceil(round(len(ordered) * percent / 100, 6))) - 1]

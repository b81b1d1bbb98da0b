"""How long orders took into the table.

The latency of an order is the time from when it was due to be sent until the commit that holds it was in the
table's log, where every reader sees it. From when it was due, not from when it was sent: if feed or server
stall, that counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from examples.demo.orders import Plan
from examples.demo.watch import Batch

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


def latencies(plan: Plan, batches: Iterable[Batch]) -> list[Latency]:
    """Of all orders that landed. The feed is the only publisher: order n has sequence n + 1."""
    found: list[Latency] = []
    for batch in batches:
        for number in range(len(found), min(batch.next - 1, plan.count)):
            due = plan.due_ms(number) / 1000
            found.append(Latency(due, batch.at - due))
    return found


def undisturbed(found: Iterable[Latency], killed: float, back: float) -> list[Latency]:
    """Without the orders that had to wait because the pipeline was down: due before it was back and not in
    the table when it was killed."""
    return [latency for latency in found if latency.due >= back or latency.landed <= killed]


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The nearest rank: the lowest value such that at least this share of all is not above it."""
    return ordered[max(1, math.ceil(round(len(ordered) * percent / 100, 6))) - 1]

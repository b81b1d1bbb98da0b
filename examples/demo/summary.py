"""The result of a run as words and figures, the same on the screen and on the page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from examples.demo.job import Outcome
from examples.demo.latency import PERCENTS, Latency, latencies, percentile, undisturbed
from examples.demo.reconcile import Check
from headrace.bench.report.tables import Table

DEFINITION = (
    "From the moment an order was due to be sent until the commit that holds it was in the table's log, "
    "where any reader sees it."
)
ADDS_UP = "Everything adds up: nothing is lost, nothing is duplicated."


def adds_up(checks: Sequence[Check]) -> bool:
    return all(check.adds_up for check in checks)


def verdict(checks: Sequence[Check]) -> str:
    """One sentence."""
    if adds_up(checks):
        return ADDS_UP
    wrong = [
        f"{check.name}: {check.lost:,} lost, {check.duplicate:,} duplicate, {check.wrong:,} wrong"
        for check in checks
        if not check.adds_up
    ]
    return f"It does not add up. {'; '.join(wrong)}."


def reconciliation(checks: Sequence[Check]) -> Table:
    rows = [
        (
            check.name,
            *(
                f"{count:,}"
                for count in (check.expected, check.found, check.lost, check.duplicate, check.wrong)
            ),
        )
        for check in checks
    ]
    return Table(("", "expected", "found", "lost", "duplicate", "wrong"), rows, texts=1)


class Latencies:
    """Of all orders, and of those that did not have to wait for the restart."""

    def __init__(self, outcome: Outcome) -> None:
        self.every = latencies(outcome.plan, outcome.batches)
        self.undisturbed = undisturbed(self.every, outcome.killed, outcome.back)

    def groups(self) -> list[tuple[str, list[float]]]:
        """Names and ordered seconds; a group without an order is left out."""
        named = [("while the pipeline ran", self.undisturbed), ("all, with the restart", self.every)]
        return [(name, sorted(one.seconds for one in found)) for name, found in named if found]

    def table(self) -> Table:
        head = ("publish to table", "orders", *(f"p{percent:g}" for percent in PERCENTS), "max")
        rows = [
            (
                name,
                f"{len(ordered):,}",
                *(seconds(percentile(ordered, percent)) for percent in PERCENTS),
                seconds(ordered[-1]),
            )
            for name, ordered in self.groups()
        ]
        return Table(head, rows, texts=1)

    def by_second(self, outcome: Outcome) -> list[tuple[int, list[float]]]:
        """Ordered seconds of the orders that were due in each second of the run."""
        found: dict[int, list[Latency]] = {}
        for latency in self.every:
            found.setdefault(int(outcome.second(latency.due)), []).append(latency)
        return [(second, sorted(one.seconds for one in group)) for second, group in sorted(found.items())]


def throughput(outcome: Outcome) -> list[str]:
    """Sentences."""
    count = outcome.plan.count
    rates = [
        (after.landed - before.landed) / (after.second - before.second)
        for before, after in pairwise(outcome.samples)
    ]
    last = outcome.samples[-1]
    down = outcome.back - outcome.killed
    return [
        f"{count:,} orders published in {outcome.published_seconds:.1f} s "
        f"({count / outcome.published_seconds:,.0f}/s), each acknowledged when it was on disk.",
        f"{last.landed:,} landed in {last.second:.1f} s ({last.landed / last.second:,.0f}/s), "
        f"at most {max(rates):,.0f} within a second.",
        f"The pipeline was killed at second {outcome.second(outcome.killed):.0f} and landed orders again "
        f"{down:.1f} s later; most of that is the start of Spark.",
    ]


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"

"""The result as one HTML page that needs nothing else, with the pieces of the benchmark's report."""

from __future__ import annotations

from html import escape
from pathlib import Path

from examples.demo import charts, summary
from examples.demo.job import Outcome
from examples.demo.summary import Latencies
from headrace.bench.machine import describe_machine
from headrace.bench.report.markup import document, figures, section, table

WHAT_HAPPENED = (
    "Time counts from the first order. “Running” are the orders that did not have to wait for the restart. "
    "Bars go from the lowest to the highest latency of a second."
)
TITLE = "From messages to tables, through a kill"


def write_page(outcome: Outcome, found: Latencies, path: Path) -> None:
    good = summary.adds_up(outcome.checks)
    verdict = escape(summary.verdict(outcome.checks))
    plots = [charts.progress(outcome)]
    if found.every:
        plots += [charts.distribution(found), charts.latency_over_time(outcome, found)]
    parts = [
        f'<p class="soft">{escape(_where())}</p>',
        f"<p{'' if good else ' class=warning'}><strong>{verdict}</strong></p>",
        *(f"<p>{escape(sentence)}</p>" for sentence in summary.throughput(outcome)),
        *section("Reconciliation", _reconciliation(outcome)),
        table(summary.reconciliation(outcome.checks)),
        *section("What happened", WHAT_HAPPENED),
        *figures(plots),
        *section("Latency from publish to table", summary.DEFINITION),
        table(found.table()),
        *section("Revenue", "As the table of windows has it, which the pipeline keeps for closed windows."),
        *figures([charts.revenue(outcome)]),
    ]
    path.write_text(document(TITLE, parts))


def _where() -> str:
    machine = describe_machine()
    return (
        f"{machine['date']}, on {machine['cpu']}, {machine['cores']} cores, {machine['kernel']}, "
        f"{machine['python']}. A demonstration on a machine that does everything at once, not a benchmark."
    )


def _reconciliation(outcome: Outcome) -> str:
    count = outcome.expected.open_windows
    still_open = "last window is" if count == 1 else f"last {count} windows are"
    return (
        "Expected is what follows from the seed of the feed, in plain Python; found is what was read from "
        "streams and tables after the pipeline had stopped. Orders are compared byte by byte, alerts and "
        f"sums field by field. The {still_open} still open, and so not in the table yet."
    )

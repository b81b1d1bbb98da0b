"""The demo's page in a real browser, for a run that adds up and for one that does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from examples.demo.job import Outcome
from examples.demo.orders import Plan, expected
from examples.demo.page import write_page
from examples.demo.reconcile import Check
from examples.demo.summary import Latencies
from examples.demo.watch import Batch, Sample
from tests.browser import browse

pytestmark = pytest.mark.timeout(180)  # a browser on a busy machine

PLAN = Plan(seed=7, rate=100, count=4000, start_ms=1_800_000_000_000)
START = PLAN.start_ms / 1000
GOOD = Check("orders landed", 4000, 4000, 0, 0, 0)


def outcome() -> Outcome:
    """Landed once a second, but for a kill at 15 that lasts until 25."""
    landings = [second for second in range(1, 42) if not 15 < second < 25]
    samples = [
        Sample(second, min(4000, second * 100), min(4000, second * 100), max(0, landed) * 100, 2, second)
        for second in range(1, 42)
        for landed in [max((at - 1 for at in landings if at <= second), default=0)]
    ]
    batches, first = [], 1
    for second in landings[1:]:
        last = (second - 1) * 100
        batches.append(Batch(last - first + 1, last + 1, START + second))
        first = last + 1
    wanted = expected(PLAN)
    revenue = [(at, row.orders, row.cents) for at, row in wanted.revenue.items()]
    return Outcome(PLAN, samples, batches, START + 15, START + 25, 40.1, [GOOD], revenue, wanted)


def test_a_browser_shows_the_charts_and_the_reconciliation(tmp_path: Path) -> None:
    found = outcome()
    write_page(found, Latencies(found), tmp_path / "report.html")
    page, console, requested = browse(tmp_path / "report.html", tmp_path)
    assert page.tags.count("svg") == 4
    assert page.tags.count("polyline") == 2 + 2 + 1 + 5
    assert page.text.count("kill -9") == 2
    assert "Everything adds up" in page.text
    for text in ("orders landed", "4,000", "lost", "duplicate", "p99", "Revenue per 5 seconds and country"):
        assert text in page.text
    assert [address for address in page.addresses if not address.startswith("data:")] == []
    assert "script" not in page.tags
    assert "CONSOLE" not in console
    assert [url for url in requested if not url.startswith(("file:", "data:"))] == []


def test_a_page_of_a_run_that_does_not_add_up_says_so(tmp_path: Path) -> None:
    found = outcome()
    found.checks.append(replace(GOOD, found=4001, lost=1, duplicate=2))
    write_page(found, Latencies(found), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "It does not add up. orders landed: 1 lost, 2 duplicate, 0 wrong." in text
    assert "Everything adds up" not in text

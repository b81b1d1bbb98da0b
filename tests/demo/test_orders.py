"""What a run must bring follows from its plan alone."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from examples.demo.latency import Latency, latencies, percentile, undisturbed
from examples.demo.orders import LARGE_CENTS, MALFORMED_EVERY, Plan, Revenue, Window, expected
from examples.demo.watch import Batch
from examples.shop.large_orders import LARGE

START_MS = 1_800_000_000_000
PLAN = Plan(seed=7, rate=100, count=2500, start_ms=START_MS)


def test_a_plan_always_has_the_same_orders() -> None:
    orders = list(PLAN.orders())
    assert orders == list(PLAN.orders())
    assert orders != list(Plan(8, 100, 2500, START_MS).orders())
    assert [order.id for order in orders] == list(range(2500))
    assert {order.country for order in orders} == {"de", "fr", "es", "it", "pl"}


def test_a_payload_says_what_the_order_is() -> None:
    order = next(PLAN.orders())
    content = json.loads(order.payload)
    assert (content["id"], content["country"], content["item"]) == (0, order.country, order.item)
    assert content["amount"] == order.cents / 100
    assert datetime.fromisoformat(content["time"]).timestamp() * 1000 == START_MS


def test_the_last_windows_stay_open() -> None:
    # 25 seconds less 10 ms, and the watermark is 2 seconds behind: windows that end at 20 are closed.
    found = expected(PLAN)
    assert {at.start_ms - START_MS for at in found.revenue} == {0, 5000, 10_000, 15_000}
    assert found.open_windows == 1
    good = [order for order in PLAN.orders() if not order.is_malformed]
    by_hand = [order for order in good if order.country == "es" and order.time_ms < START_MS + 5000]
    revenue = Revenue(len(by_hand), sum(order.cents for order in by_hand))
    assert found.revenue[Window(START_MS, "es")] == revenue
    assert sum(row.orders for row in found.revenue.values()) == 1999


def test_alerts_are_those_of_the_pipeline() -> None:
    assert LARGE * 100 == LARGE_CENTS
    amounts = {order.id: order.cents / 100 for order in PLAN.orders() if not order.is_malformed}
    large = {number for number, amount in amounts.items() if amount >= LARGE}
    assert {number for number, _, _ in expected(PLAN).alerts} == large
    assert 0 < len(large) < 250


def test_a_malformed_order_is_wrong_in_one_of_four_ways() -> None:
    plan = Plan(7, 100, MALFORMED_EVERY * 5, START_MS)
    found = expected(plan)
    assert len(found.malformed) == 5
    assert len(found.rows) == plan.count - 5
    cut, text, missing, garbled, again = found.malformed
    with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
        json.loads(cut)
    assert json.loads(text)["amount"].startswith("EUR ")
    assert "id" not in json.loads(missing)
    with pytest.raises(UnicodeDecodeError):
        garbled.decode()
    with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
        json.loads(again)


def batch(rows: int, after: int, at: float) -> Batch:
    return Batch(rows, after, START_MS / 1000 + at)


def test_latency_counts_from_when_an_order_was_due() -> None:
    plan = Plan(7, 1, 4, START_MS)  # due at 0, 1, 2, 3
    batches = [batch(2, 3, 1.5), batch(0, 3, 2.0), batch(1, 4, 9.0), batch(1, 5, 20.0)]
    found = latencies(plan, batches)
    assert [round(latency.seconds, 6) for latency in found] == [1.5, 0.5, 7.0, 17.0]
    assert len(latencies(plan, batches[:2])) == 2


def test_orders_that_waited_for_the_restart_are_told_apart() -> None:
    before, waiting, meanwhile, after = Latency(1, 1), Latency(2, 9), Latency(6, 5), Latency(10, 1)
    assert undisturbed([before, waiting, meanwhile, after], killed=3, back=10) == [before, after]


def test_percentiles_are_nearest_ranks() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, rank) for rank in (1, 50, 90, 99, 99.9, 100)] == [1, 50, 90, 99, 100, 100]
    assert percentile([3.0], 50) == 3.0

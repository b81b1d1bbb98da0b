"""The ledger of a consumer: floors, redelivery queue and order of deadlines."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.streams.pending import Pending
from headrace.streams.consumers.ledger import Ledger


def deliver(ledger: Ledger, seqs: list[int], time: int = 0) -> None:
    for seq in seqs:
        ledger.delivered_consumer += 1
        ledger.delivered_stream = seq
        ledger.pending[seq] = (ledger.delivered_consumer, time)


def test_floor_stays_until_the_oldest_is_acknowledged() -> None:
    ledger = Ledger(Pending())
    deliver(ledger, [1, 2, 3, 4])
    ledger.acknowledge(2)
    ledger.acknowledge(3)
    assert ledger.floor == (0, 0)
    ledger.acknowledge(1)
    assert ledger.floor == (3, 3)
    ledger.acknowledge(4)
    assert ledger.floor == (4, 4)


def test_floor_skips_the_gaps_of_a_filter() -> None:
    ledger = Ledger(Pending())
    deliver(ledger, [10, 20, 30])
    assert ledger.floor == (0, 0)
    ledger.acknowledge(10)
    assert ledger.floor == (1, 19)
    ledger.acknowledge(20)
    ledger.acknowledge(30)
    assert ledger.floor == (3, 30)


def test_acknowledging_all_takes_everything_before() -> None:
    ledger = Ledger(Pending())
    deliver(ledger, [1, 2, 3, 4])
    assert ledger.acknowledge_up_to(3, 3) == [1, 2, 3]
    assert ledger.floor == (3, 3)
    assert list(ledger.pending) == [4]


def test_acknowledging_all_can_be_done_in_parts() -> None:
    """After each part the floor is where it would be if that had been all."""
    ledger = Ledger(Pending())
    deliver(ledger, [10, 20, 30, 40, 50])
    assert ledger.acknowledge_up_to(40, 4, 2) == [10, 20]
    assert ledger.floor == (2, 20)
    assert ledger.acknowledge_up_to(40, 4, 2) == [30, 40]
    assert ledger.floor == (4, 40)
    assert ledger.acknowledge_up_to(40, 4, 2) == []
    assert (ledger.floor, list(ledger.pending)) == ((4, 40), [50])


def test_what_is_not_in_order_is_acknowledged_at_once() -> None:
    ledger = Ledger(Pending())
    deliver(ledger, [10, 20, 30, 40])
    ledger.renew(10, 9)
    assert sorted(ledger.acknowledge_up_to(30, 3, 2)) == [10, 20, 30]
    assert ledger.floor == (3, 30)


def test_a_renewed_message_goes_to_the_end_of_the_time_order() -> None:
    ledger = Ledger(Pending())
    deliver(ledger, [1, 2], time=5)
    assert ledger.renew(1, 9)
    assert [seq for seq, _, _ in ledger.in_time_order()] == [2, 1]
    assert not ledger.renew(7, 9)


def test_a_delayed_message_is_out_of_the_time_order() -> None:
    ledger = Ledger(Pending())
    deliver(ledger, [1, 2], time=5)
    ledger.delay(1, 100)
    assert [seq for seq, _, _ in ledger.in_time_order()] == [2]
    ledger.acknowledge(1)
    assert not ledger.delayed


def test_giving_up_keeps_the_count_of_deliveries() -> None:
    ledger = Ledger(Pending())
    deliver(ledger, [1])
    ledger.redelivered[1] = 3
    ledger.give_up(1)
    assert ledger.redelivered == {1: 3}
    assert ledger.floor == (0, 0)


def test_giving_up_after_the_floor_has_moved() -> None:
    ledger = Ledger(Pending())
    deliver(ledger, [1, 2])
    ledger.acknowledge(1)
    ledger.give_up(2)
    assert ledger.floor == (1, 1)


@given(st.permutations(list(range(1, 9))), st.integers(1, 8))
def test_floor_is_below_everything_pending_in_any_order(order: list[int], count: int) -> None:
    ledger = Ledger(Pending())
    deliver(ledger, list(range(1, 9)))
    asked_often, acknowledged = Ledger(Pending()), set()
    deliver(asked_often, list(range(1, 9)))
    for seq in order[:count]:
        ledger.acknowledge(seq)
        asked_often.acknowledge(seq)
        acknowledged.add(seq)
        unbroken = next(seq for seq in range(1, 10) if seq not in acknowledged) - 1
        assert asked_often.floor == (unbroken, unbroken)
    assert ledger.floor == asked_often.floor


@pytest.mark.parametrize("seed", range(20))
def test_what_is_pending_below_a_sequence_is_found_whatever_happened_before(seed: int) -> None:
    """Also renewed ones, which come after later messages. Compared with a plain set."""
    chance = random.Random(seed)
    ledger, pending, delivered = Ledger(Pending()), set[int](), 0
    for now in range(300):
        action = chance.choice(["deliver", "deliver", "renew", "acknowledge", "up to", "drop"])
        some = chance.randint(1, delivered + 1)
        if action == "deliver":
            delivered += 1
            ledger.pending[delivered] = (delivered, now)
            pending.add(delivered)
        elif action == "renew":
            assert ledger.renew(some, now) == (some in pending)
        elif action == "acknowledge":
            ledger.acknowledge(some)
            pending.discard(some)
        elif action == "up to" and chance.random() < 0.3:
            assert sorted(ledger.acknowledge_up_to(some, some)) == sorted(x for x in pending if x <= some)
            pending = {seq for seq in pending if seq > some}
        elif action == "drop" and chance.random() < 0.3:
            assert ledger.drop_below(some) == any(seq < some for seq in pending)
            pending = {seq for seq in pending if seq >= some}
        assert set(ledger.pending) == pending

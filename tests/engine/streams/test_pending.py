"""What awaits acknowledgements, compared with a dict and a list, whatever happens in whatever order."""

from __future__ import annotations

import random
import sys

import pytest

from headrace.engine.streams.pending import Pending

Entry = tuple[int, int]
LARGEST = 2**64 - 1


class Model:
    """The same, as slow and as simple as can be: entries in the order in which they came."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, Entry]] = []

    def __setitem__(self, seq: int, entry: Entry) -> None:
        self.pop(seq)
        self.entries.append((seq, entry))

    def pop(self, seq: int) -> Entry | None:
        found = dict(self.entries).get(seq)
        self.entries = [other for other in self.entries if other[0] != seq]
        return found


def check(pending: Pending, model: Model) -> None:
    entries = dict(model.entries)
    assert len(pending) == len(entries)
    assert list(pending.items()) == sorted(model.entries, key=lambda entry: entry[1][1])
    assert list(pending) == [seq for seq, _ in pending.items()]
    assert pending.copy() == pending == Pending(entries)
    numbers = [number for part in pending.number_parts(7) for number in part]
    assert Pending.from_numbers(numbers) == pending
    if entries:
        assert pending.lowest() == min(entries)


@pytest.mark.parametrize("seed", range(40))
def test_it_is_a_dict_in_the_order_of_time(seed: int) -> None:
    chance = random.Random(seed)
    gaps = chance.choice([1, 1, 5])
    chances = [chance.random() for _ in range(5)]
    pending, model, delivered = Pending(), Model(), 0
    for time in range(chance.choice([60, 600])):
        action = chance.choices(["deliver", "next", "any", "again", "below"], chances)[0]
        some = chance.choice([seq for seq, _ in model.entries] or [1])
        if action == "deliver":
            for _ in range(chance.randint(1, 10)):
                delivered += chance.randint(1, gaps)
                pending[delivered] = model[delivered] = (time, time)
        elif action == "next" and model.entries:  # a run, from anywhere
            run = [seq for seq, _ in model.entries if seq >= some][: chance.randint(1, 30)]
            for seq in run:
                assert pending.get(seq) == pending.pop(seq) == model.pop(seq)
        elif action == "any":
            absent = chance.randint(0, delivered + 3)
            assert (absent in pending) == (absent in dict(model.entries))
            assert pending.pop(absent) == model.pop(absent)
        elif action == "again" and (entry := model.pop(some)):
            pending[some] = model[some] = (entry[0], time)
        elif action == "below" and chance.random() < 0.2:
            lower = sorted(seq for seq, _ in model.entries if seq < some)
            assert sorted(pending.below(some, len(lower) + 1)) == lower
            if pending.is_in_order:
                assert pending.below(some, 3) == lower[:3]
            for seq in lower:
                assert pending[seq] == pending.pop(seq) == model.pop(seq)
        if chance.random() < 0.1:
            check(pending, model)
    check(pending, model)
    pending.clear()
    check(pending, Model())


def test_the_order_is_restored_when_what_was_moved_is_gone() -> None:
    pending = Pending({1: (1, 1), 2: (2, 1), 3: (3, 1)})
    assert pending.is_in_order
    pending[1] = (1, 9)
    assert not pending.is_in_order
    assert list(pending) == [2, 3, 1]
    assert pending.below(3, 1) == [2, 1]
    pending.pop(1)
    assert pending.is_in_order


def test_what_is_added_after_all_are_gone_may_be_lower() -> None:
    pending = Pending({9: (1, 1)})
    pending.pop(9)
    pending[3] = (2, 2)
    assert pending.is_in_order
    assert list(pending.items()) == [(3, (2, 2))]


def test_one_that_is_never_acknowledged_does_not_keep_the_others() -> None:
    pending = Pending({1: (1, 0)})
    for seq in range(2, 100_000):
        pending[seq] = (seq, seq)
        pending.pop(seq - 1 if seq > 2 else LARGEST)
    assert list(pending) == [1, 99_999]
    assert sys.getsizeof(pending) < 1024


def test_memory_is_given_back_while_some_are_always_pending() -> None:
    pending = Pending()
    for seq in range(1, 100_001):
        pending[seq] = (seq, seq)
    assert sys.getsizeof(pending) >= 24 * 100_000
    for seq in range(100_001, 300_000):
        pending[seq] = (seq, seq)
        for gone in range(seq - 100_000, seq) if seq == 100_001 else [seq - 1]:
            pending.pop(gone)
    assert list(pending) == [299_999]
    assert sys.getsizeof(pending) < 64 * 1024


def test_a_walk_in_parts_sees_what_is_pending_when_it_gets_there() -> None:
    pending = Pending({seq: (seq, seq) for seq in range(1, 8)})
    pending[2] = (2, 10)
    pending[4] = (4, 11)
    parts = pending.parts(2)
    assert next(parts) == [1, 3]
    pending.pop(4)
    pending.pop(6)
    pending[8] = (8, 12)
    assert list(parts) == [[5], [7], [2]]
    assert list(Pending().parts(2)) == []
    assert list(Pending({LARGEST: (1, 1)}).parts(2)) == [[LARGEST]]


def test_a_walk_in_parts_misses_nothing_that_is_delivered_again_meanwhile() -> None:
    """In the second round of redeliveries all of them go back to the array, one after another."""
    pending = Pending({seq: (seq, seq) for seq in range(1, 13)})
    for seq in range(1, 13):
        pending[seq] = (seq + 12, seq + 12)
    again = iter(range(1, 13))
    seen = []
    for part in pending.parts(2):
        seen += part
        for seq in (next(again, 12), next(again, 12), next(again, 12)):
            pending[seq] = (seq + 24, seq + 24)
    assert sorted(seen) == list(range(1, 13))


@pytest.mark.parametrize("seed", range(10))
def test_parts_are_everything_once_if_nothing_changes(seed: int) -> None:
    chance = random.Random(seed)
    pending = Pending()
    for time in range(chance.randint(0, 300)):
        pending[chance.randint(1, 400)] = (time, time)
        pending.pop(chance.randint(1, 400))
    parts = list(pending.parts(chance.randint(1, 20)))
    assert sorted(seq for part in parts for seq in part) == sorted(pending)


def test_a_walk_notices_a_change() -> None:
    pending = Pending({1: (1, 1), 2: (2, 2)})
    walk = iter(pending)
    next(walk)
    pending.pop(2)
    with pytest.raises(RuntimeError, match="during a walk"):
        next(walk)


def test_numbers_that_do_not_fit_are_refused() -> None:
    pending = Pending()
    pending[LARGEST - 1] = (LARGEST - 1, -(2**63))
    assert pending.below(2**70, 9) == [LARGEST - 1]
    for seq, entry in [(-1, (1, 1)), (2**64, (1, 1)), (1, (LARGEST, 1)), (1, (-1, 1)), (1, (1, 2**63))]:
        with pytest.raises(OverflowError):
            pending[seq] = entry
    assert len(pending) == 1
    for seq in (-1, 2**64):
        assert seq not in pending
        assert pending.get(seq) is pending.pop(seq) is None
    with pytest.raises(ValueError, match="three"):
        Pending.from_numbers([1, 2])
    with pytest.raises(KeyError):
        pending[1]

"""Gaps in the sequences, and questions that are answered in parts: of a log that changes in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from headrace.engine.store.store import Watcher

JUMP = 2**53
MANY = 3000


@pytest.fixture(params=["memory", "files"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """Without a committer what is committed is on disk at once."""
    made = Log(None if request.param == "memory" else str(tmp_path / "log"))
    made.recover()
    yield made
    made.close()


def append(log: Log, *subjects: bytes) -> None:
    for subject in subjects:
        log.append(subject, b"", b"")
    log.commit()


@pytest.fixture
def wide(log: Log) -> Log:
    """Messages 1 to 3 and, of the same subject, one that is very far behind them."""
    append(log, b"x", b"x", b"x")
    log.append(b"x", b"", b"", seq=JUMP)
    log.commit()
    return log


@pytest.mark.timeout(60)
def test_the_last_message_of_a_subject_is_found_across_a_gap(wide: Log) -> None:
    wide.remove(3)
    wide.remove(JUMP)
    assert wide.last(b"x") == 2
    assert wide.subject_state(b"x") == (2, 1, 2)


@pytest.mark.timeout(60)
def test_the_last_message_of_a_subject_is_found_if_its_successor_names_none(wide: Log) -> None:
    append(wide, b"x")
    wide.remove(3)
    wide.remove(JUMP)  # which leaves a message whose predecessors are not known
    wide.append(b"x", b"", b"", seq=2 * JUMP)
    wide.commit()
    wide.remove(JUMP + 1)
    wide.remove(2 * JUMP)
    assert wide.last(b"x") == 2


@pytest.mark.timeout(60)
def test_neighbours_are_found_across_a_gap(wide: Log) -> None:
    assert wide.previous(JUMP - 1) == 3
    assert wide.previous(2**64 - 1) == JUMP
    assert wide.previous(0) == 0
    assert wide.following(4) == JUMP
    assert wide.following(JUMP + 1) == JUMP + 1
    wide.remove(1)
    wide.remove(2)
    assert wide.previous(2) == 0


@pytest.mark.timeout(60)
def test_deleted_sequences_of_a_gap_are_listed_in_parts(wide: Log) -> None:
    assert wide.deleted(2, 5) == [4, 5, 6]
    assert wide.deleted(JUMP - 2, 10) == [JUMP - 2, JUMP - 1]


def test_a_long_search_for_the_last_message_continues_where_it_was(log: Log) -> None:
    append(log, b"x", b"x", *[b"y"] * MANY, b"x", b"x")
    log.remove(MANY + 3)
    log.remove(MANY + 4)
    assert not log.settle(b"x", 1000)
    assert not log.settle(b"x", 1000)
    assert not log.settle(b"x", 1000)
    assert log.settle(b"x", 1000)
    assert log.last(b"x") == 2
    assert log.settle(b"no such", 1000)


def test_a_search_in_all_subjects_is_done_in_parts(log: Log) -> None:
    append(log, *[b"s.%d.x" % number for number in range(MANY)], b"s.0.y")
    wanted = Filter((b"s.*.x",))
    seq = place = parts = 0
    while place < log.places(wanted):
        seq, place = log.look_for_last(wanted, place, seq, 1000)
        parts += 1
    assert seq == MANY
    assert parts == 4


def test_the_last_messages_of_subjects_are_found_in_parts(log: Log) -> None:
    append(log, *[b"s.%d" % number for number in range(MANY)], b"s.7")
    found: dict[bytes, int] = {}
    seq, place, parts = MANY + 1, 0, 0
    while place < log.places(Filter((b"s.*",))):
        first, place = log.first_up_to(found, Filter((b"s.*",)), MANY, place, 1000)
        seq, parts = min(seq, first), parts + 1
    assert found == {b"s.%d" % number: number + 1 for number in range(MANY)}
    assert parts == 3


def test_plain_subjects_are_looked_up_among_very_many(log: Log) -> None:
    append(log, *[b"s.%d" % number for number in range(MANY)])
    wanted = Filter((b"s.7", b"no.such", b"s.9"))
    assert log.places(wanted) == 3
    assert log.last_sequences(wanted, MANY, 0, 3) == ([8, 10], 3)


def test_a_filter_of_many_subjects_finds_what_is_far_ahead(log: Log) -> None:
    append(log, *[b"y"] * MANY, b"s.99", b"y", b"s.3")
    wanted = Filter(tuple(b"s.%d" % number for number in range(100)))
    found, _ = log.look_for(1, wanted, 100)
    assert found is not None
    assert found.seq == MANY + 1
    found, _ = log.look_for(MANY + 2, wanted, 100)
    assert found is not None
    assert found.seq == MANY + 3
    assert log.look_for(MANY + 4, wanted, 100) == (None, 0)
    assert log.look_for(1, Filter(tuple(b"t.%d" % number for number in range(100))), 100) == (None, 0)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 11)),
        st.tuples(st.just("remove"), st.integers(1, 40)),
        st.tuples(st.just("count"), st.integers(1, 4)),
        st.tuples(st.sampled_from(["commit", "purge"]), st.just(0)),
    ),
    max_size=60,
)


@given(st.lists(st.integers(0, 11), max_size=20), STEPS)
def test_what_is_ahead_is_counted_while_the_log_changes(
    before: list[int], steps: list[tuple[str, int]]
) -> None:
    """Whatever comes and goes between two parts of the walk along the index."""
    log = Log(None)
    append(log, *[b"s.%d.%d" % (number % 2, number) for number in before])
    watcher = Watcher()
    watcher.next_seq, watcher.filter = log.first_seq, Filter((b"s.1.*",))
    log.begin_to_watch(watcher)
    for step, number in steps:
        if step == "append":
            log.append(b"s.%d.%d" % (number % 2, number), b"", b"")
        elif step == "remove":
            log.remove(number)
        elif step == "count":
            log.count_ahead(watcher, number)
        elif step == "purge":
            log.purge()
        else:
            log.commit()
    while not log.count_ahead(watcher, 1):
        pass
    log.commit()
    expected = log.count_from(0, watcher.filter)
    assert watcher.num_pending == expected

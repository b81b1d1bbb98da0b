"""Segments that are unreadable at a start and readable at the next: what nobody removed is there again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.engine.store.log import Log
from tests.engine.store.logs import files, messages

MESSAGES = 300
SEGMENT = 4096
HEAD = 128  # of a segment


class Bad:
    """A log one of whose segments (or all but the last) reads wrongly for the time being."""

    def __init__(self, directory: Path, *places: int) -> None:
        self.directory = directory
        log = self.open()
        self.ends = {0: 0}
        for number in range(MESSAGES):
            log.append(b"subject.%d" % (number % 3), b"", b"payload number %d" % number)
            log.commit()
            self.ends[log.segment_files] = number + 1
        log.close()
        for index in files(directory, "idx"):
            index.unlink()  # as after a kill before the chore ran
        self.good = {path: path.read_bytes() for path in (files(directory, "log")[place] for place in places)}
        for path, data in self.good.items():
            path.write_bytes(data[:HEAD] + bytes(byte ^ 1 for byte in data[HEAD:]))

    def open(self) -> Log:
        log = Log(str(self.directory), segment_bytes=SEGMENT)
        log.recover()
        return log

    def range_of(self, place: int) -> range:
        """The sequences of a segment."""
        return range(self.ends[place] + 1, self.ends[place + 1] + 1)

    def heal(self) -> Log:
        for path, data in self.good.items():
            assert path.exists(), "it was unlinked"
            path.write_bytes(data)
        return self.open()


@pytest.mark.parametrize("places", [(0,), (1,), (0, 1), (2,), (1, 3)])
def test_a_segment_that_is_all_damaged_is_not_removed(quick_path: Path, places: tuple[int, ...]) -> None:
    bad = Bad(quick_path / "log", *places)
    lost = {seq for place in places for seq in bad.range_of(place)}
    for _ in range(3):
        log = bad.open()
        assert set(messages(log)) & lost == set()
        log.append(b"subject.0", b"", b"new")
        log.commit()
        log.close()
    log = bad.heal()
    assert sorted(messages(log)) == list(range(1, MESSAGES + 4))
    log.close()


def test_all_that_was_stored_is_damaged(quick_path: Path) -> None:
    bad = Bad(quick_path / "log")
    count = len(files(quick_path / "log", "log"))
    bad = Bad(quick_path / "again", *range(count - 1))
    log = bad.open()
    log.remove_many(list(bad.range_of(count - 1)))
    log.commit()
    assert log.count == 0
    assert log.append(b"subject.0", b"", b"new") == MESSAGES + 1
    log.commit()
    log.close()
    log = bad.heal()
    assert sorted(messages(log)) == [*range(1, bad.ends[count - 1] + 1), MESSAGES + 1]
    log.close()


def test_removing_what_is_before_it_does_not_remove_it(quick_path: Path) -> None:
    """As the acknowledgements of a work queue do."""
    bad = Bad(quick_path / "log", 1)
    log = bad.open()
    for seq in bad.range_of(0):
        assert log.remove(seq)
        log.commit()
    log.close()
    log = bad.open()
    log.append(b"subject.0", b"", b"new")
    log.commit()
    log.close()
    log = bad.heal()
    assert sorted(messages(log)) == list(range(bad.range_of(1).start, MESSAGES + 2))
    log.close()


def test_what_was_removed_from_it_before_stays_removed(quick_path: Path) -> None:
    bad = Bad(quick_path / "log", 0)
    (path,) = bad.good
    path.write_bytes(bad.good[path])
    log = bad.open()
    removed = list(bad.range_of(0))[3:6]
    log.remove_many(removed)
    log.commit()
    while log.segment_files < 8:  # so that the segment with that removal is sealed
        log.append(b"subject.0", b"", b"x" * 500)
        log.commit()
    last = log.last_seq
    log.close()
    for index in files(quick_path / "log", "idx"):
        index.unlink()
    path.write_bytes(path.read_bytes()[:HEAD] + b"\xff" * (len(bad.good[path]) - HEAD))
    log = bad.open()
    log.remove_many(list(range(bad.range_of(1).start, last - 5)))  # rewrites, unlinks
    log.commit()
    for _ in range(20):
        log.append(b"subject.0", b"", b"x")
        log.commit()
    log.close()
    log = bad.heal()
    assert set(bad.range_of(0)) - set(messages(log)) == set(removed)
    log.close()


@pytest.mark.parametrize(
    "way",
    [
        lambda log, end: log.purge(),
        lambda log, end: log.compact(end),
        lambda log, end: log.compact(log.last_seq + 10),
        lambda log, end: log.configure(max_msgs=10),
        lambda log, end: log.configure(max_bytes=500),
        lambda log, end: log.expire(1 << 62, 0, 1 << 60),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_purge_or_a_limit_or_an_age_beyond_it_removes_it(
    quick_path: Path, place: int, way: Callable[[Log, int], object]
) -> None:
    bad = Bad(quick_path / "log", place)
    log = bad.open()
    way(log, bad.range_of(place).stop + 5)
    log.commit()
    log.append(b"subject.0", b"", b"new")
    log.commit()
    left = sorted(messages(log))
    assert left
    assert log.count == len(left)
    log.close()
    log = bad.open()
    assert sorted(messages(log)) == left
    log.close()
    assert not any(path.exists() for path in bad.good)


def test_a_purge_into_the_middle_of_it_keeps_the_rest(quick_path: Path) -> None:
    bad = Bad(quick_path / "log", 1)
    middle = bad.range_of(1).start + 7
    log = bad.open()
    log.compact(middle)
    log.commit()
    assert log.first_seq == middle
    log.close()
    log = bad.heal()
    assert sorted(messages(log)) == list(range(middle, MESSAGES + 1))
    log.close()

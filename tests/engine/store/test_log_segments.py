"""Segments: dead ones go, mostly dead ones are rewritten, and nothing that was removed ever comes back."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engine.store.committer import Committer
from headrace.engine.store.log import Log
from tests.engine.store.logs import EVERYTHING, files, messages, reopen, settle


def make_log(directory: Path, committer: Committer | None, count: int = 0) -> Log:
    log = Log(str(directory), committer=committer, segment_bytes=4096)
    assert log.recover() == []
    append(log, committer, count)
    return log


def append(log: Log, committer: Committer | None, count: int, subject: bytes = b"s") -> None:
    for _ in range(count):
        log.append(subject, b"", b"%100d" % (log.last_seq + 1))
        if log.last_seq % 10 == 0:
            assert settle(log, committer) is None
    assert settle(log, committer) is None


def wait_for_chores(log: Log, committer: Committer | None) -> Log:
    """Closing waits for what is under way; opening starts what is left."""
    return reopen(reopen(log, committer), committer)


def size(directory: Path) -> int:
    return sum(path.stat().st_size for path in files(directory, "log"))


def test_a_log_is_cut_into_segments_with_an_index_each(quick_path: Path, committer: Committer | None) -> None:
    log = make_log(quick_path, committer, 200)
    assert log.segment_files == len(files(quick_path, "log")) > 5
    before = messages(log)
    log = reopen(log, committer)
    assert len(files(quick_path, "idx")) == log.segment_files
    assert messages(log) == before
    log.close()


def test_what_was_taken_ahead_is_zeros_after_groups_of_any_size(
    quick_path: Path, committer: Committer | None
) -> None:
    """Small groups are followed by zeros that were written, large ones by space that was only taken."""
    log = Log(str(quick_path / "log"), committer=committer)
    assert log.recover() == []
    for number, length in enumerate((10, 100, 5_000, 100_000, 20, 60_000, 300_000, 1, 1_000)):
        log.append(b"s", b"", b"%d" % number * length)
        assert settle(log, committer) is None
        copy = quick_path / f"copy{number}"  # what a crash would leave
        shutil.copytree(quick_path / "log", copy)
        (file,) = files(copy, "log")
        assert len(file.read_bytes().rstrip(b"\0")) < file.stat().st_size
        assert not any(file.read_bytes()[-1000:])
        found = Log(str(copy), committer=committer)
        assert found.recover() == []
        assert messages(found) == messages(log)
        found.close()
    log.close()


def test_a_message_larger_than_a_segment(quick_path: Path, committer: Committer | None) -> None:
    log = make_log(quick_path, committer, 20)
    log.append(b"big", b"", b"x" * 50_000)
    append(log, committer, 20)
    log = reopen(log, committer)
    message = log.get(21)
    assert message is not None
    assert message.payload == b"x" * 50_000
    assert log.count == 41
    log.close()


def test_retention_drops_whole_segments(quick_path: Path, committer: Committer | None) -> None:
    log = make_log(quick_path, committer)
    log.configure(max_msgs=50)
    append(log, committer, 500)
    log = wait_for_chores(log, committer)
    assert len(files(quick_path, "log")) <= 4
    assert sorted(messages(log)) == list(range(451, 501))
    log.close()


def test_purging_leaves_one_segment(quick_path: Path, committer: Committer | None) -> None:
    log = make_log(quick_path, committer, 500)
    assert log.purge() == 500
    assert settle(log, committer) is None
    log = wait_for_chores(log, committer)
    assert len(files(quick_path, "log")) == 1
    assert (log.first_seq, log.last_seq) == (501, 500)
    append(log, committer, 10)
    assert sorted(messages(log)) == list(range(501, 511))
    log.close()


def test_a_mostly_dead_segment_is_rewritten(quick_path: Path, committer: Committer | None) -> None:
    log = make_log(quick_path, committer, 1000)
    before = size(quick_path)
    log.remove_many(seq for seq in range(1, 990) if seq % 20)
    assert settle(log, committer) is None
    left = messages(log)
    log = wait_for_chores(log, committer)
    for _ in range(40):  # one chore at a time
        log = reopen(log, committer)
    assert size(quick_path) < before / 4
    assert messages(log) == left
    assert log.damages == []
    # The places of messages that are not there any more can still be asked for.
    assert log.get(21) is None
    assert not log.remove(21)
    assert log.remove(40)
    assert settle(log, committer) is None
    log = reopen(log, committer)
    assert log.get(40) is None
    log.close()


def test_removals_are_kept_as_long_as_they_matter(quick_path: Path, committer: Committer | None) -> None:
    """The first segment stays half alive; the others die, with the removals of its messages in them."""
    log = make_log(quick_path, committer, 24)
    for seq in range(2, 24, 3):
        append(log, committer, 30, b"other")  # the removal stands among these
        assert log.remove(seq)
        assert settle(log, committer) is None
    log.remove_many(range(25, log.last_seq + 1))
    assert settle(log, committer) is None
    left = sorted(set(range(1, 25)) - set(range(2, 24, 3)))
    for _ in range(10):
        log = reopen(log, committer)
        assert sorted(messages(log)) == left
        assert log.subjects(EVERYTHING) == {b"s": (len(left), 1, 24)}
    assert size(quick_path) < 12_000
    log.close()


def test_reading_goes_on_while_segments_are_rewritten(quick_path: Path) -> None:
    committer = Committer(2)
    log = make_log(quick_path, committer)
    log.configure(max_msgs_per_subject=1)
    for k in range(3000):
        log.append(b"key.%d" % (k * 31 % 100 if k % 4 else k % 1000), b"", b"%50d" % k)
        if k % 7 == 0:
            assert settle(log, committer) is None
        if k % 100 == 0:
            found = messages(log)
            assert all(int(message[2]) + 1 == seq for seq, message in found.items())
            assert len({message[0] for message in found.values()}) == len(found)
    assert settle(log, committer) is None
    assert log.damages == []
    assert log.count == len(messages(log)) == log.num_subjects
    before = messages(log)
    log = reopen(log, committer)
    assert messages(log) == before
    log.close()
    committer.close()


def test_sparse_sequences(quick_path: Path, committer: Committer | None) -> None:
    log = make_log(quick_path, committer)
    seqs = [1, 2, 50_000, 50_001, 10_000_000, 2**40, 2**40 + 5_000_000_000]
    for seq in seqs:
        log.append(b"s", b"", b"%d" % seq, 0, seq)
    assert settle(log, committer) is None
    log = reopen(log, committer)
    assert sorted(messages(log)) == seqs
    assert log.get(3) is None
    assert log.count_from(50_001, EVERYTHING) == 4
    log.close()


def test_many_sealed_segments_are_not_all_kept_open(quick_path: Path) -> None:
    log = make_log(quick_path, None)
    for _ in range(3000):
        log.append(b"s", b"", b"x" * 200)
    log.commit()
    assert log.segment_files > 150
    log = reopen(log, None)
    assert len(messages(log)) == 3000
    assert 0 < count_open_files(quick_path) < 70
    log.close()


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Objects are freed by their reference counts alone."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_a_dropped_log_is_freed_without_the_garbage_collector(
    quick_path: Path, committer: Committer | None
) -> None:
    """No part of a log holds a reference to the log. What is in flight is written before it goes."""
    log = make_log(quick_path, committer, 100)
    assert count_open_files(quick_path) > 0
    log.append(b"s", b"", b"last")
    done: list[str | None] = []
    log.when_committed(done.append)
    del log
    if committer is not None:
        committer.close()
    assert done == [None]
    assert count_open_files(quick_path) == 0
    log = make_log(quick_path, None)
    assert messages(log)[101] == (b"s", b"", b"last")
    log.close()


def count_open_files(directory: Path) -> int:
    return sum(is_in(path, directory) for path in Path("/proc/self/fd").iterdir())


def is_in(descriptor: Path, directory: Path) -> bool:
    try:
        return descriptor.readlink().is_relative_to(directory)
    except OSError:
        return False

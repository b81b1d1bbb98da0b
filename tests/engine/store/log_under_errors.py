"""Scenarios for a process of its own, with errors.c preloaded: `python -m ... <scenario> <directory>`.

An error of the operating system is an error: whoever asked is told, nothing has changed, and later it works.
Each prints one line at its end; an AssertionError is a failure.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from headrace.engine.basics.filters import Filter
from headrace.engine.store.committer import Committer
from headrace.engine.store.log import Log
from tests.engine.store.logs import EVERYTHING, messages, settle, watch
from tests.engine.store.test_log_compression import plain_bytes

SEGMENT = 4096
SUBJECT = Filter((b"subject.1",))
SOME = Filter((b"subject.1", b"subject.2", b"*.3"))


def library() -> ctypes.CDLL:
    return ctypes.CDLL(os.environ["LD_PRELOAD"].split()[-1])


def fill(log: Log, count: int, subjects: int = 7) -> None:
    for _ in range(count):
        seq = log.last_seq + 1
        log.append(b"subject.%d" % (seq % subjects), b"", b"message %d " % seq * (1 + seq % 13), time=seq)
    log.commit()


def make(directory: str, count: int, **options: str) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    log = Log(directory, segment_bytes=SEGMENT, **options)  # type: ignore[arg-type]
    log.recover()
    fill(log, count)
    log.close()


def opened(directory: str, committer: Committer | None = None) -> Log:
    log = Log(directory, segment_bytes=SEGMENT, committer=committer)
    assert log.recover() == []
    return log


def state(log: Log) -> tuple[object, ...]:
    """All that is known without reading."""
    return (
        log.count,
        log.byte_count,
        log.first_seq,
        log.last_seq,
        log.deleted(),
        log.count_subjects(EVERYTHING),
    )


def no_descriptors(directory: str) -> str:
    """A process without a free descriptor reads nothing, and loses nothing."""
    make(directory, 600)
    log = opened(directory)
    warnings: list[str] = []
    log.on_warning = warnings.append
    before = state(log)
    assert log.segment_files >= 12
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        assert error.errno == errno.EMFILE  # noqa: PT017
    for ask in (
        lambda: log.get(1),
        lambda: log.next(1, EVERYTHING),
        lambda: log.remove(1),
        lambda: log.compact(99),
    ):
        try:
            ask()
        except OSError as error:
            assert "Too many open files" in str(error)  # noqa: PT017
        else:
            raise AssertionError("read without a descriptor")
    assert state(log) == before
    assert log.damages == []
    assert len(warnings) == 1
    assert "Too many open files" in str(log.check_reading())
    # One descriptor is enough for all segments.
    os.close(taken.pop())
    assert len(messages(log)) == 600
    assert log.check_reading() is None
    for descriptor in taken:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    log.close()
    log = opened(directory)
    assert len(messages(log)) == 600
    log.close()
    return "600 of 600"


def remove_matching(log: Log) -> object:
    seq, removed = log.first_seq, 0
    while seq <= log.last_seq:
        some, seq = log.remove_matching(seq, log.last_seq, SOME, log.count + 1, 50)
        removed += some
    return sorted(messages(log))


def append_beyond(**limits: int) -> Callable[[Log], object]:
    def ask(log: Log) -> object:
        if log.last_seq == 300:
            log.configure(**limits, at_once=False)  # type: ignore[arg-type]
            log.enforce(1 << 60)
        log.append(b"subject.1", b"", b"new", time=1000)
        log.commit()
        return state(log)[:1], sorted(messages(log))[-3:]

    return ask


QUESTIONS: list[Callable[[Log], object]] = [
    lambda log: log.get(150),
    lambda log: log.next(100, Filter((b"subject.5",))),
    lambda log: log.look_for(1, SUBJECT, 30),
    lambda log: log.remove(17),
    lambda log: log.remove(17, erase=True),
    lambda log: log.remove_many([3, 50, 51, 200]),
    remove_matching,
    lambda log: (log.compact(100), sorted(messages(log))),
    lambda log: (log.compact(290), sorted(messages(log))),
    lambda log: log.seek_time(120),
    lambda log: log.count_from(120, SOME),
    lambda log: log.subject_state(b"subject.1"),
    lambda log: log.last(b"*.1"),
    lambda log: log.subjects(EVERYTHING),
    lambda log: log.last_up_to(EVERYTHING, 150),
    lambda log: log.first_time,
    lambda log: watch(log, 120, b"subject.1").num_pending >= 0,
    append_beyond(max_msgs=100),
    append_beyond(max_bytes=5000),
    append_beyond(max_msgs_per_subject=3),
    append_beyond(max_msgs=100, max_msgs_per_subject=3, discard_new=True),
]


def reads_fail(directory: str) -> str:
    """Every question, with the N-th read failing, for every N; asked again, all is as it would have been."""
    errors = library()
    make(directory + "-made", 300)
    cases = 0
    for place, ask in enumerate(QUESTIONS):
        end = left_by(directory, ask)
        n = 0
        while True:
            n += 1
            shutil.rmtree(directory, ignore_errors=True)
            shutil.copytree(directory + "-made", directory)
            log = opened(directory)
            errors.fail_reads(ctypes.c_long(n), ctypes.c_int(errno.EIO))
            before = errors.reads_so_far()
            failed = False
            try:
                ask(log)
            except OSError:
                failed = True
            untouched = errors.reads_so_far() - before < n
            errors.fail_reads(ctypes.c_long(0), ctypes.c_int(0))
            if untouched:
                log.close()
                break
            cases += 1
            assert log.damages == [], (place, n)
            if failed:
                ask(log)
            log.commit()
            assert consistent(log, messages(log)), (place, n, state(log))
            kept = messages(log)
            if log.last_seq == 300:  # else it was appended twice
                assert sorted(kept) == end, (place, n)
            log.close()
            log = opened(directory)
            assert messages(log) == kept, (place, n)
            log.close()
    return f"{cases} cases of {len(QUESTIONS)} questions"


def left_by(directory: str, ask: Callable[[Log], object]) -> list[int]:
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(directory + "-made", directory)
    log = opened(directory)
    ask(log)
    log.commit()
    left = sorted(messages(log))
    log.close()
    return left


def consistent(log: Log, found: dict[int, tuple[bytes, bytes, bytes]]) -> bool:
    counts: dict[bytes, int] = {}
    for subject, _, _ in found.values():
        counts[subject] = counts.get(subject, 0) + 1
    size = sum(30 + len(subject) + len(payload) for subject, _, payload in found.values())
    return (
        log.count == len(found)
        and log.byte_count == size
        and log.count_subjects(EVERYTHING) == counts
        and all(log.count_from(0, Filter((subject,))) == count for subject, count in counts.items())
    )


def directory_fails(directory: str) -> str:
    """A rewritten file has its name, whatever the sync of the directory says: new offsets count."""
    errors = library()
    log = opened(directory)
    warnings: list[str] = []
    log.on_warning = warnings.append
    fill(log, 3000)
    assert log.segment_files > 70  # more than are kept open
    kept = {seq: message for seq, message in messages(log).items() if seq % 5 == 0}
    errors.fail_directories(ctypes.c_int(1))
    written = errors.temporary_so_far()
    log.remove_many([seq for seq in range(1, 3001) if seq % 5])
    log.commit()
    assert log.failure is None, log.failure
    assert errors.temporary_so_far() > written
    assert any("directory" in line for line in warnings)
    for _ in range(2):
        assert messages(log) == kept
    errors.fail_directories(ctypes.c_int(0))
    fill(log, 1)
    assert {seq: message for seq, message in messages(log).items() if seq <= 3000} == kept
    assert log.damages == []
    log.close()
    again = opened(directory)
    assert {seq: message for seq, message in messages(again).items() if seq <= 3000} == kept
    again.close()
    return f"{len(kept)} of {len(kept)}"


def last_sync(directory: str) -> str:
    """With an interval, what is committed while a sync is under way is synced by another one."""
    errors = library()
    committer = Committer(2, sync_interval=0.05)
    log = opened(directory, committer)
    fill(log, 1)
    assert settle(log, committer) is None
    before = errors.syncs_so_far()
    fill(log, 1)
    assert settle(log, committer) is None
    until = time.monotonic() + 30
    while errors.syncs_so_far() < before + 2 and time.monotonic() < until:
        committer.poll()
        time.sleep(0.01)
    assert errors.syncs_so_far() >= before + 2
    log.close()
    committer.close()
    return "synced"


def erase_on_a_full_disk(directory: str) -> str:
    """The message is removed, the stream goes on, and its text goes when there is space."""
    errors = library()
    make(directory, 600, compression="s2")
    for _ in range(3):  # to be compressed
        log = Log(directory, segment_bytes=SEGMENT, compression="s2")
        log.recover()
        log.close()
    committer = Committer(2)
    log = opened(directory, committer)
    warnings: list[str] = []
    log.on_warning = warnings.append
    errors.fail_temporary(ctypes.c_int(errno.ENOSPC))
    answers: list[str | None] = []
    for seq in (5, 6, 200):
        assert log.remove(seq, erase=True)
        assert settle(log, committer) is None
        log.when_erased(answers.append)
        until = time.monotonic() + 30
        while len(answers) < 1 and time.monotonic() < until:
            committer.poll()
    assert set(answers) == {"No space left on device"}
    assert len(warnings) == 1
    assert log.failure is None
    fill(log, 10)
    assert settle(log, committer) is None
    assert log.purge() == 607
    assert settle(log, committer) is None
    log.close()
    assert any("not overwritten" in line for line in warnings[1:]) or log.erase_again()
    committer.close()
    return "went on"


def erased_later(directory: str) -> str:
    errors = library()
    make(directory, 600, compression="s2")
    log = Log(directory, segment_bytes=SEGMENT, compression="s2")
    log.recover()
    log.close()
    log = Log(directory, segment_bytes=SEGMENT, compression="s2")
    log.recover()
    errors.fail_temporary(ctypes.c_int(errno.ENOSPC))
    assert log.remove(5, erase=True)
    log.commit()
    assert log.failure is None
    assert log.erase_failure == "No space left on device"
    assert b"message 5 " in text_of(directory)
    errors.fail_temporary(ctypes.c_int(0))
    until = time.monotonic() + 30
    while not log.erase_again() and time.monotonic() < until:
        time.sleep(0.05)
    assert log.erase_failure is None
    assert b"message 5 " not in text_of(directory)
    assert len(messages(log)) == 599
    log.close()
    return "erased"


def text_of(directory: str) -> bytes:
    """What the first segment holds, compressed or not."""
    return plain_bytes(Path(directory) / "000000000001.log")


def failed_write(directory: str) -> str:
    """Memory goes back to what is on disk, and the thread of the loop reads nothing for it."""
    errors = library()
    committer = Committer(2)
    make(directory, 600)
    log = opened(directory, committer)
    every, some = watch(log, 1), watch(log, 1, b"subject.3")
    assert log.remove(300)
    assert settle(log, committer) is None
    before, kept, pending = state(log), messages(log), (every.num_pending, some.num_pending)
    log.configure(max_msgs=600)
    for error in (errno.ENOSPC, errno.EMFILE, errno.EIO):
        errors.fail_writes(ctypes.c_int(error))
        for seq in (1, 2, 3, 400):
            log.remove(seq)
        fill(log, 5)
        reads = errors.reads_here()
        failure = settle(log, committer)
        assert failure is not None
        assert os.strerror(error) in failure
        # Only what the group had removed is looked at, for those who wait for it.
        assert errors.reads_here() - reads <= 10
        errors.fail_writes(ctypes.c_int(0))
        assert state(log) == before
        assert messages(log) == kept
        assert (every.num_pending, some.num_pending) == pending
        if error == errno.EIO:
            break
        until = time.monotonic() + 30
        while log.failure is not None and time.monotonic() < until:
            time.sleep(0.05)
            try:
                assert log.remove(log.last_seq + 1) is False
            except OSError:
                continue
        assert log.failure is None
    log.close()
    committer.close()
    log = opened(directory)
    assert messages(log) == kept
    log.close()
    return "rolled back"


def first_in_first_out(directory: str) -> str:
    """A stream that loses its oldest messages does not copy what it is about to lose."""
    errors = library()
    log = opened(directory)
    log.configure(max_msgs=400)
    for _ in range(400):
        fill(log, 10)
    assert log.segment_files > 4
    assert errors.temporary_so_far() == 0
    # What is dead in the middle is worth a copy.
    log.remove_many([seq for seq in range(log.first_seq, log.last_seq) if seq % 5])
    log.commit()
    assert errors.temporary_so_far() > 0
    log.close()
    return "0 bytes copied"


def erasing_waits_for_no_chore(directory: str) -> str:
    """A chore is under way, and held: a delete returns at once, and its text goes after the chore."""
    errors = library()
    committer = Committer(3)
    log = opened(directory, committer)
    fill(log, 600)
    assert settle(log, committer) is None
    idle(log, committer)
    errors.hold_renames(ctypes.c_int(1))
    log.remove_many([seq for seq in range(1, 300) if seq % 5])
    assert settle(log, committer) is None
    while not errors.renames_waiting():
        committer.poll()
        time.sleep(0.005)
    done: list[str | None] = []
    assert log.remove(5, erase=True)
    assert settle(log, committer) is None
    log.when_erased(done.append)
    assert done == []
    errors.hold_renames(ctypes.c_int(0))
    until = time.monotonic() + 30
    while not done and time.monotonic() < until:
        committer.poll()
        time.sleep(0.005)
    assert done == [None]
    log.close()
    committer.close()
    with open(os.path.join(directory, "000000000001.log"), "rb") as file:
        text = file.read()
    assert b"message 5 " not in text
    assert b"message 10 " in text
    return "erased after it"


def idle(log: Log, committer: Committer) -> None:
    for _ in range(20):
        committer.poll()
        time.sleep(0.01)


if __name__ == "__main__":
    print(globals()[sys.argv[1]](sys.argv[2]), flush=True)

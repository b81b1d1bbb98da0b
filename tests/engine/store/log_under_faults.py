"""Scenarios for a process of its own, with faults.c preloaded: `python -m ... <scenario> <directory>`.

Each prints one line at its end; an AssertionError is a failure.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import partial

from headrace.engine.store.committer import Committer
from headrace.engine.store.log import Log
from tests.engine.store.fault_library import FOR_EVER, SHORT, Faults, Kind
from tests.engine.store.logs import messages, settle

SEGMENT = 4096


def payload(seq: int) -> bytes:
    return b"message %d " % seq * (1 + seq * 7919 % 23)


def subject(seq: int) -> bytes:
    return b"subject.%d" % (seq * 7919 % 13 if seq % 3 else seq % 2)


def check_recovered(directory: str, acknowledged: int, per_subject: int, purged_to: int = 0) -> int:
    """Whether all that was acknowledged is there, and nothing that is wrong."""
    log = Log(directory, segment_bytes=SEGMENT)
    log.recover()  # a torn tail may be reported: it was not acknowledged
    found = messages(log)
    assert log.last_seq >= acknowledged, (log.last_seq, acknowledged)
    latest: dict[bytes, list[int]] = {}
    for seq in range(1, log.last_seq + 1):
        latest.setdefault(subject(seq), []).append(seq)
    for seqs in latest.values():
        for seq in seqs[-per_subject:]:
            assert seq in found or seq <= purged_to, (seq, log.last_seq, acknowledged)
    for seq, (found_subject, headers, found_payload) in found.items():
        assert (found_subject, headers, found_payload) == (subject(seq), b"", payload(seq))
    assert log.damages == [] or all("torn" in line for line in log.damages), log.damages
    # It can be used, and is the same the next time.
    log.append(b"after", b"", b"")
    log.commit()
    log.close()
    again = Log(directory, segment_bytes=SEGMENT)
    assert again.recover() == []
    assert messages(again) == {**found, again.last_seq: (b"after", b"", b"")}
    again.close()
    return len(found)


def work(directory: str, acknowledge: Callable[[int, int], object], count: int) -> None:
    """A log with much to tidy up: few survivors per segment, purges, reopening."""
    log = Log(directory, segment_bytes=SEGMENT)
    log.recover()
    log.configure(max_msgs_per_subject=2)
    purged_to = 0
    for group in range(count):
        for _ in range(6):
            log.append(subject(log.last_seq + 1), b"", payload(log.last_seq + 1))
        if group % 40 == 35:
            purged_to = log.last_seq
            # Said before it is done: from now on these may be there or not.
            acknowledge(log.committed_seq, purged_to)
            log.purge()
        log.commit()
        acknowledge(log.committed_seq, purged_to)
        if group % 25 == 24:
            log.close()
            log = Log(directory, segment_bytes=SEGMENT)
            log.recover()
            log.configure(max_msgs_per_subject=2)
    log.close()


def tell(pipe: int, acknowledged: int, purged_to: int) -> None:
    os.write(pipe, b"%d %d\n" % (acknowledged, purged_to))


def kill_everywhere(
    directory: str,
    work: Callable[[Callable[[int, int], object]], object],
    check: Callable[[int, int], object],
) -> str:
    """Die at the N-th call that changes a file, for every N, and check what is left."""
    faults = Faults()
    faults.watch(directory)
    n = 0
    while True:
        n += 1
        shutil.rmtree(directory, ignore_errors=True)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            faults.watch(directory)
            faults.begin()
            faults.kill_at(n)
            work(partial(tell, writing))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as told:
            lines = told.read().splitlines()
        acknowledged, purged_to = map(int, lines[-1].split()) if lines else (0, 0)
        _, status = os.waitpid(child, 0)
        check(acknowledged, purged_to)
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0
            return f"killed at each of {n - 1} calls"
        assert os.WTERMSIG(status) == signal.SIGKILL


def killed_everywhere(directory: str) -> str:
    def check(acknowledged: int, purged_to: int) -> None:
        check_recovered(directory, acknowledged, 2, purged_to)

    return kill_everywhere(directory, lambda acknowledge: work(directory, acknowledge, 50), check)


def work_compressed(directory: str, acknowledge: Callable[[int, int], object]) -> None:
    """Segments are compressed as they fill; messages in them are erased, and all are removed from below."""
    log = Log(directory, segment_bytes=SEGMENT, compression="s2")
    log.recover()
    for group in range(20):
        for _ in range(8):
            log.append(subject(log.last_seq + 1), b"", payload(log.last_seq + 1))
        if group % 4 == 3:
            acknowledge(log.committed_seq, log.last_seq // 2)
            log.remove(log.last_seq // 2, erase=True)
        if group % 8 == 7:
            log.compact(log.last_seq // 2)
        log.commit()
        acknowledge(log.committed_seq, log.last_seq // 2)
    log.close()


def killed_while_compressing(directory: str) -> str:
    """One complete form of each segment is there at any moment."""

    def check(acknowledged: int, purged_to: int) -> None:
        check_recovered(directory, acknowledged, acknowledged + 8, purged_to)

    result = kill_everywhere(directory, partial(work_compressed, directory), check)
    assert sum(map(is_compressed, os.scandir(directory))) > 3
    return result


def is_compressed(file: os.DirEntry[str]) -> bool:
    with open(file.path, "rb") as opened:
        return file.name.endswith(".log") and opened.read(12)[8:] == b"\2\0\0\0"


def full_while_compressing(directory: str) -> str:
    """No space for the compressed form: the segments stay as they are, which is reported once."""
    faults = Faults()
    faults.watch(directory)
    warnings: list[str] = []
    log = Log(directory, segment_bytes=SEGMENT)
    log.recover()
    log.on_warning = warnings.append
    for _ in range(200):
        log.append(subject(log.last_seq + 1), b"", payload(log.last_seq + 1))
    log.commit()
    before = messages(log)
    names = sorted(os.listdir(directory))
    for error in (errno.ENOSPC, errno.EIO):
        faults.begin()
        faults.arm(Kind.WRITE, 2, FOR_EVER, error)
        log.configure(compression="s2")
        faults.disarm()
        assert sorted(os.listdir(directory)) == names  # no temporary file is left
        log.configure(compression="none")
    assert warnings == ["a segment cannot be compressed and stays as it is: No space left on device"]
    assert log.failure is None
    assert log.damages == []
    assert messages(log) == before
    log.append(subject(201), b"", payload(201))
    log.commit()
    assert log.committed_seq == 201
    log.close()
    size = sum(os.path.getsize(os.path.join(directory, name)) for name in names)
    again = Log(directory, segment_bytes=SEGMENT, compression="s2")
    assert again.recover() == []
    for _ in range(2):
        again.close()
        again = Log(directory, segment_bytes=SEGMENT, compression="s2")
        again.recover()
    assert sum(os.path.getsize(os.path.join(directory, name)) for name in names) < size / 2
    assert messages(again).items() >= before.items()
    again.close()
    return "went on"


def sync_fails(directory: str) -> str:
    """No acknowledgement after a failed sync, and none later either."""
    faults = Faults()
    faults.watch(directory)
    committer = Committer(2)
    log = Log(directory, committer=committer)
    log.recover()
    for _ in range(10):
        log.append(b"s", b"", b"good")
    assert settle(log, committer) is None
    faults.begin()
    faults.arm(Kind.SYNC, 1, FOR_EVER, errno.EIO)
    for _ in range(5):
        log.append(b"s", b"", b"bad")
    failure = settle(log, committer)
    assert failure is not None
    assert "Input/output error" in failure
    assert log.failure == failure
    faults.disarm()
    time.sleep(0.2)  # longer than it waits before it tries again after a full disk
    attempts: list[Callable[[], object]] = [
        lambda: log.append(b"s", b"", b"late"),
        lambda: log.remove(1),
        log.purge,
    ]
    for attempt in attempts:
        try:
            attempt()
        except OSError as error:
            assert "Input/output error" in str(error)  # noqa: PT017
        else:
            raise AssertionError("written after a failed sync")
    assert settle(log, committer) == failure
    assert (log.committed_seq, log.last_seq, len(messages(log))) == (10, 10, 10)
    log.close()
    again = Log(directory, committer=committer)
    again.recover()
    assert [message[2] for message in messages(again).values()][:10] == [b"good"] * 10
    assert again.append(b"s", b"", b"new") == again.last_seq
    assert settle(again, committer) is None
    again.close()
    committer.close()
    return "no acknowledgement"


def disk_full(directory: str, fill: Callable[[], object], free: Callable[[], object]) -> str:
    """Error acknowledgements while it is full, reads go on, and writes work again when there is space."""
    committer = Committer(2)
    log = Log(directory, committer=committer)
    log.recover()
    log.configure(max_msgs_per_subject=100)
    acknowledged: dict[int, bytes] = {}
    failures = 0
    for full in (False, True, False, True, False):
        (fill if full else free)()
        for k in range(60):
            content = b"%d " % k * 5000
            watch_before = log.count
            try:
                seq = log.append(b"s", b"", content)
                failure = settle(log, committer)
            except OSError as error:
                failure = str(error)
            if failure is None:
                acknowledged[seq] = content
            else:
                failures += 1
                assert log.last_seq == log.committed_seq == max(acknowledged, default=0)
                assert log.count == min(watch_before, len(acknowledged), 100)
                assert "write" in failure, failure
                if not full:
                    time.sleep(0.05)  # it tries again after a while
        kept = {seq: acknowledged[seq] for seq in sorted(acknowledged)[-100:]}
        assert {seq: message[2] for seq, message in messages(log).items()} == kept
    assert failures > 5
    assert log.failure is None
    log.close()
    again = Log(directory, committer=committer)
    assert again.recover() == []
    assert {seq: message[2] for seq, message in messages(again).items()} == kept
    again.close()
    committer.close()
    return f"{failures} error acknowledgements, {len(acknowledged)} stored"


def file_too_large(directory: str) -> str:
    """The limit of the size of a file stands for the disk here: writes become short, then fail."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    return disk_full(
        directory,
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, hard)),
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard)),
    )


def small_disk(directory: str) -> str:
    """On a tmpfs of 4 MiB."""
    ballast = os.path.join(directory, "ballast")

    def fill() -> None:
        fd = os.open(ballast, os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(fd, b"x" * 4096):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017
        os.close(fd)

    def free() -> None:
        if os.path.exists(ballast):
            os.unlink(ballast)

    return disk_full(os.path.join(directory, "log"), fill, free)


def write_fails(directory: str) -> str:
    """Any other error of a write is final, and the group is taken back, too."""
    faults = Faults()
    faults.watch(directory)
    committer = Committer(1)
    log = Log(directory, committer=committer, segment_bytes=SEGMENT)
    log.recover()
    for _ in range(100):
        log.append(b"s", b"", b"good")
    assert settle(log, committer) is None
    faults.begin()
    faults.arm(Kind.WRITE, 1, FOR_EVER, errno.EIO)
    for _ in range(300):
        log.append(b"s", b"", b"bad")  # goes on into further segments
    assert settle(log, committer) is not None
    faults.disarm()
    assert (log.last_seq, len(messages(log))) == (100, 100)
    log.close()
    again = Log(directory, committer=committer, segment_bytes=SEGMENT)
    assert again.recover() == []
    assert len(messages(again)) == 100
    again.close()
    committer.close()
    return "taken back"


def short_writes(directory: str) -> str:
    """Short writes are completed."""
    faults = Faults()
    faults.watch(directory)
    faults.begin()
    faults.arm(Kind.WRITE, 1, FOR_EVER, SHORT)
    acknowledged = 0

    def acknowledge(seq: int, purged_to: int) -> None:
        nonlocal acknowledged
        acknowledged = seq

    work(directory, acknowledge, 30)
    faults.disarm()
    assert acknowledged == 180
    return f"{check_recovered(directory, acknowledged, 2)} messages"


def write_forever(directory: str) -> str:
    """Say what is acknowledged until killed."""
    committer = Committer(3)
    log = Log(directory, committer=committer, segment_bytes=65536)
    log.recover()
    log.configure(max_msgs_per_subject=200)
    while True:
        for _ in range(50):
            log.append(subject(log.last_seq + 1), b"", payload(log.last_seq + 1))
        assert settle(log, committer) is None
        os.write(1, b"%d\n" % log.committed_seq)


if __name__ == "__main__":
    print(globals()[sys.argv[1]](sys.argv[2]), flush=True)

"""What a test sees of a server from outside: memory, descriptors, CPU, and how a bystander fares."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.adversity.recorder import Connection
from tests.sanitizers import ARE_AT_WORK

KIB = 1024
MIB = 1024 * KIB
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PING_PAUSE_SECONDS = 0.005


def memory(pid: int, field: str = "VmRSS") -> int:
    """Bytes of memory: VmRSS now, VmHWM at most; VmSize and VmPeak of address space.

    Always the same under the sanitizers, whose own memory hides what the server takes.
    """
    if ARE_AT_WORK:
        return 1
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * KIB
    raise AssertionError(f"no {field}")


def reset_peak(pid: int) -> None:
    """Let VmHWM start again from what is used now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def cpu_seconds(pid: int) -> float:
    """CPU time that the process has used so far, in all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


@contextmanager
def many_descriptors(wanted: int) -> Iterator[None]:
    """Let this process open this many files, or skip the test."""
    import pytest

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < wanted:
        pytest.skip(f"{wanted} descriptors are needed, {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Bystander:
    """A client that pings all the time. Every ping has to be answered; how long that took is a figure."""

    def __init__(self, port: int, connect: bytes = b"") -> None:
        self._connection = Connection(port, connect) if connect else Connection(port)
        self._round_trips: list[float] = []
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Bystander:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._connection.close()
        assert self._failure is None, f"a bystander was disturbed: {self._failure!r}"

    def _run(self) -> None:
        """The last ping comes after what the test does: one at least is answered, however quick that is."""
        try:
            is_over = False
            while not is_over:
                is_over = self._ended.wait(PING_PAUSE_SECONDS)
                sent = time.monotonic()
                self._connection.ping()
                self._round_trips.append(time.monotonic() - sent)
        except (OSError, AssertionError) as error:
            self._failure = error

    def describe(self) -> str:
        ordered = sorted(self._round_trips)
        p99 = ordered[int(len(ordered) * 0.99)]
        return f"bystander: {len(ordered)} pings, p99 {p99 * 1000:.1f} ms, worst {ordered[-1] * 1000:.1f} ms"

"""Lets one process of a test run after another stand still: SIGSTOP, and SIGCONT up to three seconds later.

    python -m tests.delays.standstills PID SEED

The run is the process PID with all that descends from it: pytest, its workers, servers, clients, Java. This
ends with standard input: if whoever started it is killed, what stands still goes on all the same.

No other process is touched. A number in /proc may belong to another process a moment later, so a process is
held by a descriptor (pidfd) first, and only then its parents are looked at. What a test itself has stopped
stays so: its SIGSTOP is pending in a process that stands still, and then the SIGCONT is left to the test.
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

LONGEST_SECONDS = 3.0
LONGEST_PAUSE_SECONDS = 1.0
BUSY_SHARE = 0.7
"""How often one is chosen that has worked since the last look: to stop one that waits changes little."""

CAN_BE_STOPPED = "RSD"
STOPS = 1 << (signal.SIGSTOP - 1)


@dataclass(frozen=True)
class Status:
    """Of a process, from /proc."""

    state: str
    parent: int
    ticks: int
    started: int


def status_of(pid: int) -> Status | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:  # it has ended
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may contain anything
    return Status(fields[0], int(fields[1]), int(fields[11]) + int(fields[12]), int(fields[19]))


def descends(pid: int, root: int) -> bool:
    """Whether a process is the root, or one that it or its descendants started."""
    status = status_of(pid)
    while status is not None and pid != root:
        parent = status_of(status.parent)
        if parent is None or parent.started > status.started:  # another process has its number now
            return False
        pid, status = status.parent, parent
    return status is not None


def run_of(root: int) -> dict[int, Status]:
    """The root and its descendants that are neither stopped nor at their end."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    found = {pid: status for pid in pids if (status := status_of(pid)) and status.state in CAN_BE_STOPPED}
    return {pid: status for pid, status in found.items() if descends(pid, root)}


@contextmanager
def standing_still(pid: int, root: int) -> Iterator[bool]:
    """Stop the process until the end of this block; whether it is of the run, and was stopped."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        yield False
        return
    try:
        # Of the process behind the descriptor; if that has ended, another may be seen, but gets no signal.
        if not descends(pid, root):
            yield False
            return
        try:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGSTOP)
            yield True
        finally:
            with suppress(ProcessLookupError):
                if not _is_stopped_by_another(pid):
                    signal.pidfd_send_signal(process, signal.SIGCONT)
    finally:
        os.close(process)


def _is_stopped_by_another(pid: int) -> bool:
    """Whether a SIGSTOP is pending besides ours: of one that does not stand still yet, ours itself may be."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return False
    fields = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    pending = int(fields["SigPnd"][0], 16) | int(fields["ShdPnd"][0], 16)
    return fields["State"][0] == "T" and bool(pending & STOPS)


def let_stand_still(root: int, seed: int) -> None:
    """One process after another, until standard input ends or the run has."""
    chance = random.Random(seed)
    before: dict[int, Status] = {}
    while not _ends_within(chance.uniform(0, LONGEST_PAUSE_SECONDS)):
        processes = run_of(root)
        if not processes:
            return
        busy = [pid for pid, status in processes.items() if _has_worked(before.get(pid), status)]
        some = busy if busy and chance.random() < BUSY_SHARE else list(processes)
        before = processes
        with standing_still(chance.choice(some), root) as was_stopped:
            if was_stopped and _ends_within(chance.uniform(0, LONGEST_SECONDS)):
                return


def _has_worked(before: Status | None, now: Status) -> bool:
    return before is None or before.ticks < now.ticks or now.state == "R"


def _ends_within(seconds: float) -> bool:
    return bool(select.select([sys.stdin], [], [], seconds)[0])


@contextmanager
def standstills(root: int, seed: int) -> Iterator[None]:
    """In a process of its own, until the end of this block or of this process."""
    command = [sys.executable, "-m", "tests.delays.standstills", str(root), str(seed)]
    companion = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert companion.stdin
    try:
        yield
    finally:
        companion.stdin.close()
        companion.wait()


if __name__ == "__main__":
    # The terminal's Ctrl-C, or another's farewell: blocks with `finally` run in either case.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        let_stand_still(int(sys.argv[1]), int(sys.argv[2]))

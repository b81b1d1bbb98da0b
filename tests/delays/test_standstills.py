"""Processes of a run stand still, those of nobody else, and all of them go on at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.delays.standstills import descends, run_of, standing_still, status_of
from tests.delays.test_delays import ENVIRONMENT, ROOT, command

PATIENCE_SECONDS = 60
SLEEPER = "import time; time.sleep(600)"
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {SLEEPER!r}])
print(child.pid, flush=True)
child.wait()
"""


@contextmanager
def family() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process, and the pid of its child."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        try:
            yield parent, child
        finally:
            os.kill(child, signal.SIGKILL)
            parent.kill()


def is_stopped(pid: int) -> bool:
    status = status_of(pid)
    return status is not None and status.state == "T"


def wait_until(pids: list[int], *, stopped: bool) -> None:
    """Until one of them stands still, or none does any more."""
    end = time.monotonic() + PATIENCE_SECONDS
    while any(map(is_stopped, pids)) is not stopped:
        assert time.monotonic() < end, {pid: status_of(pid) for pid in pids}
        time.sleep(0.001)


def test_a_run_is_a_process_with_its_descendants() -> None:
    with family() as (parent, child), family() as (stranger, _):
        assert descends(child, parent.pid)
        assert descends(child, os.getpid())
        assert not descends(parent.pid, child)
        assert not descends(stranger.pid, parent.pid)
        assert not descends(os.getpid(), parent.pid)
        assert set(run_of(parent.pid)) == {parent.pid, child}
    assert not descends(child, parent.pid)


def test_a_process_stands_still_and_goes_on() -> None:
    with family() as (parent, child):
        with standing_still(child, parent.pid) as was_stopped:
            assert was_stopped
            wait_until([child], stopped=True)
        wait_until([child], stopped=False)


def test_it_goes_on_after_an_error() -> None:
    with family() as (parent, child):
        with pytest.raises(pytest.fail.Exception), standing_still(child, parent.pid):
            pytest.fail("whatever happens")
        wait_until([child], stopped=False)


def test_it_goes_on_also_if_it_has_had_no_time_to_stop() -> None:
    with family() as (parent, child):
        for _ in range(1000):
            with standing_still(child, parent.pid):
                pass
            assert not is_stopped(child)


def test_a_process_of_another_run_is_left_alone() -> None:
    with family() as (parent, _), family() as (stranger, _):
        os.kill(stranger.pid, signal.SIGSTOP)
        wait_until([stranger.pid], stopped=True)
        with standing_still(stranger.pid, parent.pid) as was_stopped:
            assert not was_stopped
        assert is_stopped(stranger.pid)  # neither stopped nor continued


def test_what_a_test_has_stopped_meanwhile_is_not_continued() -> None:
    with family() as (parent, child):
        with standing_still(child, parent.pid):
            wait_until([child], stopped=True)
            os.kill(child, signal.SIGSTOP)
        assert is_stopped(child)
        os.kill(child, signal.SIGCONT)
        wait_until([child], stopped=False)


def companion(root: int) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-m", "tests.delays.standstills", str(root), "1"]
    return subprocess.Popen(arguments, cwd=ROOT, stdin=subprocess.PIPE)


@pytest.mark.parametrize("end", ["end of input", "SIGINT", "SIGTERM"])
def test_everything_goes_on_however_the_standstills_end(end: str) -> None:
    with family() as (parent, child), companion(parent.pid) as process:
        wait_until([parent.pid, child], stopped=True)
        if end == "end of input":
            assert process.stdin
            process.stdin.close()
        else:
            process.send_signal(signal.Signals[end])
        assert process.wait(PATIENCE_SECONDS) == 0
        wait_until([parent.pid, child], stopped=False)


def test_the_standstills_end_with_the_run() -> None:
    with family() as (parent, _):
        process = companion(parent.pid)
    with process:
        assert process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_everything_goes_on_when_the_whole_is_interrupted(tmp_path: Path, number: int) -> None:
    """SIGINT as a terminal's Ctrl-C, for all of them; SIGKILL for the one that has started the others."""
    test, pid_file = tmp_path / "test_it.py", tmp_path / "pid"
    test.write_text(
        "import os, time\nfrom pathlib import Path\n\ndef test_it():\n"
        f"    Path({str(pid_file)!r}).write_text(str(os.getpid()))\n    time.sleep(60)\n"
    )
    run = subprocess.Popen(
        command(test), cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.DEVNULL, start_new_session=True
    )
    while not pid_file.exists() or not pid_file.read_text():
        assert run.poll() is None
        time.sleep(0.001)
    pid = int(pid_file.read_text())
    with os.fdopen(os.pidfd_open(pid)) as process:
        wait_until([pid], stopped=True)
        if number == signal.SIGINT:
            os.killpg(run.pid, number)
            assert run.wait(PATIENCE_SECONDS) == pytest.ExitCode.INTERRUPTED
        else:
            run.kill()
            run.wait()
            wait_until([pid], stopped=False)
            signal.pidfd_send_signal(process.fileno(), signal.SIGKILL)
    assert not is_stopped(pid)

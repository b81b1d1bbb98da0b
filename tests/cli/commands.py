"""Runs `headrace` as a process (tests/forks.py): to its end (`run`), or in the background (`started`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import forks
from tests.servers import stop

COMMAND = [sys.executable, "-m", "headrace"]
SECONDS = 60.0


@dataclass(frozen=True)
class Result:
    code: int
    output: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.output.decode()


def environment(**variables: str) -> dict[str, str]:
    """This process's variables without those that steer the command, and with the given ones."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NATS_", "HEADRACE_"))}
    return kept | variables


def run(*arguments: str, stdin: bytes | None = None, **variables: str) -> Result:
    """Run to the end. Without `stdin` there is none, as for a program started by cron."""
    with TemporaryDirectory(prefix="headrace-cli-") as directory:
        surroundings = environment(**{"HEADRACE_STORE": directory, **variables})
        if forks.can_fork(surroundings):
            return _run_fork(arguments, surroundings, stdin)
        done = subprocess.run(
            [*COMMAND, *arguments],
            **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}),
            capture_output=True,
            timeout=SECONDS,
            env=surroundings,
        )
    return Result(done.returncode, done.stdout, done.stderr.decode())


def _run_fork(arguments: tuple[str, ...], variables: dict[str, str], stdin: bytes | None) -> Result:
    """As subprocess.run does, with a pipe for each stream."""
    with Path(os.devnull).open("rb") as nothing:
        pipes = [os.pipe() for _ in range(3)]
        (input_end, feed), (output, output_end), (errors, errors_end) = pipes
        given = input_end if stdin is not None else nothing
        process = forks.fork(forks.COMMAND, arguments, variables, (given, output_end, errors_end))
    for end in (input_end, output_end, errors_end):
        os.close(end)
    with ThreadPoolExecutor(3) as threads:
        feeding = threads.submit(_feed, feed, stdin or b"")
        reading = [threads.submit(_read_all, end) for end in (output, errors)]
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        feeding.result()
        return Result(code, reading[0].result(), reading[1].result().decode())


def _feed(end: int, data: bytes) -> None:
    with os.fdopen(end, "wb") as file, suppress(BrokenPipeError):
        file.write(data)


def _read_all(end: int) -> bytes:
    with os.fdopen(end, "rb") as file:
        return file.read()


def assert_one_error_line(result: Result, *parts: str, code: int = 1) -> None:
    """It failed with this exit code, wrote nothing to stdout, and said why in one line with these parts."""
    assert result.code == code, result
    assert result.output == b""
    assert result.errors.startswith("headrace: ")
    assert result.errors.count("\n") == 1, result.errors
    assert "Traceback" not in result.errors
    assert "this is a bug" not in result.errors
    for part in parts:
        assert part in result.errors


class Background:
    """A command that runs; its output goes to files, so that it never has to wait for a reader."""

    def __init__(self, directory: Path, arguments: tuple[str, ...], variables: dict[str, str]) -> None:
        self._output = directory / "stdout"
        self._errors = directory / "stderr"
        surroundings = environment(**{"HEADRACE_STORE": str(directory / "store"), **variables})
        self.process: subprocess.Popen[bytes] | forks.ForkedProcess
        with (
            Path(os.devnull).open("rb") as nothing,
            self._output.open("wb") as output,
            self._errors.open("wb") as errors,
        ):
            if forks.can_fork(surroundings):
                self.process = forks.fork(forks.COMMAND, arguments, surroundings, (nothing, output, errors))
            else:
                self.process = subprocess.Popen(
                    [*COMMAND, *arguments], stdin=nothing, stdout=output, stderr=errors, env=surroundings
                )

    @property
    def output(self) -> bytes:
        return self._output.read_bytes()

    @property
    def text(self) -> str:
        return self.output.decode()

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def wait_for(self, part: str) -> None:
        """Until stdout or stderr holds the text."""
        deadline = time.monotonic() + SECONDS
        while part not in self.text + self.errors:
            assert self.process.poll() is None, f"ended early: {self.text}{self.errors}"
            assert time.monotonic() < deadline, f"no {part!r} in: {self.text}{self.errors}"
            time.sleep(0.01)

    def end(self, number: int = signal.SIGINT) -> int:
        """Interrupt it and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS)


@contextmanager
def started(*arguments: str, ready: str, **variables: str) -> Iterator[Background]:
    """A command in the background that has said `ready`; it is stopped at the end if it still runs."""
    with TemporaryDirectory(prefix="headrace-cli-") as directory:
        background = Background(Path(directory), arguments, variables)
        try:
            background.wait_for(ready)
            yield background
        finally:
            stop(background.process)

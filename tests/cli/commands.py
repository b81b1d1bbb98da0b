"""Runs `headrace` as a process: to its end (`run`), or in the background (`started`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.servers import stop

COMMAND = [sys.executable, "-m", "headrace"]
SECONDS = 30.0


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
        done = subprocess.run(
            [*COMMAND, *arguments],
            **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}),
            capture_output=True,
            timeout=SECONDS,
            env=environment(**{"HEADRACE_STORE": directory, **variables}),
        )
    return Result(done.returncode, done.stdout, done.stderr.decode())


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
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*COMMAND, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=environment(**{"HEADRACE_STORE": str(directory / "store"), **variables}),
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

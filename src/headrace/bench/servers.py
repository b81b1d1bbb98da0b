"""A server process for one run: started on a free port, watched through /proc, stopped afterwards."""

import os
import re
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from headrace.bench.failure import BenchError
from headrace.bench.wire import Address

START_SECONDS = 15.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.005
Found = TypeVar("Found")
LISTENING = re.compile(r"Listening for client connections on \[?([^\s\]]+)\]?:(\d+)")


@dataclass(frozen=True)
class Server:
    """How to start one: a name for the tables and a command that takes nats-server's flags."""

    name: str
    command: tuple[str, ...]

    def version(self) -> str:
        """What `--version` prints, or the reason why it prints nothing."""
        try:
            outcome = subprocess.run(
                [*self.command, "--version"], capture_output=True, text=True, timeout=START_SECONDS
            )
        except OSError as error:
            raise BenchError(f"{self.name} cannot be started: {error}") from error
        return (
            (outcome.stdout or outcome.stderr).strip().splitlines()[-1]
            if outcome.returncode == 0
            else "unknown"
        )


@dataclass(frozen=True)
class Process:
    """A running server."""

    name: str
    pid: int
    address: Address

    def rss_bytes(self) -> int:
        return self._status_kilobytes("VmRSS") * 1024

    def peak_rss_bytes(self) -> int:
        return self._status_kilobytes("VmHWM") * 1024

    def cpu_seconds(self) -> float:
        """User and system time of all its threads (in steps of a clock tick, usually 10 ms)."""
        fields = self._read("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _status_kilobytes(self, key: str) -> int:
        found = re.search(rf"^{key}:\s+(\d+) kB", self._read("status"), re.MULTILINE)
        if found is None:
            raise BenchError(f"{self.name} died during the run")
        return int(found[1])

    def _read(self, name: str) -> str:
        try:
            return Path(f"/proc/{self.pid}/{name}").read_text()
        except OSError as error:
            raise BenchError(f"{self.name} died during the run") from error


def allow_many_files() -> None:
    """Raise the soft limit of open files to the hard one, for us and for the servers that we start."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextmanager
def running(server: Server) -> Iterator[Process]:
    """Start a server on a free loopback port and stop it afterwards.

    Its log goes to a file: a pipe that nobody reads could fill up and block it. A BenchError that leaves
    the block is explained with the end of that log if the server died of it.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        log = Path(folder, "log")
        process = _spawn(server, folder, log)
        try:
            yield Process(server.name, process.pid, _await_ready(server, process, log))
        except BenchError as error:
            # A killed process may need a moment until it can be reaped.
            exit_code = _wait_until(lambda: process.poll(), 0.2)
            if exit_code is None:
                raise BenchError(f"{server.name}: {error}") from error
            raise BenchError(f"{server.name} exited with {exit_code}: {error}{_last_line(log)}") from error
        finally:
            _stop(process)


def _spawn(server: Server, folder: str, log: Path) -> subprocess.Popen[bytes]:
    arguments = [*server.command, "-a", "127.0.0.1", "-p", "-1"]
    with log.open("wb") as stream:
        try:
            return subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
        except OSError as error:
            raise BenchError(f"{server.name} cannot be started: {error}") from error


def _await_ready(server: Server, process: subprocess.Popen[bytes], log: Path) -> Address:
    def ready_or_dead() -> str | None:
        text = log.read_text(errors="replace")
        return text if "Server is ready" in text or process.poll() is not None else None

    text = _wait_until(ready_or_dead, START_SECONDS) or ""
    found = LISTENING.search(text)
    if process.poll() is not None or found is None:
        raise BenchError("it did not start")
    return found[1], int(found[2])


def _wait_until(look: Callable[[], Found | None], seconds: float) -> Found | None:
    deadline = time.monotonic() + seconds
    while (found := look()) is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return found


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_line(log: Path) -> str:
    lines: Sequence[str] = log.read_text(errors="replace").strip().splitlines()
    return f" (its last line: {lines[-1].strip()})" if lines else ""

"""A server that a command starts on loopback, and stops when it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.errors import UsageError

START_SECONDS = 30.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.02

Ports = dict[str, list[str]]
"""The addresses of a server, by what they are for: nats, monitoring."""


@contextmanager
def embedded_server(store: str, port: int = -1) -> Iterator[str]:
    """The URL of a server that stores its streams under `store`. Raises UsageError if it does not start.

    It is a separate process, so that Ctrl-C lets the command end first, and a crash of one does not end the
    other.
    """
    with _running(store, port, ()) as ports:
        yield ports["nats"][0]


@contextmanager
def watched_server(store: str) -> Iterator[tuple[str, str]]:
    """The same, with the address of its console."""
    with _running(store, -1, ("-m", "-1")) as ports:
        yield ports["nats"][0], f"{ports['monitoring'][0]}/console"


@contextmanager
def _running(store: str, port: int, flags: tuple[str, ...]) -> Iterator[Ports]:
    try:
        Path(store).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the embedded server cannot store its streams in {store}: {error.strerror}",
            hint="choose another directory: server: {embedded: true, store: DIR}",
        ) from None
    with tempfile.TemporaryDirectory(prefix="headrace-") as directory:
        log = Path(directory, "log")
        command = [sys.executable, "-m", "headrace.cli.nats_server", "-a", "127.0.0.1", "-p", str(port)]
        command += ["-js", "-sd", store, "--ports_file_dir", directory, *flags]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        try:
            yield _wait(process, Path(directory), log)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], directory: Path, log: Path) -> Ports:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        for path in directory.glob("*.ports"):
            with suppress(ValueError, OSError):  # it is still being written
                ports: Ports = json.loads(path.read_text())
                return ports
        time.sleep(POLL_SECONDS)
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    reason = lines[-1].partition("] ")[2] if lines else "it printed nothing"
    raise UsageError(f"the embedded server did not start: {reason or lines[-1]}")

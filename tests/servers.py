"""Real server processes for tests: nats-server (the reference) and headrace-server (ours), started the same
way.

    with running_server("headrace", config="max_payload: 100") as server:
        socket.create_connection((server.host, server.port))
        print(server.log())

The environment variable HEADRACE_SERVER replaces the command behind "headrace", so that a suite can also be
run against another build or, to test the suite itself, against nats-server.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests import forks
from tests.patience import patient
from tests.sanitizers import PATIENCE

ServerKind = Literal["nats-server", "headrace"]
Process = subprocess.Popen[bytes] | forks.ForkedProcess

HOST = "127.0.0.1"
START_SECONDS = 30.0 * PATIENCE
STOP_SECONDS = 30.0
POLL_SECONDS = 0.01
FORKED = (
    *(f"tests/{room}/" for room in ("accounts", "cli", "client", "http_in", "interop", "monitor")),
    *(f"tests/{room}/" for room in ("permissions", "spark", "streams")),
    *(f"tests/adversity/test_{what}.py" for what in ("accounts", "redelivery", "signals", "tokens")),
    "tests/bench/test_secure_servers.py",
    "tests/broker/test_tls.py",
    "tests/test_backup_docs.py",
)
"""Tests whose servers are forks (tests/forks.py), which start in a tenth of the time."""

_LISTENING = re.compile(r"Listening for client connections on (?:\[?[^\s\]]+\]?):(\d+)")

_LISTENING_WEBSOCKET = re.compile(r"Listening for websocket clients on wss?://(?:\[?[^\s\]]+\]?):(\d+)")


@dataclass(frozen=True)
class Server:
    """A running server: where it listens, its process and what it has logged so far."""

    kind: ServerKind
    host: str
    port: int
    process: Process
    log_file: Path

    @property
    def websocket_port(self) -> int:
        found = _LISTENING_WEBSOCKET.search(self.log())
        assert found, "its configuration has no websocket block"
        return int(found.group(1))

    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def wait_for_log(self, text: str, times: int = 1) -> str:
        """Wait until a text was logged that often: lines are written by a thread, after answers perhaps."""
        end = time.monotonic() + START_SECONDS
        while (log := self.log()).count(text) < times:
            assert time.monotonic() < end, f"{text!r} was not logged {times} times:\n{log}"
            time.sleep(POLL_SECONDS)
        return log


def server_command(kind: ServerKind) -> list[str]:
    """The command line that starts this kind of server, without options."""
    if kind == "nats-server":
        return [str(Path(sys.executable).parent / "nats-server")]
    override = os.environ.get("HEADRACE_SERVER")
    return shlex.split(override) if override else [sys.executable, "-m", "headrace.cli.nats_server"]


def _may_fork() -> bool:
    """Where the behavior of a server is tested, and not its process."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    return test.startswith(FORKED) and "HEADRACE_SERVER" not in os.environ and forks.can_fork(os.environ)


def environment() -> dict[str, str]:
    """The variables of this moment.

    Servers are started in threads, while pytest notes the name of the current test in a variable. A child
    without a copy reads what the other thread may have freed, and execve fails with EFAULT.
    """
    return {name: value for name in list(os.environ) if (value := os.environ.get(name)) is not None}


@contextmanager
def running_server(kind: ServerKind, config: str = "", flags: Sequence[str] = ()) -> Iterator[Server]:
    """Start a server on a free loopback port and stop it at the end, whatever happens in between.

    `config` is the text of a configuration file, to which a long time to log in is added (patience.py);
    `flags` come last on the command line, so they win.
    Raises RuntimeError with the log when the server does not become ready.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-test-") as directory:
        command = [*server_command(kind), "-a", HOST, "-p", "-1"]
        if config:
            config_file = Path(directory, "server.conf")
            config_file.write_text(patient(config))
            command += ["-c", str(config_file)]
        log_file = Path(directory, "server.log")
        with log_file.open("wb") as log, Path(os.devnull).open("rb") as nothing:
            process: Process
            if kind == "headrace" and _may_fork():
                arguments = [*command[len(server_command(kind)) :], *flags]
                process = forks.fork(forks.SERVER, arguments, environment(), (nothing, log, log))
            else:
                process = subprocess.Popen(
                    [*command, *flags], stdin=nothing, stdout=log, stderr=log, env=environment()
                )
        try:
            port = _wait_until_ready(process, log_file)
            yield Server(kind, HOST, port, process, log_file)
        finally:
            stop(process)


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that nobody else gets meanwhile, also if nobody listens on it: connections are refused then.

    A server can listen on it (`-p`), and again after a restart: the port is bound here, but nobody listens,
    and both sides set SO_REUSEADDR. The kernel gives such a port to no one who asks for any port,
    and tests that run at the same time ask for hundreds.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((HOST, 0))
        yield holder.getsockname()[1]


def keep_streams_directory(store: Path, account: str = "$G") -> Path:
    """For a running nats-server, which otherwise may fail to create a stream after deleting its last one.

    It removes the directory of all streams when it is empty, even while a new stream is being created in it
    ("error creating store for stream"). Something that lies there keeps it from doing so.
    """
    streams = store / "jetstream" / account / "streams"
    streams.mkdir(parents=True, exist_ok=True)
    (streams / ".keep").touch()
    return streams


def _wait_until_ready(process: Process, log_file: Path) -> int:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        # The exit is looked at first: what the process wrote before it is then already in the log.
        exited = process.poll() is not None
        log = log_file.read_text(errors="replace")
        listening = _LISTENING.search(log)
        if listening and "Server is ready" in log:
            return int(listening.group(1))
        if exited:
            break
        time.sleep(POLL_SECONDS)
    raise RuntimeError(
        f"server did not become ready: {process.args!r}\n{log_file.read_text(errors='replace')}"
    )


def stop(process: Process) -> None:
    """End it as a user would: `make coverage` counts only what a process did that was not killed."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

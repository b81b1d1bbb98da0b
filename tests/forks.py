"""Processes of headrace that start in milliseconds: forks of one that has imported everything.

Of a command of a tenth of a second, Python and imports take more than the command: half a second of CPU each,
and the tests start thousands. What a fork runs is the same entry point, with the arguments, the environment,
the directory and the standard streams that it would have had.

Each process of pytest has a fork server for each entry point, a process of its own without threads. It gets
requests over a socket, with the descriptors of the standard streams and of a pipe. It forks a guardian, which
forks the process, writes its pid to the pipe, waits for it, and writes how it ended.

What a process looks like from outside (its arguments in /proc, its memory, LD_PRELOAD, a variable that Python
itself reads) is the fork server's. Tests about that start a real one, and so does `can_fork` if it has to.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import IO

from tests import sanitizers

ROOT = Path(__file__).parents[1]
MOST_BYTES = 1 << 17
SERVER = "headrace.cli.nats_server:main"
COMMAND = "headrace.cli:main"
PRELOADED = {
    SERVER: ("headrace.cli.nats_server", "headrace.runner", "headrace.server", "uvloop"),
    COMMAND: ("headrace.cli.command", "headrace.cli.nats_connection", "headrace.runner", "headrace.server"),
}
FIXED = ("LD_", "PYTHON", "COVERAGE", "ASAN_", "UBSAN_")
"""Variables that begin like this count when a process starts, or when it imports something."""

Stream = int | IO[bytes]


class ForkedProcess:
    """What tests use of subprocess.Popen."""

    def __init__(self, args: Sequence[str], status: int) -> None:
        self.args = list(args)
        self.returncode: int | None = None
        self._status = status
        self._line = b""
        self.pid = int(self._read_line())

    def _read_line(self) -> bytes:
        while b"\n" not in self._line:
            piece = os.read(self._status, 64)
            assert piece, "the guardian of a fork has ended without a word"
            self._line += piece
        line, _, self._line = self._line.partition(b"\n")
        return line

    def poll(self) -> int | None:
        if self.returncode is None and (self._line or select.select([self._status], [], [], 0)[0]):
            self.returncode = int(self._read_line())
            os.close(self._status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            select.select([self._status], [], [], left)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and its guardian is about to say so
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The end of whoever wants processes. It is started when it is first needed."""

    def __init__(self, entry: str) -> None:
        self._entry = entry
        self._lock = threading.Lock()
        self._fixed = fixed_variables(os.environ)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forks", entry, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
        )
        theirs.close()
        atexit.register(self.close)

    def fits(self, environment: Mapping[str, str]) -> bool:
        return self._fixed == fixed_variables(environment)

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        streams: tuple[Stream, Stream, Stream],
        directory: str,
    ) -> ForkedProcess:
        request = {"arguments": list(arguments), "environment": dict(environment), "directory": directory}
        status, theirs = os.pipe()
        numbers = [stream if isinstance(stream, int) else stream.fileno() for stream in streams]
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], [*numbers, theirs])
        os.close(theirs)
        return ForkedProcess([self._entry, *arguments], status)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


_servers: dict[str, ForkServer] = {}
_servers_lock = threading.Lock()


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether a fork in this environment is like a process that was started in it."""
    return not sanitizers.ARE_AT_WORK and fixed_variables(environment) == fixed_variables(os.environ)


def fork(
    entry: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    streams: tuple[Stream, Stream, Stream],
    directory: Path | None = None,
) -> ForkedProcess:
    """A process that runs this entry point. `streams` are its stdin, stdout and stderr."""
    with _servers_lock:
        if entry in _servers and not _servers[entry].fits(environment):
            _servers.pop(entry).close()
        if entry not in _servers:
            _servers[entry] = ForkServer(entry)
        server = _servers[entry]
    return server.start(arguments, environment, streams, str(directory or os.getcwd()))


def fixed_variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(FIXED)}


# -- in the fork server


def serve(entry: str, requests: socket.socket) -> None:
    for module in PRELOADED[entry]:
        import_module(module)
    if entry == COMMAND:  # each command imports what it needs when it is chosen
        for package in map(import_module, ("headrace.cli", "headrace.bench")):
            for found in walk_packages(package.__path__, f"{package.__name__}."):
                if not found.name.startswith("headrace.bench.report"):  # which needs Spark
                    import_module(found.name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for guardians
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, MOST_BYTES, 4)
        if not data:
            return
        if os.fork() == 0:
            requests.close()
            guard(entry, json.loads(data), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def guard(entry: str, request: dict[str, object], descriptors: list[int]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = descriptors.pop()
    pid = os.fork()
    if pid == 0:
        os.close(status)
        become(entry, request, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    os.write(status, b"%d\n" % pid)
    _, ended = os.waitpid(pid, 0)
    os.write(status, b"%d\n" % os.waitstatus_to_exitcode(ended))
    os._exit(0)


def become(entry: str, request: dict[str, object], descriptors: list[int]) -> None:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        if descriptor > 2:
            os.close(descriptor)
    os.chdir(str(request["directory"]))
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    sys.argv = [entry, *request["arguments"]]  # type: ignore[misc]
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(1, "w", closefd=False)), line_buffering=os.isatty(1)
    )
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w", closefd=False)), errors="backslashreplace", line_buffering=True
    )
    module, _, function = entry.partition(":")
    code = 0
    try:
        getattr(import_module(module), function)()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else bool(error.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    leave(code)


def leave(code: int) -> None:
    """As Python does: threads end, functions of atexit run, and what is buffered is written."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120
    os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))

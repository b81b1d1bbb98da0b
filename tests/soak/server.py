"""The server process: started, killed, stopped and started again on one port, and looked at from outside."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.servers import reserved_port, server_command

START_SECONDS = 60.0
STOP_SECONDS = 60.0
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Vitals:
    memory_bytes: int
    descriptors: int
    threads: int


class ServerFailed(Exception):
    """It does not start, does not stop, or has ended by itself."""


class ServerProcess:
    def __init__(self, store: Path, log: Path) -> None:
        self._reserved = ExitStack()
        """The port stays ours while the server is down."""
        self.port = self._reserved.enter_context(reserved_port())
        self.log = log
        self.life = 0
        """How often it was started."""
        self.since = 0.0
        self._command = server_command("headrace")
        self._flags = ["-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(store)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServerFailed("the server was not started")
        return self._process

    async def start(self) -> None:
        """Returns when it answers."""
        self.life += 1
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, *self._flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_the_supervisor,
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise ServerFailed(f"the server did not start: exit code {self._process.returncode}")
            if await self.answers():
                self.since = time.monotonic()
                return
            await asyncio.sleep(0.05)
        raise ServerFailed(f"the server did not answer within {START_SECONDS:.0f} s of its start")

    async def answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        try:
            writer.write(b'CONNECT {"verbose":false}\r\nPING\r\n')
            return b"INFO" in await asyncio.wait_for(reader.readline(), 5)
        except (OSError, TimeoutError):
            return False
        finally:
            writer.close()

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def terminate(self) -> bool:
        """Whether it ended. It is killed if it did not."""
        self.process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        while self.running():
            if time.monotonic() > deadline:
                self.kill()
                return False
            await asyncio.sleep(0.05)
        return True

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def vitals(self) -> Vitals | None:
        """None while there is no process."""
        directory = Path("/proc", str(self.process.pid))
        try:
            status = dict(line.split(":", 1) for line in (directory / "status").read_text().splitlines())
            descriptors = len(os.listdir(directory / "fd"))
        except (FileNotFoundError, ProcessLookupError):
            return None
        if "VmRSS" not in status:  # a process that has ended and was not waited for
            return None
        return Vitals(int(status["VmRSS"].split()[0]) * 1024, descriptors, int(status["Threads"]))


def _end_with_the_supervisor() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

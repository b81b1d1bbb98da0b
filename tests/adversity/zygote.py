"""Servers that start in milliseconds: a process that has imported everything, and forks one for each line.

`python -m tests.adversity.zygote <segment bytes>` reads lines of JSON: {"arguments": [...], "log": path}
starts headrace-server and answers with its process id; {"wait": pid} answers when that has ended. Small
segments make seals, rewrites and compression happen all the time; only the engine's default is replaced.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

START_SECONDS = 30.0
_MONITOR = re.compile(rb"Starting http monitor on \S+:(\d+)")
_LISTENING = re.compile(rb"Listening for client connections on \S+:(\d+)")


class ForkedServer:
    def __init__(self, zygote: Zygote, pid: int, log_file: Path) -> None:
        self._zygote = zygote
        self.pid = pid
        self.log_file = log_file
        self.ended = False

    def port(self) -> int:
        """Where it listens, once it is ready. Raises RuntimeError if it is not in time."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            log = self.log_file.read_bytes()
            listening = _LISTENING.search(log)
            if listening and b"Server is ready" in log:
                return int(listening[1])
            if Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].startswith("Z"):
                break
            time.sleep(0.005)
        raise RuntimeError(f"the server does not start:\n{self.log_file.read_text(errors='replace')}")

    def monitor_port(self) -> int:
        """Of a ready server that was started with `-m -1`."""
        listening = _MONITOR.search(self.log_file.read_bytes())
        assert listening is not None
        return int(listening[1])

    def end(self, by: signal.Signals) -> None:
        os.kill(self.pid, by)
        self.wait()

    def wait(self) -> None:
        if not self.ended:
            self._zygote.ask({"wait": self.pid})
            self.ended = True


class Zygote:
    """The driver's end. `environment` is that of all its servers."""

    def __init__(self, segment_bytes: int, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.adversity.zygote", str(segment_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            cwd=Path(__file__).parents[2],
        )

    def ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    @contextmanager
    def server(self, store: Path, log_file: Path, *flags: str) -> Iterator[ForkedServer]:
        """A server with this store directory; killed at the end if it is still there."""
        log_file.write_bytes(b"")
        arguments = ["-a", "127.0.0.1", "-p", "-1", "-js", "-sd", str(store), *flags]
        server = ForkedServer(self, self.ask({"arguments": arguments, "log": str(log_file)}), log_file)
        try:
            yield server
        finally:
            if not server.ended:
                server.end(signal.SIGKILL)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def serve(arguments: list[str], log: str) -> None:
    from headrace.cli import nats_server

    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os._exit(nats_server.run(arguments))


def main(segment_bytes: int) -> None:
    import headrace.cli.nats_server  # everything, before the first fork
    from headrace.engine.store.log import Log
    from headrace.streams import stream
    from headrace.streams.backup import staging

    assert headrace.cli.nats_server
    for module in (stream, staging):
        module.Log = partial(Log, segment_bytes=segment_bytes)  # type: ignore[attr-defined]
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "wait" in request:
            os.waitpid(request["wait"], 0)
            answer = 0
        else:
            answer = os.fork()
            if answer == 0:
                serve(request["arguments"], request["log"])
        os.write(1, b"%d\n" % answer)


if __name__ == "__main__":
    main(int(sys.argv[1]))

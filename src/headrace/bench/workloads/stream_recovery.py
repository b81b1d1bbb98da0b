"""How long a server with a large stream takes to start: from exec to its first response about the stream.

The stream is filled once per server and kept for the later rounds; its messages are counted after every
start. The files are in the page cache, for all servers alike: this is the cost of recovery, not of the disk.
"""

from __future__ import annotations

import atexit
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace

from headrace.bench.failure import BenchError
from headrace.bench.jetstream import StreamFacts, open_api, stream_facts
from headrace.bench.servers import Process, Running, Server
from headrace.bench.workloads.stream_publish import StreamPublish, publish_to_stream
from headrace.bench.workloads.workload import Conducted, Sample
from headrace.client.addresses import Address

STREAM = "recovery"
ANSWER_SECONDS = 120.0
STOP_SECONDS = 60.0  # an interrupted stop would make the next start a recovery
POLL_SECONDS = 0.001
IN_FLIGHT = 4096
STALL_SECONDS = 60.0
WRITTEN_BEFORE_KILL = 10_000

_filled: dict[tuple[Server, int, int], str] = {}  # the folders, which are removed when the program ends


@dataclass(frozen=True)
class StreamRecovery:
    """`messages` of `size` bytes are stored; with `kill` some more, and then the server is killed."""

    size: int
    messages: int
    kill: bool = False
    unit = "s"
    higher_is_better = False

    def conduct(self, server: Server) -> Conducted:
        folder = self._folder(server)
        expected = self._write_and_kill(server, folder) if self.kill else 0
        started = Running(server, folder, streams=True)
        began = time.perf_counter()
        try:
            process, facts = await_stream(started, STREAM)
            seconds = time.perf_counter() - began
            cost = process.cpu_seconds(), process.peak_rss_bytes()
            started.stop_cleanly(STOP_SECONDS)
        except BenchError as error:
            raise started.explain(error) from error
        finally:
            started.stop()
        lost = max(expected, self.messages) - facts.messages
        if not self.kill and lost:
            raise BenchError(f"{server.name}: {lost:,} of {self.messages:,} messages are missing")
        # nats-server may lose what it has not synced, so this is reported, not an error.
        extra = {"acknowledged messages missing": float(lost)} if self.kill else {}
        return Conducted(Sample(seconds, seconds, 0.0, extra=extra), *cost)

    def scaled(self, factor: float) -> StreamRecovery:
        return replace(self, messages=max(1, int(self.messages * factor)))

    def _folder(self, server: Server) -> str:
        key = server, self.size, self.messages
        if server.address is not None:
            raise BenchError(f"{server.name} cannot be restarted: it was not started here")
        if key not in _filled:
            with ExitStack() as unless_filled:
                folder = unless_filled.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-"))
                self._publish(server, folder, self.messages, kill=False)
                atexit.register(unless_filled.pop_all().close)
            _filled[key] = folder
        return _filled[key]

    def _write_and_kill(self, server: Server, folder: str) -> int:
        """Returns how many messages the stream must have afterwards."""
        return self._publish(server, folder, WRITTEN_BEFORE_KILL, kill=True)

    def _publish(self, server: Server, folder: str, messages: int, *, kill: bool) -> int:
        plan = filling(self.size, messages)
        started = Running(server, folder, streams=True)
        try:
            address = started.await_ready().address
            with plan.prepared(address) as ready:
                publish_to_stream(plan, address, ready.facts.last + 1)
            if kill:
                started.kill()
            started.stop_cleanly(STOP_SECONDS)
            return ready.facts.messages + messages
        except BenchError as error:
            raise started.explain(error) from error
        finally:
            started.stop()


def filling(size: int, messages: int, storage: str = "file") -> StreamPublish:
    """Publishes to a stream that is kept for the next start."""
    return StreamPublish(
        IN_FLIGHT,
        size,
        messages,
        storage=storage,
        subject=STREAM,
        stream=STREAM,
        stall_seconds=STALL_SECONDS,
        keep=True,
    )


def await_stream(started: Running, name: str) -> tuple[Process, StreamFacts]:
    """Wait until the server answers about the stream. Raises BenchError if it does not."""
    deadline = time.monotonic() + ANSWER_SECONDS
    process = started.await_listening(ANSWER_SECONDS)
    while True:
        try:
            facts = _ask(process.address, name)
        except BenchError:
            if time.monotonic() > deadline or started.popen.poll() is not None:
                raise
            facts = None
        if facts is not None:
            return process, facts
        if time.monotonic() > deadline:
            raise BenchError(f"no stream {name} after {ANSWER_SECONDS:.0f} seconds")
        time.sleep(POLL_SECONDS)


def _ask(address: Address, name: str) -> StreamFacts | None:
    with open_api(address) as api:
        return stream_facts(api, name)

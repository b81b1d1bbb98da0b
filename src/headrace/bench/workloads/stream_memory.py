"""What a stored message costs the server in memory, and how long a start with very many of them takes."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace

from headrace.bench.failure import BenchError
from headrace.bench.servers import Process, Running, Server
from headrace.bench.workloads.stream_publish import publish_to_stream
from headrace.bench.workloads.stream_recovery import STOP_SECONDS, STREAM, await_stream, filling
from headrace.bench.workloads.workload import Conducted, Sample

SETTLE_SECONDS = 3.0
Figures = dict[str, float]


@dataclass(frozen=True)
class StreamMemory:
    """How much the server's resident memory has grown per message, a while after the last was stored.

    Also reported: the same after a restart (compared with a server without streams), and how long it took.
    """

    size: int
    messages: int
    storage: str = "file"
    settle_seconds: float = SETTLE_SECONDS
    unit = "B/message"
    higher_is_better = False

    def conduct(self, server: Server) -> Conducted:
        if server.address is not None:
            raise BenchError(f"{server.name} cannot be restarted: it was not started here")
        with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
            sample, empty, cpu_seconds, peak = self._fill(server, folder)
            return Conducted(
                replace(sample, extra=sample.extra | self._restart(server, folder, empty)), cpu_seconds, peak
            )

    def scaled(self, factor: float) -> StreamMemory:
        return replace(self, messages=max(1, int(self.messages * factor)))

    def _fill(self, server: Server, folder: str) -> tuple[Sample, int, float | None, int | None]:
        plan = filling(self.size, self.messages, self.storage)
        started = Running(server, folder, streams=True)
        try:
            process = started.await_ready()
            empty = _resident(process)
            with plan.prepared(process.address) as ready:
                run = publish_to_stream(plan, process.address, ready.facts.last + 1)
            time.sleep(self.settle_seconds)
            value = (_resident(process) - empty) / self.messages
            extra = {"messages stored per second": self.messages / run.seconds}
            sample = Sample(value, run.seconds, run.generator_cpu_share, extra=extra)
            cost = process.cpu_seconds(), process.peak_rss_bytes()
            started.stop_cleanly(STOP_SECONDS)
            return sample, empty, *cost
        except BenchError as error:
            raise started.explain(error) from error
        finally:
            started.stop()

    def _restart(self, server: Server, folder: str, empty: int) -> Figures:
        if self.storage == "memory":
            return {}
        started = Running(server, folder, streams=True)
        began = time.perf_counter()
        try:
            process, facts = await_stream(started, STREAM)
            seconds = time.perf_counter() - began
            if facts.messages != self.messages:
                raise BenchError(f"{self.messages - facts.messages:,} messages are missing after a restart")
            time.sleep(self.settle_seconds)
            resident = _resident(process)
        except BenchError as error:
            raise started.explain(error) from error
        finally:
            started.stop()
        return {
            "milliseconds to start again": seconds * 1000,
            "bytes per message after that": (resident - empty) / self.messages,
        }


def _resident(process: Process) -> int:
    resident = process.rss_bytes()
    if resident is None:
        raise BenchError(f"the memory of {process.name} is not known")
    return resident

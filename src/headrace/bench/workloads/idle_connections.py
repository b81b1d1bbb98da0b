"""Connections that do nothing after CONNECT and PING: what each costs the server."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from headrace.bench.generator import Progress
from headrace.bench.wire import open_connections
from headrace.bench.workloads.workload import Sample, ServerMemory, Unprepared
from headrace.client.addresses import Address

SETTLE_SECONDS = 1.5


@dataclass(frozen=True)
class IdleConnections(Unprepared):
    """How much the server's memory grows per connection; nan if it is unknown."""

    connections: int
    settle_seconds: float = SETTLE_SECONDS
    unit = "KB/connection"
    higher_is_better = False

    def run(self, address: Address, server_rss: ServerMemory, on_progress: Progress | None = None) -> Sample:
        before, started, cpu_before = server_rss(), time.perf_counter(), time.process_time()
        with open_connections(address, [b""] * self.connections, on_progress):
            seconds = time.perf_counter() - started
            cpu_share = (time.process_time() - cpu_before) / seconds
            if before is None:
                return Sample(float("nan"), seconds, cpu_share)
            time.sleep(self.settle_seconds)
            grown = (server_rss() or 0) - before
        return Sample(grown / 1000 / self.connections, seconds, cpu_share)

    def scaled(self, factor: float) -> IdleConnections:
        return replace(self, connections=max(1, int(self.connections * factor)))

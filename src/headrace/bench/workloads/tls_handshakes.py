"""TLS handshakes: how many a server completes per second."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from headrace.bench.generator import Progress, pinned_to_own_core
from headrace.bench.wire import BATCH_CONNECTIONS, greet, open_connections
from headrace.bench.workloads.workload import Sample, ServerMemory, Unprepared
from headrace.client.addresses import Address
from headrace.client.tls import Tls


@dataclass(frozen=True)
class TlsHandshakes(Unprepared):
    """Connections in batches, each with a full handshake, CONNECT and PING."""

    connections: int
    unit = "handshakes/s"
    higher_is_better = True

    def run(self, address: Address, server_rss: ServerMemory, on_progress: Progress | None = None) -> Sample:
        # What a client verifies costs the servers nothing, and the generator more than all the rest.
        address = address._replace(tls=replace(address.tls or Tls(), insecure=True))
        greet(address)  # both sides load what they need
        with pinned_to_own_core():
            started, cpu_before = time.perf_counter(), time.process_time()
            for done in range(0, self.connections, BATCH_CONNECTIONS):
                if on_progress:
                    on_progress(done / self.connections)
                with open_connections(address, [b""] * min(BATCH_CONNECTIONS, self.connections - done)):
                    pass
            seconds = time.perf_counter() - started
            cpu_share = (time.process_time() - cpu_before) / seconds
        return Sample(self.connections / seconds, seconds, cpu_share)

    def scaled(self, factor: float) -> TlsHandshakes:
        return replace(self, connections=max(1, int(self.connections * factor)))

"""Latency at a fixed rate, from the time at which a message was due.

A benchmark that waits for a slow server before it sends the next message sends fewer messages while the
server is slow, and so measures few of the bad moments (coordinated omission). Here the intended time of every
message is fixed before the run, and waiting for slow predecessors counts as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from headrace.bench.clients.load import Load
from headrace.bench.distribution import distributions
from headrace.bench.generator import STALL_SECONDS, Progress, run_load
from headrace.bench.histogram import Histogram
from headrace.bench.wire import channels, open_connections, subscribe_frame
from headrace.bench.workloads.workload import SUBJECT, Sample, ServerMemory, Unprepared, with_shares
from headrace.client.addresses import Address

SLICES_MAX = 600
PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)


@dataclass(frozen=True)
class FixedRate(Unprepared):
    """`rate` messages per second in all, from each publisher in turn, to every subscriber."""

    rate: float
    duration: float
    size: int
    publishers: int = 1
    subscribers: int = 1
    stall_seconds: float = STALL_SECONDS
    subject: str = SUBJECT
    unit = "us"
    higher_is_better = False

    @property
    def messages(self) -> int:
        return max(1, round(self.rate * self.duration))

    @property
    def slice_seconds(self) -> float:
        return float(max(1, math.ceil(self.duration / SLICES_MAX)))

    def run(self, address: Address, server_rss: ServerMemory, on_progress: Progress | None = None) -> Sample:
        payload, subject, interval = b"x" * self.size, self.subject.encode(), 1e9 / self.rate
        slices = math.ceil(self.duration / self.slice_seconds)
        waits, delays = Histogram(self.slice_seconds, slices), Histogram(self.slice_seconds, slices)
        greetings = [b""] * self.publishers + [subscribe_frame(subject)] * self.subscribers
        with open_connections(address, greetings) as sockets:
            load = Load(self.stall_seconds + 2 / self.rate, waits, delays, channels=channels(sockets))
            for number, connection in enumerate(sockets[: self.publishers]):
                load.add_paced_publisher(
                    connection.fileno(), subject, payload, number, self.publishers, self.messages, interval
                )
            for connection in sockets[self.publishers :]:
                load.add_timed_subscriber(connection.fileno(), self.messages, interval)
            run = run_load(load, self.messages, self.size, on_progress)
        latency, parts = distributions(waits, self.duration, self.rate)
        shares = [len(range(number, self.messages, self.publishers)) for number in range(self.publishers)]
        return Sample(
            latency.percentile(99),
            run.seconds,
            run.generator_cpu_share,
            with_shares(run.clients, shares, self.size),
            {f"p{percent:g}_us": latency.percentile(percent) for percent in PERCENTILES},
            latency,
            parts,
            distributions(delays, self.duration)[0],
            "since each message was due",
        )

    def scaled(self, factor: float) -> FixedRate:
        return replace(self, duration=self.duration * factor)

"""Round trips: requesters with requests in flight, responders that share the work as a queue group."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.bench.clients.load import Load
from headrace.bench.distribution import distributions
from headrace.bench.figures import share_evenly
from headrace.bench.generator import STALL_SECONDS, Progress, run_load
from headrace.bench.histogram import Histogram
from headrace.bench.wire import channels, open_connections, subscribe_frame
from headrace.bench.workloads.workload import SUBJECT, Sample, ServerMemory, Unprepared
from headrace.client.addresses import Address

SLICES_MAX = 600
QUEUE = b"responders"


@dataclass(frozen=True)
class RequestReply(Unprepared):
    """`requests` in all, divided among the requesters, each with `in_flight` at a time."""

    in_flight: int
    size: int
    requests: int
    stall_seconds: float = STALL_SECONDS
    subject: str = SUBJECT
    requesters: int = 1
    responders: int = 1
    unit = "requests/s"
    higher_is_better = True

    def run(self, address: Address, server_rss: ServerMemory, on_progress: Progress | None = None) -> Sample:
        payload, subject = b"x" * self.size, self.subject.encode()
        inboxes = [b"_INBOX.headracebench.%d." % number for number in range(self.requesters)]
        greetings = [subscribe_frame(subject, QUEUE)] * self.responders
        greetings += [subscribe_frame(inbox + b"*") for inbox in inboxes]
        waits = Histogram(1.0, SLICES_MAX)
        with open_connections(address, greetings) as sockets:
            load = Load(self.stall_seconds, waits, channels=channels(sockets))
            for connection in sockets[: self.responders]:
                load.add_responder(connection.fileno(), payload, self.in_flight * self.requesters)
            shares = share_evenly(self.requests, self.requesters)
            for connection, inbox, share in zip(sockets[self.responders :], inboxes, shares, strict=True):
                load.add_requester(connection.fileno(), subject, inbox, payload, share, self.in_flight)
            run = run_load(load, self.requests, self.size, on_progress)
        latency, slices = distributions(waits, run.seconds)
        extra = {f"p{percent}_us": latency.percentile(percent) for percent in (50, 99)}
        return Sample(
            self.requests / run.seconds,
            run.seconds,
            run.generator_cpu_share,
            run.clients,
            extra,
            latency,
            slices,
        )

    def scaled(self, factor: float) -> RequestReply:
        return replace(self, requests=max(self.in_flight, int(self.requests * factor)))

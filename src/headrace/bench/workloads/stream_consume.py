"""Pull a stream's messages from consumers: how many per second arrive, acknowledged or not."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from headrace.bench.clients.stream_load import StreamLoad
from headrace.bench.distribution import distributions
from headrace.bench.failure import BenchError
from headrace.bench.generator import STALL_SECONDS, Progress, Run, run_load
from headrace.bench.histogram import Histogram
from headrace.bench.jetstream import (
    Api,
    StreamFacts,
    await_acknowledged,
    create_consumer,
    delete_consumer,
    stream_for_run,
)
from headrace.bench.wire import channels, open_connections, subscribe_frame
from headrace.bench.workloads.stream_publish import SLICES_MAX, STREAM, StreamPublish, publish_to_stream
from headrace.bench.workloads.workload import SUBJECT, Sample, ServerMemory
from headrace.client.addresses import Address

FILL_IN_FLIGHT = 4096
ACKS = ("explicit", "none")


@dataclass(frozen=True)
class StreamConsume:
    """`messages` are in the stream beforehand; every client pulls `batch` of them at a time.

    Each has its own consumer and gets all messages, or all of them share one (`shared`). The stream is
    created and filled for the run; an existing one must have enough messages, and stays as it is.
    """

    batch: int
    size: int
    messages: int
    consumers: int = 1
    acks: str = "explicit"
    shared: bool = False
    storage: str = "file"
    stream: str = STREAM
    keep: bool = False
    stall_seconds: float = STALL_SECONDS
    subject: str = SUBJECT
    unit = "msgs/s"
    higher_is_better = True
    needs_streams = True

    @contextmanager
    def prepared(
        self, address: Address, on_progress: Progress | None = None
    ) -> Iterator[PreparedStreamConsume]:
        with stream_for_run(address, self.stream, self.subject, self.storage, keep=self.keep) as (api, facts):
            facts = self._filled(address, facts, on_progress)
            names = [f"bench-{secrets.token_hex(4)}" for _ in range(1 if self.shared else self.consumers)]
            for name in names:
                # Never the limit: everything in flight may be unacknowledged.
                create_consumer(api, self.stream, name, self.acks, 2 * self.batch * self.consumers)
            try:
                yield PreparedStreamConsume(self, facts, api, names)
            finally:
                with suppress(BenchError, OSError):
                    for name in names if facts.existed else ():
                        delete_consumer(api, self.stream, name)

    def run(self, address: Address, server_rss: ServerMemory, on_progress: Progress | None = None) -> Sample:
        with self.prepared(address) as ready:
            return ready.run(address, server_rss, on_progress)

    def scaled(self, factor: float) -> StreamConsume:
        return replace(self, messages=max(self.consumers, int(self.messages * factor)))

    def _filled(self, address: Address, facts: StreamFacts, on_progress: Progress | None) -> StreamFacts:
        if facts.existed:
            if facts.messages < self.messages:
                raise BenchError(
                    f"stream {self.stream} holds {facts.messages:,} messages,"
                    f" and {self.messages:,} are wanted"
                )
            return facts
        filling = StreamPublish(FILL_IN_FLIGHT, self.size, self.messages, subject=self.subject)
        publish_to_stream(filling, address, facts.last + 1, on_progress=on_progress)
        return replace(facts, messages=self.messages, first=facts.last + 1, last=facts.last + self.messages)


@dataclass(frozen=True)
class PreparedStreamConsume:
    """The same, with its stream full and its consumers in place."""

    plan: StreamConsume
    facts: StreamFacts
    api: Api
    names: list[str]

    def run(self, address: Address, server_rss: ServerMemory, on_progress: Progress | None = None) -> Sample:
        plan, waits = self.plan, Histogram(1.0, SLICES_MAX)
        run = self._pull(address, waits, on_progress)
        settled = self._settle()
        # The server's work includes processing all acknowledgements.
        seconds = run.seconds + settled
        latency, slices = distributions(waits, run.seconds)
        deliveries = sum(client.messages for client in run.clients)
        extra = {"pull_p50_us": latency.percentile(50)}
        if settled:
            extra["acks_settled_us"] = settled * 1e6
        return Sample(
            deliveries / seconds,
            seconds,
            run.generator_cpu_share,
            run.clients,
            extra,
            latency,
            slices,
            latency_of=f"per pull of {plan.batch:,}",
        )

    def _pull(self, address: Address, waits: Histogram, on_progress: Progress | None) -> Run:
        plan, token = self.plan, secrets.token_hex(4)
        inboxes = [f"_INBOX.headracebench.{token}.{number}".encode() for number in range(plan.consumers)]
        with open_connections(address, [subscribe_frame(inbox) for inbox in inboxes]) as sockets:
            load = StreamLoad(plan.stall_seconds, waits, channels=channels(sockets))
            acknowledges, first = plan.acks != "none", self.facts.first
            for number, (connection, inbox) in enumerate(zip(sockets, inboxes, strict=True)):
                name = self.names[0 if plan.shared else number]
                common = (connection.fileno(), plan.stream, name, inbox, plan.batch, acknowledges)
                if plan.shared:
                    load.add_sharing_puller(*common)
                else:
                    load.add_puller(*common, first, plan.messages)
            if plan.shared:
                load.expect_shared(plan.messages)
                load.expect_sequences(first, plan.messages)
            return run_load(load, plan.messages, plan.size, on_progress, shared=plan.shared)

    def _settle(self) -> float:
        """How long the server took, after the last message, until it had processed all acknowledgements."""
        if self.plan.acks == "none":
            return 0.0
        started = time.perf_counter()
        for name in self.names:
            await_acknowledged(self.api, self.plan.stream, name, self.plan.messages)
        return time.perf_counter() - started

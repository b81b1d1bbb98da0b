"""Publish to a stream: how many messages per second it acknowledges, and how long that takes."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from headrace.bench.clients.stream_load import StreamLoad
from headrace.bench.distribution import distributions
from headrace.bench.failure import BenchError
from headrace.bench.figures import share_evenly
from headrace.bench.generator import STALL_SECONDS, Progress, Run, run_load
from headrace.bench.histogram import Histogram
from headrace.bench.jetstream import StreamFacts, stream_for_run
from headrace.bench.wire import channels, open_connections, subscribe_frame
from headrace.bench.workloads.workload import SUBJECT, Sample, ServerMemory, with_shares
from headrace.client.addresses import Address

SLICES_MAX = 600
STREAM = "headrace-bench"
PERCENTILES = (50.0, 99.0)


@dataclass(frozen=True)
class StreamPublish:
    """`messages` in all, divided among the publishers, each with `in_flight` unacknowledged at a time.

    The stream is created for the run and deleted after it, unless `keep`; an existing one is used as it is
    and stays. With `message_ids` every message has its own Nats-Msg-Id. `expects` is a header with which the
    one publisher names the last sequence. With `keys` the subject is continued with one of as many keys.
    """

    in_flight: int
    size: int
    messages: int
    publishers: int = 1
    storage: str = "file"
    message_ids: bool = False
    stream: str = STREAM
    keep: bool = False
    stall_seconds: float = STALL_SECONDS
    subject: str = SUBJECT
    expects: str = ""
    keys: int = 0
    unit = "acks/s"
    higher_is_better = True
    needs_streams = True

    @contextmanager
    def prepared(
        self, address: Address, on_progress: Progress | None = None
    ) -> Iterator[PreparedStreamPublish]:
        with stream_for_run(address, self.stream, self.subject, self.storage, keep=self.keep) as (_, facts):
            yield PreparedStreamPublish(self, facts)

    def run(self, address: Address, server_rss: ServerMemory, on_progress: Progress | None = None) -> Sample:
        with self.prepared(address) as ready:
            return ready.run(address, server_rss, on_progress)

    def scaled(self, factor: float) -> StreamPublish:
        return replace(self, messages=max(self.publishers, int(self.messages * factor)))


@dataclass(frozen=True)
class PreparedStreamPublish:
    """The same, with its stream."""

    plan: StreamPublish
    facts: StreamFacts

    def run(self, address: Address, server_rss: ServerMemory, on_progress: Progress | None = None) -> Sample:
        plan, waits = self.plan, Histogram(1.0, SLICES_MAX)
        run = publish_to_stream(plan, address, self.facts.last + 1, waits, on_progress)
        latency, slices = distributions(waits, run.seconds)
        clients = [replace(client, role="publisher") for client in run.clients]
        return Sample(
            plan.messages / run.seconds,
            run.seconds,
            run.generator_cpu_share,
            with_shares(clients, share_evenly(plan.messages, plan.publishers), plan.size),
            {f"p{percent:g}_us": latency.percentile(percent) for percent in PERCENTILES},
            latency,
            slices,
            latency_of="until each acknowledgement",
        )


def publish_to_stream(
    plan: StreamPublish,
    address: Address,
    first: int,
    waits: Histogram | None = None,
    on_progress: Progress | None = None,
) -> Run:
    """Publish everything; the sequences must start at `first`. Raises BenchError."""
    token = secrets.token_hex(4)
    inboxes = [f"_INBOX.headracebench.{token}.{number}.".encode() for number in range(plan.publishers)]
    shares = share_evenly(plan.messages, plan.publishers)
    with open_connections(address, [subscribe_frame(inbox + b"*") for inbox in inboxes]) as sockets:
        load = StreamLoad(plan.stall_seconds, waits, channels=channels(sockets))
        load.expect_sequences(first, plan.messages)
        for number, (connection, inbox, share) in enumerate(zip(sockets, inboxes, shares, strict=True)):
            identity = f"{token}-{number}-".encode() if plan.message_ids else b""
            load.add_stream_publisher(
                connection.fileno(),
                plan.subject.encode(),
                inbox,
                b"x" * plan.size,
                share,
                plan.in_flight,
                identity,
                plan.expects.encode(),
                first,
                plan.keys,
            )
        run = run_load(load, plan.messages, plan.size, on_progress)
    if load.refusals:
        first_one = load.first_refusal.strip().replace("\r\n", " ")
        raise BenchError(f"{load.refusals:,} of {plan.messages:,} messages were not stored: {first_one}")
    if load.duplicates:
        raise BenchError(f"{load.duplicates:,} of {plan.messages:,} messages were taken for duplicates")
    return run

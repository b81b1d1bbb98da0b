"""A key-value bucket: how many puts per second it acknowledges, how many gets per second it answers.

On the wire, as clients send them: a put is a publish to `$KV.<bucket>.<key>`, a get is a request for the last
message of this subject. The bucket is a stream with the configuration that clients give to buckets.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from headrace.bench.clients.stream_load import StreamLoad
from headrace.bench.distribution import distributions
from headrace.bench.failure import BenchError
from headrace.bench.generator import STALL_SECONDS, Progress, Run, run_load
from headrace.bench.histogram import Histogram
from headrace.bench.jetstream import StreamFacts, stream_for_run
from headrace.bench.wire import channels, open_connections, subscribe_frame
from headrace.bench.workloads.stream_publish import (
    PERCENTILES,
    SLICES_MAX,
    PreparedStreamPublish,
    StreamPublish,
    publish_to_stream,
)
from headrace.bench.workloads.workload import Sample, ServerMemory
from headrace.client.addresses import Address

BUCKET = "bench"
STREAM = f"KV_{BUCKET}"
SUBJECT = f"$KV.{BUCKET}.key-"
GETS = f"$JS.API.DIRECT.GET.{STREAM}."
KEYS = 10_000
FILL_IN_FLIGHT = 1024
BUCKET_CONFIG = {
    "max_msgs_per_subject": 1,
    "discard": "new",
    "allow_rollup_hdrs": True,
    "deny_delete": True,
    "allow_direct": True,
}


@contextmanager
def _bucket(address: Address, storage: str) -> Iterator[StreamFacts]:
    with stream_for_run(address, STREAM, f"$KV.{BUCKET}.>", storage, config=BUCKET_CONFIG) as (_, facts):
        yield facts


@dataclass(frozen=True)
class KeyValuePuts:
    """One client that keeps `in_flight` puts unacknowledged, and puts every key in turn."""

    in_flight: int
    size: int
    messages: int
    keys: int = KEYS
    storage: str = "file"
    stall_seconds: float = STALL_SECONDS
    unit = "puts/s"
    higher_is_better = True
    needs_streams = True

    @contextmanager
    def prepared(
        self, address: Address, on_progress: Progress | None = None
    ) -> Iterator[PreparedStreamPublish]:
        with _bucket(address, self.storage) as facts:
            yield PreparedStreamPublish(self._publishing(), facts)

    def run(self, address: Address, server_rss: ServerMemory, on_progress: Progress | None = None) -> Sample:
        with self.prepared(address) as ready:
            return ready.run(address, server_rss, on_progress)

    def scaled(self, factor: float) -> KeyValuePuts:
        return replace(self, messages=max(1, int(self.messages * factor)))

    def _publishing(self) -> StreamPublish:
        return StreamPublish(
            self.in_flight,
            self.size,
            self.messages,
            subject=SUBJECT,
            keys=self.keys,
            stall_seconds=self.stall_seconds,
        )


@dataclass(frozen=True)
class KeyValueGets:
    """One client that keeps `in_flight` gets unanswered, and gets every key in turn; all have values."""

    in_flight: int
    size: int
    requests: int
    keys: int = KEYS
    storage: str = "file"
    stall_seconds: float = STALL_SECONDS
    unit = "gets/s"
    higher_is_better = True
    needs_streams = True

    @contextmanager
    def prepared(self, address: Address, on_progress: Progress | None = None) -> Iterator[PreparedGets]:
        with _bucket(address, self.storage) as facts:
            filling = StreamPublish(FILL_IN_FLIGHT, self.size, self.keys, subject=SUBJECT, keys=self.keys)
            publish_to_stream(filling, address, facts.last + 1, on_progress=on_progress)
            yield PreparedGets(self)

    def run(self, address: Address, server_rss: ServerMemory, on_progress: Progress | None = None) -> Sample:
        with self.prepared(address) as ready:
            return ready.run(address, server_rss, on_progress)

    def scaled(self, factor: float) -> KeyValueGets:
        return replace(self, requests=max(1, int(self.requests * factor)))


@dataclass(frozen=True)
class PreparedGets:
    """The same, with a value for every key."""

    plan: KeyValueGets

    def run(self, address: Address, server_rss: ServerMemory, on_progress: Progress | None = None) -> Sample:
        plan, waits = self.plan, Histogram(1.0, SLICES_MAX)
        run = self._get(address, waits, on_progress)
        latency, slices = distributions(waits, run.seconds)
        return Sample(
            plan.requests / run.seconds,
            run.seconds,
            run.generator_cpu_share,
            run.clients,
            {f"p{percent:g}_us": latency.percentile(percent) for percent in PERCENTILES},
            latency,
            slices,
            latency_of="per get",
        )

    def _get(self, address: Address, waits: Histogram, on_progress: Progress | None) -> Run:
        plan, inbox = self.plan, f"_INBOX.headracebench.{secrets.token_hex(4)}.".encode()
        with open_connections(address, [subscribe_frame(inbox + b"*")]) as (connection,):
            load = StreamLoad(plan.stall_seconds, waits, channels=channels([connection]))
            load.add_getter(
                connection.fileno(),
                (GETS + SUBJECT).encode(),
                inbox,
                plan.size,
                plan.requests,
                plan.in_flight,
                plan.keys,
            )
            run = run_load(load, plan.requests, plan.size, on_progress)
        if load.refusals:
            first_one = load.first_refusal.strip().replace("\r\n", " ")
            raise BenchError(f"{load.refusals:,} of {plan.requests:,} gets had no value: {first_one}")
        return run

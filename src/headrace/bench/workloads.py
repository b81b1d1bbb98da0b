"""What is measured: each workload opens its connections, runs the load once and returns a sample.

A workload knows nothing of who started the server; `server_rss` tells it the server's memory where it needs
to know.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

from headrace.bench.figures import percentile, share_evenly
from headrace.bench.generator import STALL_SECONDS, Client, run_load
from headrace.bench.wire import Address, block_of, open_connections, publish_frame, subscribe_frame
from headrace.engine.load import Load

SUBJECT = b"bench"
SHUFFLE_SEED = 20260101
SETTLE_SECONDS = 1.5


@dataclass(frozen=True)
class Sample:
    """One measurement of one workload: the value that is compared, and what else there is to say about it."""

    value: float
    seconds: float
    generator_cpu_share: float
    clients: list[Client] = field(default_factory=list, repr=False)
    extra: dict[str, float] = field(default_factory=dict)


class Workload(Protocol):
    """`unit` names what `value` counts; `higher_is_better` is False for costs."""

    @property
    def unit(self) -> str: ...
    @property
    def higher_is_better(self) -> bool: ...
    def run(self, address: Address, server_rss: Callable[[], int]) -> Sample: ...
    def scaled(self, factor: float) -> "Workload":
        """The same workload with fewer or more messages (or connections)."""
        ...


@dataclass(frozen=True)
class PublishSubscribe:
    """`messages` in all, divided among the publishers; every subscriber receives all of them."""

    publishers: int
    subscribers: int
    size: int
    messages: int
    one_message_per_write: bool = False
    stall_seconds: float = STALL_SECONDS
    unit = "msgs/s"
    higher_is_better = True

    def run(self, address: Address, server_rss: Callable[[], int]) -> Sample:
        frame = publish_frame(SUBJECT, b"x" * self.size)
        block = block_of(frame)
        write_length = len(frame) if self.one_message_per_write else len(block)
        greetings = [b""] * self.publishers + [subscribe_frame(SUBJECT)] * self.subscribers
        with open_connections(address, greetings) as sockets:
            load = Load(self.stall_seconds)
            shares = share_evenly(self.messages, self.publishers)
            for connection, share in zip(sockets, shares, strict=False):
                load.add_publisher(connection.fileno(), block, share * len(frame), write_length)
            for connection in sockets[self.publishers :]:
                load.add_subscriber(connection.fileno(), self.messages, same_frames=True)
            run = run_load(load, self.messages, self.size)
        clients = [
            replace(client, messages=share, payload_bytes=share * self.size)
            for client, share in zip(run.clients, shares, strict=False)
        ] + run.clients[self.publishers :]
        deliveries = self.messages * max(1, self.subscribers)
        return Sample(deliveries / run.seconds, run.seconds, run.generator_cpu_share, clients)

    def scaled(self, factor: float) -> "PublishSubscribe":
        return replace(self, messages=max(self.publishers, int(self.messages * factor)))


@dataclass(frozen=True)
class RequestReply:
    """One responder, one requester with a wildcard inbox and a new reply token per request, like clients."""

    in_flight: int
    size: int
    requests: int
    stall_seconds: float = STALL_SECONDS
    unit = "requests/s"
    higher_is_better = True

    def run(self, address: Address, server_rss: Callable[[], int]) -> Sample:
        payload, inbox = b"x" * self.size, b"_INBOX.headracebench."
        greetings = [subscribe_frame(SUBJECT), subscribe_frame(inbox + b"*")]
        with open_connections(address, greetings) as (responder, requester):
            load = Load(self.stall_seconds)
            load.add_responder(responder.fileno(), payload, self.in_flight)
            index = load.add_requester(
                requester.fileno(), SUBJECT, inbox, payload, self.requests, self.in_flight
            )
            run = run_load(load, self.requests, self.size)
            latencies = sorted(load.latencies(index))
        extra = {f"p{percent}_us": percentile(latencies, percent) / 1000 for percent in (50, 99)}
        return Sample(self.requests / run.seconds, run.seconds, run.generator_cpu_share, run.clients, extra)

    def scaled(self, factor: float) -> "RequestReply":
        return replace(self, requests=max(self.in_flight, int(self.requests * factor)))


@dataclass(frozen=True)
class ManySubjects:
    """One publisher, every message to another subject in random order; one subscriber to `bench.>`."""

    subjects: int
    size: int
    stall_seconds: float = STALL_SECONDS
    unit = "msgs/s"
    higher_is_better = True

    def run(self, address: Address, server_rss: Callable[[], int]) -> Sample:
        stream = _shuffled_subjects(self.subjects, self.size)
        with open_connections(address, [b"", subscribe_frame(b"bench.>")]) as (publisher, subscriber):
            load = Load(self.stall_seconds)
            load.add_publisher(publisher.fileno(), stream, len(stream), 64 * 1024)
            load.add_subscriber(subscriber.fileno(), self.subjects, same_frames=False)
            run = run_load(load, self.subjects, self.size)
        sent = replace(run.clients[0], messages=self.subjects, payload_bytes=self.subjects * self.size)
        clients = [sent, run.clients[1]]
        return Sample(self.subjects / run.seconds, run.seconds, run.generator_cpu_share, clients)

    def scaled(self, factor: float) -> "ManySubjects":
        return replace(self, subjects=max(1, int(self.subjects * factor)))


@lru_cache(maxsize=1)
def _shuffled_subjects(subjects: int, size: int) -> bytes:
    """All the frames of a run in one piece: every round sends the same subjects in the same order."""
    payload = b"x" * size
    frames = [publish_frame(b"bench.%d.%d" % divmod(number, 1000), payload) for number in range(subjects)]
    random.Random(SHUFFLE_SEED).shuffle(frames)
    return b"".join(frames)


@dataclass(frozen=True)
class IdleConnections:
    """How much the server's memory grows per connection that does nothing after CONNECT and PING."""

    connections: int
    settle_seconds: float = SETTLE_SECONDS
    unit = "KB/connection"
    higher_is_better = False

    def run(self, address: Address, server_rss: Callable[[], int]) -> Sample:
        before, started = server_rss(), time.perf_counter()
        with open_connections(address, [b""] * self.connections):
            seconds = time.perf_counter() - started
            time.sleep(self.settle_seconds)
            grown = server_rss() - before
        return Sample(grown / 1000 / self.connections, seconds, 0.0)

    def scaled(self, factor: float) -> "IdleConnections":
        return replace(self, connections=max(1, int(self.connections * factor)))

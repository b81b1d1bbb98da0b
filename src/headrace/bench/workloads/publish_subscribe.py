"""Publishers and subscribers of one subject: the workload of nats-bench."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from headrace.bench.clients.load import Load
from headrace.bench.clients.websocket import mask_frame
from headrace.bench.figures import share_evenly
from headrace.bench.generator import STALL_SECONDS, Outcome, Progress, Run, drive, judge
from headrace.bench.processes import drive_in_processes
from headrace.bench.wire import block_of, channels, open_connections, publish_frame, subscribe_frame
from headrace.bench.workloads.workload import SUBJECT, Sample, ServerMemory, Unprepared, with_shares
from headrace.client.addresses import Address


@dataclass(frozen=True)
class PublishSubscribe(Unprepared):
    """`messages` in all, divided among the publishers; every subscriber receives all of them.

    Subscribers have sids of their own, as the subscriptions of programs do, unless they are to be `alike`:
    then a server can send all of them the same bytes. Each has one subscription, or several; or they are the
    members of queue groups, each of which receives all messages. Messages may have headers.
    """

    publishers: int
    subscribers: int
    size: int
    messages: int
    one_message_per_write: bool = False
    stall_seconds: float = STALL_SECONDS
    subject: str = SUBJECT
    processes: int = 1
    in_websocket: bool = False
    alike: bool = False
    subscriptions: int = 1
    queue_groups: int = 0
    headers: int = 0
    unit = "msgs/s"
    higher_is_better = True

    def run(self, address: Address, server_rss: ServerMemory, on_progress: Progress | None = None) -> Sample:
        shares = share_evenly(self.messages, self.publishers) if self.publishers else []
        run = self._run(address, shares, on_progress)
        clients = with_shares(run.clients, shares, self.size)
        deliveries = self.messages * (self.queue_groups or max(1, self.subscribers * self.subscriptions))
        return Sample(deliveries / run.seconds, run.seconds, run.generator_cpu_share, clients)

    def scaled(self, factor: float) -> PublishSubscribe:
        return replace(self, messages=max(self.publishers, int(self.messages * factor)))

    def _run(self, address: Address, shares: Sequence[int], on_progress: Progress | None) -> Run:
        if self.processes == 1:
            with self._prepared(address, shares, range(self.subscribers)) as load:
                outcomes = [drive(load, on_progress)]
            received = self.messages * (self.queue_groups or self.subscriptions)
            return judge(outcomes, received, self.size, shared=bool(self.queue_groups))
        # Every process gets some publishers and some subscribers; the publishers come first in the report.
        parts = [
            (shares[number :: self.processes], range(number, self.subscribers, self.processes))
            for number in range(self.processes)
        ]
        outcomes = drive_in_processes(
            [partial(self._prepared, address, *part) for part in parts if part[0] or part[1]],
            on_progress,
        )
        return judge(_publishers_first(outcomes, len(shares), self.processes), self.messages, self.size)

    @contextmanager
    def _prepared(self, address: Address, shares: Sequence[int], subscribers: range) -> Iterator[Load]:
        """A load that has not begun, with the open connections of these publishers and subscribers."""
        subject = self.subject.encode()
        frame = publish_frame(subject, b"x" * self.size, _headers(self.headers))
        greetings = [b""] * len(shares) + [self._subscribe_frames(subscriber) for subscriber in subscribers]
        with open_connections(address, greetings, in_websocket=self.in_websocket) as sockets:
            load = Load(self.stall_seconds, channels=channels(sockets), in_websocket=self.in_websocket)
            for connection, share in zip(sockets, shares, strict=False):
                block, to_send = self._block_of(frame, share)
                write_length = len(frame) if self.one_message_per_write else len(block)
                load.add_publisher(connection.fileno(), block, to_send, write_length)
            for connection in sockets[len(shares) :]:
                if self.queue_groups:
                    load.add_queue_member(connection.fileno(), same_frames=True)
                else:
                    expected = self.messages * self.subscriptions
                    load.add_subscriber(connection.fileno(), expected, same_frames=self.subscriptions == 1)
            if self.queue_groups:
                load.expect_shared(self.messages * self.queue_groups)
            yield load

    def _subscribe_frames(self, subscriber: int) -> bytes:
        queue = b"queue.%d" % (subscriber % self.queue_groups) if self.queue_groups else b""
        first = 1 if self.alike else 1 + subscriber * self.subscriptions
        subject, sids = self.subject.encode(), range(first, first + self.subscriptions)
        return b"".join(subscribe_frame(subject, queue, sid) for sid in sids)

    def _block_of(self, frame: bytes, messages: int) -> tuple[bytes, int]:
        """What is written over and over, and how many bytes of it."""
        block = block_of(frame)
        if not self.in_websocket:
            return block, messages * len(frame)
        # A frame of WebSocket has to be sent whole, so that the number of messages in it divides all.
        most = min(len(block) // len(frame), max(messages, 1))
        in_each = next(count for count in range(most, 0, -1) if messages % count == 0)
        framed = mask_frame(frame * in_each)
        return framed, messages // in_each * len(framed)


def _headers(count: int) -> bytes:
    if not count:
        return b""
    return b"NATS/1.0\r\n%b\r\n" % b"".join(b"Header-%d: value %d\r\n" % (n, n) for n in range(count))


def _publishers_first(outcomes: list[Outcome], publishers: int, processes: int) -> list[Outcome]:
    """The clients in the order of a single process: publisher n ran in process n mod N."""
    rows = [[row for row in outcome.clients if row[0] == "publisher"] for outcome in outcomes]
    ordered = [rows[number % processes][number // processes] for number in range(publishers)]
    others = [row for outcome in outcomes for row in outcome.clients if row[0] != "publisher"]
    first = outcomes[0]
    merged = replace(
        first,
        clients=ordered + others,
        started_at=min(outcome.started_at for outcome in outcomes),
        cpu_share=max(outcome.cpu_share for outcome in outcomes),
    )
    broken = next((outcome for outcome in outcomes if outcome.status != "done"), None)
    if broken is None:
        return [merged]
    # The culprit's index is that of its own process; the merged list needs its own.
    culprit = broken.culprit
    index = (ordered + others).index(broken.clients[culprit]) if culprit >= 0 else -1
    return [replace(merged, status=broken.status, culprit=index, detail=broken.detail)]

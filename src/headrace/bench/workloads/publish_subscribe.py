"""Publishers and subscribers of one subject: the workload of nats-bench."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from headrace.bench.clients.load import Load
from headrace.bench.figures import share_evenly
from headrace.bench.generator import STALL_SECONDS, Outcome, Progress, Run, drive, judge
from headrace.bench.processes import drive_in_processes
from headrace.bench.wire import block_of, open_connections, publish_frame, subscribe_frame
from headrace.bench.workloads.workload import SUBJECT, Sample, ServerMemory, Unprepared, with_shares
from headrace.client.addresses import Address


@dataclass(frozen=True)
class PublishSubscribe(Unprepared):
    """`messages` in all, divided among the publishers; every subscriber receives all of them."""

    publishers: int
    subscribers: int
    size: int
    messages: int
    one_message_per_write: bool = False
    stall_seconds: float = STALL_SECONDS
    subject: str = SUBJECT
    processes: int = 1
    unit = "msgs/s"
    higher_is_better = True

    def run(self, address: Address, server_rss: ServerMemory, on_progress: Progress | None = None) -> Sample:
        shares = share_evenly(self.messages, self.publishers) if self.publishers else []
        run = self._run(address, shares, on_progress)
        clients = with_shares(run.clients, shares, self.size)
        deliveries = self.messages * max(1, self.subscribers)
        return Sample(deliveries / run.seconds, run.seconds, run.generator_cpu_share, clients)

    def scaled(self, factor: float) -> PublishSubscribe:
        return replace(self, messages=max(self.publishers, int(self.messages * factor)))

    def _run(self, address: Address, shares: Sequence[int], on_progress: Progress | None) -> Run:
        if self.processes == 1:
            with self._prepared(address, shares, self.subscribers) as load:
                outcomes = [drive(load, on_progress)]
            return judge(outcomes, self.messages, self.size)
        # Every process gets some publishers and some subscribers; the publishers come first in the report.
        parts = [
            (shares[number :: self.processes], len(range(number, self.subscribers, self.processes)))
            for number in range(self.processes)
        ]
        outcomes = drive_in_processes(
            [partial(self._prepared, address, *part) for part in parts if part[0] or part[1]],
            on_progress,
        )
        return judge(_publishers_first(outcomes, len(shares), self.processes), self.messages, self.size)

    @contextmanager
    def _prepared(self, address: Address, shares: Sequence[int], subscribers: int) -> Iterator[Load]:
        """A load that has not begun, with the open connections of these publishers and subscribers."""
        subject = self.subject.encode()
        frame = publish_frame(subject, b"x" * self.size)
        block = block_of(frame)
        write_length = len(frame) if self.one_message_per_write else len(block)
        greetings = [b""] * len(shares) + [subscribe_frame(subject)] * subscribers
        with open_connections(address, greetings) as sockets:
            load = Load(self.stall_seconds)
            for connection, share in zip(sockets, shares, strict=False):
                load.add_publisher(connection.fileno(), block, share * len(frame), write_length)
            for connection in sockets[len(shares) :]:
                load.add_subscriber(connection.fileno(), self.messages, same_frames=True)
            yield load


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

"""Many subjects in random order, received by wildcards, by one subscription each, or in a queue group."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import lru_cache

from headrace.bench.clients.load import Load
from headrace.bench.figures import share_evenly
from headrace.bench.generator import STALL_SECONDS, Progress, run_load
from headrace.bench.wire import BLOCK_BYTES, channels, open_connections, publish_frame, subscribe_frame
from headrace.bench.workloads.workload import (
    SHUFFLE_SEED,
    SUBJECT,
    Sample,
    ServerMemory,
    Unprepared,
    with_shares,
)
from headrace.client.addresses import Address

TOKEN_VALUES = 1000
WILDCARDS = (">", "*", "none")


@dataclass(frozen=True)
class ManySubjects(Unprepared):
    """`messages` (0: one per subject) cycle through all subjects in one shuffled order.

    `wildcard` selects the subscriptions: `>` and `*` match all subjects with one subscription, `none` is one
    subscription per subject. With a `queue` the subscribers share the messages.
    """

    subjects: int
    size: int
    stall_seconds: float = STALL_SECONDS
    messages: int = 0
    publishers: int = 1
    subscribers: int = 1
    wildcard: str = ">"
    queue: str = ""
    subject: str = SUBJECT
    unit = "msgs/s"
    higher_is_better = True

    def run(self, address: Address, server_rss: ServerMemory, on_progress: Progress | None = None) -> Sample:
        messages = self.messages or self.subjects
        stream, frame_length = _shuffled_frames(self.subject, self.subjects, self.size)
        shares = share_evenly(messages, self.publishers)
        greetings = [b""] * self.publishers + [self._subscriptions()] * self.subscribers
        with open_connections(address, greetings) as sockets:
            load = Load(self.stall_seconds, channels=channels(sockets))
            for connection, share in zip(sockets, shares, strict=False):
                load.add_publisher(connection.fileno(), stream, share * frame_length, BLOCK_BYTES)
            for connection in sockets[self.publishers :]:
                if self.queue:
                    load.add_queue_member(connection.fileno(), same_frames=False)
                else:
                    load.add_subscriber(connection.fileno(), messages, same_frames=False)
            if self.queue:
                load.expect_shared(messages)
            run = run_load(load, messages, self.size, on_progress, shared=bool(self.queue))
        deliveries = messages * (1 if self.queue else max(1, self.subscribers))
        clients = with_shares(run.clients, shares, self.size)
        return Sample(deliveries / run.seconds, run.seconds, run.generator_cpu_share, clients)

    def scaled(self, factor: float) -> ManySubjects:
        return replace(
            self, subjects=max(1, int(self.subjects * factor)), messages=int(self.messages * factor)
        )

    def _subscriptions(self) -> bytes:
        queue = self.queue.encode()
        if self.wildcard == "none":
            names = _names(self.subject, self.subjects)
            return b"".join(subscribe_frame(name, queue, number) for number, name in enumerate(names, 1))
        pattern = f"{self.subject}.>" if self.wildcard == ">" else f"{self.subject}.*.*"
        return subscribe_frame(pattern.encode(), queue)


def _names(subject: str, subjects: int) -> list[bytes]:
    """All equally long, so that a share of the messages is a share of the bytes."""
    digits = len(str((subjects - 1) // TOKEN_VALUES))
    prefix = subject.encode()
    return [b"%b.%0*d.%03d" % (prefix, digits, *divmod(number, TOKEN_VALUES)) for number in range(subjects)]


@lru_cache(maxsize=1)
def _shuffled_frames(subject: str, subjects: int, size: int) -> tuple[bytes, int]:
    """All frames in one buffer, and the length of one: every round sends them in the same order.

    With few subjects they are repeated, so that a write is as long as with many.
    """
    payload = b"x" * size
    frames = [publish_frame(name, payload) for name in _names(subject, subjects)]
    random.Random(SHUFFLE_SEED).shuffle(frames)
    block = b"".join(frames)
    return block * -(-BLOCK_BYTES // len(block)), len(frames[0])

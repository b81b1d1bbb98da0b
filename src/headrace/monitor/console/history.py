"""The figures of the last five minutes, one sample a second, so that charts are not empty at first."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker

if TYPE_CHECKING:
    from headrace.streams.jetstream import JetStream

SAMPLE_SECONDS = 1.0
SAMPLES = 300

Sample = tuple[int, int, int, int, int, int, float]
"""Milliseconds since 1970, messages in and out, bytes in and out, syncs and the seconds that they took."""


def take_sample(broker: Broker, jetstream: JetStream | None) -> Sample:
    hub = broker.hub
    syncs, seconds = count_syncs(jetstream)
    return int(time.time() * 1000), hub.in_msgs, hub.out_msgs, hub.in_bytes, hub.out_bytes, syncs, seconds


def count_syncs(jetstream: JetStream | None) -> tuple[int, float]:
    """How often groups were synced so far, and for how long."""
    if jetstream is None:
        return 0, 0.0
    _, counts, seconds = jetstream.committer.figures()["sync_seconds"]
    return sum(counts), seconds


class History:
    """Costs a few microseconds a second while nobody looks."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.jetstream: JetStream | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.samples: deque[Sample] = deque(maxlen=SAMPLES)

    def start(self) -> None:
        self.samples.append(take_sample(self._broker, self.jetstream))
        self._timer = asyncio.get_running_loop().call_later(SAMPLE_SECONDS, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

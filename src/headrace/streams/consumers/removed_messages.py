"""Messages that go, by a limit, their age or a delete, before they are acknowledged.

They never will be, and must not count against `max_ack_pending` until `ack_wait` is over: the consumer would
stand still. Looking at all that is pending takes a moment where that is much, and a stream at its limit loses
a message with each that it takes. So one look serves all that went meanwhile, and after it there is a pause.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.engine.store.log import Log
    from headrace.streams.consumers.consumer import Consumer

DELETED = "Unacknowledged message was deleted"
"""Why, as nats-server's advisory puts it."""
SHORTEST_PAUSE = 0.1
PAUSE_PER_LOOK = 20
"""A long look is followed by a pause that many times as long: it must not keep the loop busy."""


class Vanished:
    """Tells the consumers of one stream."""

    def __init__(self, log: Log, consumers: Mapping[str, Consumer]) -> None:
        self._log = log
        self._consumers = consumers
        self._known = 0
        self._not_before = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def notice(self) -> None:
        """Messages may have gone."""
        if self._timer is None and self._consumers and self._gone != self._known:
            pause = max(0.0, self._not_before - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(pause, self._tell)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _gone(self) -> int:
        """Grows with every message that goes, and not with those that come."""
        return self._log.last_seq - self._log.count

    def _tell(self) -> None:
        self._timer = None
        self._known = self._gone
        began = time.monotonic()
        for consumer in list(self._consumers.values()):
            consumer.on_removed()
        ended = time.monotonic()
        self._not_before = ended + max(SHORTEST_PAUSE, PAUSE_PER_LOOK * (ended - began))


def terminate_removed(consumer: Consumer) -> None:
    """Messages went by limits, age or a delete: what was pending of them ends as if it were terminated."""
    core, ledger, log = consumer.core, consumer.core.ledger, consumer.core.log
    gone = [(seq, entry[0]) for seq, entry in ledger.pending.items() if not log.has(seq)]
    for seq, consumer_seq in gone:
        core.advisories.terminated(seq, consumer_seq, ledger.deliveries(seq), DELETED)
        ledger.acknowledge(seq)
    if gone:
        ledger.last_ack = core.now()
        core.changed()
        consumer.delivery.pump()


def forget_removed(consumer: Consumer) -> None:
    """Messages were purged: what was pending of them is done with."""
    core, ledger, log = consumer.core, consumer.core.ledger, consumer.core.log
    gone = [seq for seq in ledger.pending if not log.has(seq)]
    for seq in gone:
        ledger.acknowledge(seq)
        ledger.last_ack = core.now()
    for seq in [seq for seq in ledger.redelivered if seq < log.first_seq]:
        del ledger.redelivered[seq]
    core.cursor.next_seq = max(core.cursor.next_seq, log.first_seq)
    if not ledger.pending and log.first_seq:
        ledger.delivered_stream = max(ledger.delivered_stream, log.first_seq - 1)
        ledger.close_gap()
    core.changed()
    if gone:
        consumer.delivery.pump()

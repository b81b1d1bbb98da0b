"""Messages that are removed, by a limit, expiry or a delete, before they are acknowledged.

They will never be acknowledged, and must not count against `max_ack_pending` until `ack_wait` is over, or the
consumer would stall. Checking very many pending messages takes a while, and a full stream removes a message
with each new one. So one pass covers all removals up to then, followed by a pause.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from headrace.streams.slices import STEP_RECORDS, Slices, Step, steps_of

if TYPE_CHECKING:
    from headrace.engine.store.log import Log
    from headrace.streams.consumers.consumer import Consumer

DELETED = "Unacknowledged message was deleted"
"""The reason in nats-server's advisory."""
SHORTEST_PAUSE = 0.1
PAUSE_PER_LOOK = 20
"""The pause after a long pass is this many times as long, so that the event loop is not kept busy."""


class RemovedMessages:
    """Notifies the consumers of one stream."""

    def __init__(self, slices: Slices, log: Log, consumers: Mapping[str, Consumer]) -> None:
        self._slices = slices
        self._log = log
        self._consumers = consumers
        self._known = 0
        self._not_before = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._look: Step | None = None  # in progress
        self._took = 0.0

    def notice(self) -> None:
        """Messages may have been removed."""
        is_busy = self._timer is not None or self._look is not None
        if not is_busy and self._consumers and self._gone != self._known:
            pause = max(0.0, self._not_before - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(pause, self._begin_pass)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._look = None

    @property
    def _gone(self) -> int:
        """Grows with every message that is removed, and not with new ones."""
        return self._log.last_seq - self._log.count

    def _begin_pass(self) -> None:
        self._timer = None
        self._known = self._gone
        self._took = 0.0
        consumers = list(self._consumers.values())
        look = self._look = steps_of(chain.from_iterable(one.on_removed() for one in consumers))
        self._slices.add(lambda: self._look is not look or self._continue_pass(look))

    def _continue_pass(self, look: Step) -> bool:
        began = time.monotonic()
        is_done = look()
        ended = time.monotonic()
        self._took += ended - began
        if is_done:
            self._look = None
            self._not_before = ended + max(SHORTEST_PAUSE, PAUSE_PER_LOOK * self._took)
            self.notice()
        return is_done


def terminate_removed(consumer: Consumer) -> Iterator[None]:
    """Removed by limits, expiry or a delete: pending ones end as if they were terminated."""
    core, ledger = consumer.core, consumer.core.ledger
    for gone in _pending_and_gone(consumer):
        for seq in gone:
            core.advisories.terminated(seq, ledger.pending[seq][0], ledger.deliveries(seq), DELETED)
            ledger.acknowledge(seq)
        if gone:
            ledger.last_ack = core.now()
            core.changed()
            consumer.delivery.pump()
            core.flush_soon()
        yield


def _pending_and_gone(consumer: Consumer) -> Iterator[list[int]]:
    """Pending messages that are no longer there: one part of them per step."""
    core = consumer.core
    for some in core.ledger.pending.parts(STEP_RECORDS):
        if consumer.is_closed:
            return
        yield [seq for seq in some if not core.log.has(seq)]


def forget_removed(consumer: Consumer) -> Iterator[None]:
    """Messages were purged: pending ones count as acknowledged."""
    core, ledger, log = consumer.core, consumer.core.ledger, consumer.core.log
    core.cursor.next_seq = max(core.cursor.next_seq, log.first_seq)
    is_any = False
    for gone in _pending_and_gone(consumer):
        for seq in gone:
            ledger.acknowledge(seq)
            ledger.last_ack = core.now()
        is_any = is_any or bool(gone)
        yield
    if consumer.is_closed:
        return
    for seq in [seq for seq in ledger.redelivered if seq < log.first_seq]:
        del ledger.redelivered[seq]
    if not ledger.pending and log.first_seq:
        ledger.delivered_stream = max(ledger.delivered_stream, log.first_seq - 1)
        ledger.close_gap()
    core.changed()
    if is_any:
        consumer.delivery.pump()
        core.flush_soon()

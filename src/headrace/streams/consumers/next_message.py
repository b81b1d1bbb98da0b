"""Which message a consumer delivers next, and when.

The redelivery queue comes first, then the start list, then the log. The log is the usual case: the engine's
cursor delivers whole batches from it. The other two are delivered one by one. The start list belongs to
`last_per_subject`: the sequences of the last message of each subject as of the consumer's creation; the log
continues after them. With the replay policy `original`, messages that were stored before the consumer started
are delivered at their original intervals.
"""

from __future__ import annotations

from collections import deque

from headrace.streams.consumers import max_ack_pending
from headrace.streams.consumers.core import Core
from headrace.streams.consumers.removed_messages import DELETED

SHORTEST_WAIT = 1_000_000
"""Nanoseconds; shorter intervals are ignored."""


class Upcoming:
    """The messages that a consumer delivers next."""

    def __init__(self, core: Core, start_list: list[int]) -> None:
        self._core = core
        self.start_list = deque(start_list)

    @property
    def num_pending(self) -> int:
        """Messages that have not been delivered yet."""
        return max(0, self._core.cursor.num_pending) + len(self.start_list)

    @property
    def _is_tracked(self) -> bool:
        """Without acknowledgements, deliveries are recorded only if the stream's retention needs them."""
        return self._core.has_acks or self._core.acknowledged is not None

    def next_single(self) -> int:
        """The sequence of a message that must be delivered on its own, 0 if there is none at present."""
        ledger = self._core.ledger
        while ledger.queue:
            seq = next(iter(ledger.queue))
            if self._is_deliverable(seq):
                return seq
            ledger.queue.pop(seq, None)
        if max_ack_pending.room(self._core) <= 0:
            return 0
        while self.start_list:
            if self._core.log.get(self.start_list[0]) is not None:
                return self.start_list[0]
            self.start_list.popleft()
        return 0

    def _is_deliverable(self, seq: int) -> bool:
        """Drop a message that was delivered often enough, or is no longer there."""
        core, ledger = self._core, self._core.ledger
        deliveries = ledger.redelivered.get(seq, 0) + 2
        limit = core.config.max_deliver
        if 0 < limit < deliveries:
            if deliveries == limit + 1:
                core.advisories.deliveries_exhausted(seq, deliveries - 1)
            ledger.redelivered[seq] = deliveries - 1
            ledger.give_up(seq)
            core.changed()
            return False
        if core.log.get(seq) is None:
            consumer_seq = ledger.acknowledge(seq)
            if consumer_seq:
                core.advisories.terminated(seq, consumer_seq, deliveries - 1, DELETED)
            core.changed()
            return False
        return True

    def deliver_single(self, seq: int, subject: bytes, max_bytes: int = 0, headers: bytes = b"") -> int:
        """Deliver the message of `next_single`. Returns its size; if it is 0, the cursor says why."""
        self._core.cursor.track = self._is_tracked
        if seq in self._core.ledger.queue:
            return self._deliver_again(seq, subject, max_bytes, headers)
        return self._deliver_listed(seq, subject, max_bytes, headers)

    def _deliver_again(self, seq: int, subject: bytes, max_bytes: int, headers: bytes) -> int:
        cursor, ledger, now = self._core.cursor, self._core.ledger, self._core.now()
        first = ledger.pending.get(seq)
        deliveries = ledger.redelivered.get(seq, 0) + 2
        size = cursor.redeliver(seq, subject, deliveries, max_bytes=max_bytes, now=now, extra_headers=headers)
        if cursor.exceeded or cursor.unwanted:
            return 0
        del ledger.queue[seq]
        ledger.redelivered[seq] = deliveries - 1
        if first is not None:
            # it keeps the consumer sequence of its first delivery, by which acknowledgements are counted
            ledger.pending[seq] = first
            ledger.renew(seq, now)
        self._note_delivery(seq, now)
        return size

    def _deliver_listed(self, seq: int, subject: bytes, max_bytes: int, headers: bytes) -> int:
        cursor, now = self._core.cursor, self._core.now()
        # the cursor writes its own count into the reply subject; what is left of the list belongs to it
        rest = len(self.start_list) - 1
        cursor.num_pending += rest
        try:
            size = cursor.redeliver(seq, subject, 1, max_bytes=max_bytes, now=now, extra_headers=headers)
        finally:
            cursor.num_pending -= rest
        if cursor.exceeded or cursor.unwanted:
            return 0
        self.start_list.popleft()
        self._note_delivery(seq, now)
        return size

    def deliver_batch(
        self, subject: bytes, count: int, max_bytes: int = 0, headers: bytes = b""
    ) -> tuple[int, int]:
        """Deliver up to `count` messages of the log. Returns how many, and their size."""
        cursor, now = self._core.cursor, self._core.now()
        cursor.track = self._is_tracked
        messages, size = cursor.deliver(
            subject, count=count, max_bytes=max_bytes, now=now, extra_headers=headers
        )
        if messages:
            self._note_delivery(cursor.last_delivered, now)
        return messages, size

    def _note_delivery(self, seq: int, now: int) -> None:
        core, ledger = self._core, self._core.ledger
        ledger.delivered_consumer = core.cursor.delivered_seq
        ledger.delivered_stream = max(ledger.delivered_stream, seq)
        ledger.last_delivery = now
        core.flush_soon()
        if core.has_acks:
            if core.config.ack_wait:
                # The backoff may be shorter for a message that was delivered before.
                core.alarm.advance("acks", now + min(core.config.backoff, default=core.config.ack_wait))
        else:
            if core.acknowledged is not None:
                delivered = list(ledger.pending) or [seq]
                ledger.pending.clear()
                for done in delivered:
                    core.acknowledged(done)
            ledger.close_gap()
        core.changed()


class Replay:
    """Inactive for `instant`, and once the consumer has passed the messages that were stored before it."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._end = core.log.last_seq if core.config.replay_policy == "original" else 0
        self._last_time = 0
        self._last_delivery = 0
        self._next_time = 0

    @property
    def is_active(self) -> bool:
        return self._end > 0

    def must_wait(self) -> bool:
        """Whether the next message is not due yet; then the alarm is set."""
        if not self._end:
            return False
        core = self._core
        stored = core.log.next(core.cursor.next_seq, core.cursor.filter)
        if stored is None or stored.seq > self._end:
            self._end = 0
            return False
        self._next_time = stored.time
        distance = stored.time - self._last_time
        if not self._last_time or distance <= SHORTEST_WAIT:
            return False
        due = self._last_delivery + distance
        if due <= core.now():
            return False
        core.alarm.set("replay", due)
        return True

    def note_delivery(self) -> None:
        if self._end:
            self._last_time = self._next_time
            self._last_delivery = self._core.now()

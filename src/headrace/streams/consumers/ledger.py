"""The ledger of a consumer: what it has delivered, what is acknowledged, what must be delivered again.

    1 2 3 4 5 6 7 8 9        stream sequences
    a a a P a P . . .        a: acknowledged, P: pending, '.': not delivered yet
        ^floor    ^delivered

The floor is the end of the unbroken run of acknowledged messages. It is computed on demand: an
acknowledgement only removes its entry, in whatever order they arrive, and that of the oldest pending message
marks the floor as moved. The engine settles most of them (AckInbox) and reports them at the end of the tick.

`pending` is filled by the engine's cursor: stream sequence to (consumer sequence, time of delivery in
nanoseconds). It stays in the order of these times, because an entry with a new time is moved to the end.
Delays asked for with a negative acknowledgement are in `delayed`, independent of that order.

Nothing here sends or waits; consumers report what happened, and the time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from headrace.engine.streams.pending import Pending

EVERYTHING = sys.maxsize


class Ledger:
    def __init__(self, pending: Pending) -> None:
        self.pending = pending
        self.redelivered: dict[int, int] = {}
        """How often a message was redelivered. Kept after the last attempt, until the message is removed."""
        self.queue: dict[int, None] = {}
        """To be redelivered as soon as somebody can receive it, in this order."""
        self.delayed: dict[int, int] = {}
        """When a message that was refused with a delay is due."""
        self.starts = 0
        """How often it was restarted: acknowledgements from before do not apply to what is pending now."""
        self.delivered_consumer = 0
        self.delivered_stream = 0
        self._floor_consumer = 0
        self._floor_stream = 0
        self._floor_moved = False
        self.last_delivery = 0
        self.last_ack = 0

    def start(self, stream_seq: int) -> None:
        """Start, or restart, right after this stream sequence."""
        self.starts += 1
        self.pending.clear()
        self.redelivered.clear()
        self.queue.clear()
        self.delayed.clear()
        self.delivered_consumer = 0
        self.delivered_stream = stream_seq
        self.set_floor(0, stream_seq)
        self.last_delivery = self.last_ack = 0

    @property
    def floor(self) -> tuple[int, int]:
        """Consumer and stream sequence up to which everything is acknowledged."""
        if self._floor_moved and not self.pending:
            self.close_gap()  # the engine has removed the last of them; it is about to report that
        elif self._floor_moved:
            oldest = self.pending.lowest()
            self.set_floor(max(self.pending[oldest][0] - 1, 0), oldest - 1)
        return self._floor_consumer, self._floor_stream

    def set_floor(self, consumer_seq: int, stream_seq: int) -> None:
        self._floor_consumer, self._floor_stream = consumer_seq, stream_seq
        self._floor_moved = False

    def close_gap(self) -> None:
        """Nothing is pending: everything that was delivered is acknowledged."""
        self.set_floor(self.delivered_consumer, self.delivered_stream)

    def move_floor(self, consumer_seq: int) -> None:
        """A message with this consumer sequence has just left `pending`."""
        if not self.pending:
            self.close_gap()
        elif consumer_seq == self._floor_consumer + 1:
            self._floor_moved = True

    def acknowledge(self, stream_seq: int) -> int:
        """Forget one message. Returns its consumer sequence, 0 if it was not pending."""
        entry = self.pending.pop(stream_seq)
        if self.redelivered:
            self.redelivered.pop(stream_seq, None)
        if self.queue:
            self.queue.pop(stream_seq, None)
        if self.delayed:
            self.delayed.pop(stream_seq, None)
        if entry is None:
            return 0
        self.move_floor(entry[0])
        return entry[0]

    def acknowledge_up_to(self, stream_seq: int, consumer_seq: int, most: int = EVERYTHING) -> list[int]:
        """Forget this message and all before it. Returns those that were pending.

        At most the `most` oldest ones, as if the last of these had been acknowledged. If `pending` is not in
        order, all at once.
        """
        gone = self.pending.below(stream_seq + 1, most)
        if len(gone) == most and self.pending.is_in_order:
            stream_seq, consumer_seq = gone[-1], self.pending[gone[-1]][0]
        if len(gone) == len(self.pending):
            self.pending.clear()
        else:
            for seq in gone:
                self.pending.pop(seq)
        for others in (self.redelivered, self.queue, self.delayed):
            if others:
                for seq in gone:
                    others.pop(seq, None)
        self.set_floor(consumer_seq, stream_seq)
        return gone

    def give_up(self, stream_seq: int) -> None:
        """Stop delivering it although nobody acknowledged it. `redelivered` keeps it, the floor stays."""
        _ = self.floor  # while the oldest one is still there
        self.pending.pop(stream_seq)
        self.queue.pop(stream_seq, None)
        self.delayed.pop(stream_seq, None)

    def renew(self, stream_seq: int, now: int) -> bool:
        """Restart the time to acknowledge. False if it is not pending."""
        entry = self.pending.pop(stream_seq)
        if entry is None:
            return False
        self.delayed.pop(stream_seq, None)
        self.pending[stream_seq] = (entry[0], now)
        return True

    def delay(self, stream_seq: int, due: int) -> None:
        self.queue.pop(stream_seq, None)
        self.delayed[stream_seq] = due

    def deliveries(self, stream_seq: int) -> int:
        return max(1, self.redelivered.get(stream_seq, 0))

    def in_time_order(self) -> Iterator[tuple[int, int, int]]:
        """Stream sequence, consumer sequence and time of pending messages without delay, oldest first."""
        for seq, (consumer_seq, time) in self.pending.items():
            if seq not in self.delayed:
                yield seq, consumer_seq, time

    def drop_below(self, stream_seq: int) -> bool:
        """Forget pending messages below: the stream no longer has them. Returns whether there were any."""
        gone = self.pending.below(stream_seq, EVERYTHING)
        for seq in gone:
            self.acknowledge(seq)
        for seq in [seq for seq in self.redelivered if seq < stream_seq]:
            del self.redelivered[seq]
        return bool(gone)

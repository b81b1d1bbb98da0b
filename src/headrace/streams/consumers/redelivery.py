"""Messages that were not acknowledged in time go back into the queue."""

from __future__ import annotations

from itertools import islice

from headrace.streams.consumers.core import Core

ACK_WAIT_SLACK = 1_000_000
"""Nanoseconds that the timer fires late, so that a burst of messages is due together."""
MOST_AT_ONCE = 2000
"""Messages that are queued in one turn of the event loop, for about three milliseconds."""


class Redelivery:
    def __init__(self, core: Core) -> None:
        self._core = core

    def check(self) -> bool:
        """Queue messages that are due and set the alarm for the rest. Returns whether any was queued.

        If very many are due together, some wait for the next turn of the event loop.
        """
        core, ledger = self._core, self._core.ledger
        if not core.config.ack_wait:
            return False
        if ledger.drop_below(core.log.first_seq):
            core.changed()
        now = core.now()
        expired, due = self._find_expired(now)
        queued = False
        for seq in sorted(expired):
            ledger.delayed.pop(seq, None)
            if seq in ledger.queue or self.is_exhausted(seq):
                continue
            ledger.queue[seq] = None
            ledger.renew(seq, now)
            queued = True
        if due:
            core.alarm.set("acks", due if due == now else due + ACK_WAIT_SLACK)
        elif ledger.pending:
            core.alarm.set("acks", now + core.config.ack_wait + ACK_WAIT_SLACK)
        return queued

    def _find_expired(self, now: int) -> tuple[list[int], int]:
        """Some of the sequences that are due, and when the next one is (0: none is pending)."""
        ledger, config = self._core.ledger, self._core.config
        delayed = (seq for seq, due in ledger.delayed.items() if due <= now)
        expired = list(islice(delayed, MOST_AT_ONCE))
        dues = [due for due in ledger.delayed.values() if due > now]
        for seq, _, time in ledger.in_time_order():
            if len(expired) == MOST_AT_ONCE:
                return expired, now
            due = time + self.wait(seq)
            if due <= now:
                expired.append(seq)
                continue
            dues.append(due)
            if not config.backoff:
                break  # all the others were delivered later
        if len(expired) == MOST_AT_ONCE:
            return expired, now
        return expired, min(dues, default=0)

    def wait(self, seq: int) -> int:
        """How long the consumer waits for the acknowledgement of this message."""
        config = self._core.config
        if not config.backoff:
            return config.ack_wait
        tries = max(0, self._core.ledger.redelivered.get(seq, 0))
        return config.backoff[min(tries, len(config.backoff) - 1)]

    def is_exhausted(self, seq: int) -> bool:
        """Drop the message if it has reached `max_deliver`."""
        core, ledger = self._core, self._core.ledger
        limit, deliveries = core.config.max_deliver, ledger.deliveries(seq)
        if limit <= 0 or deliveries < limit:
            return False
        if deliveries == limit:
            core.advisories.deliveries_exhausted(seq, deliveries)
        ledger.redelivered[seq] = deliveries
        ledger.give_up(seq)
        core.changed()
        return True

    def expire_all(self) -> None:
        """Redeliver everything that is pending: the receiver has changed."""
        core, ledger = self._core, self._core.ledger
        now = core.now()
        for seq in sorted(ledger.pending):
            if seq not in ledger.queue and not self.is_exhausted(seq):
                ledger.queue[seq] = None
                ledger.renew(seq, now)

    def last_due(self) -> int:
        """When the last of the pending messages is due; 0 if none is pending."""
        ledger = self._core.ledger
        return max((time + self.wait(seq) for seq, (_, time) in ledger.pending.items()), default=0)

"""What the parts of one consumer share: its configuration, cursor, ledger, clock and status messages.

The parts (pull or push delivery, acknowledgements, redelivery, replay) know this object and not each other;
consumer.py puts them together.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.broker.internal import InternalClient
from headrace.engine.store.log import Log
from headrace.engine.streams.cursor import Cursor
from headrace.streams.api.advisories import Advisories
from headrace.streams.config import ConsumerConfig
from headrace.streams.consumers.alarm import Alarm
from headrace.streams.consumers.ledger import Ledger
from headrace.streams.slices import Slices

Clock = Callable[[], int]

READ_RETRY = 200_000_000
"""Nanoseconds until a log that could not be read is read again."""


def steady_clock(time_of_day: Clock) -> Clock:
    """A clock that cannot be set: it starts with the time of day, in nanoseconds, and then only counts.

    Consumers measure their waits with it, so that nothing expires early or waits for a day because somebody
    corrected the time of the machine. What they report, or compare with a date, is the time of day.
    """
    start = time_of_day() - time.monotonic_ns()
    return lambda: start + time.monotonic_ns()


def status(code: int, description: str) -> bytes:
    return f"NATS/1.0 {code} {description}\r\n\r\n".encode()


def status_with_rest(code: int, description: str, messages: int, size: int) -> bytes:
    """Includes the rest of the request: what it had not received when it ended."""
    return (
        f"NATS/1.0 {code} {description}\r\n"
        f"Nats-Pending-Messages: {messages}\r\nNats-Pending-Bytes: {size}\r\n\r\n"
    ).encode()


class Core:
    def __init__(
        self,
        *,
        account: str,
        stream: str,
        name: str,
        config: ConsumerConfig,
        client: InternalClient,
        log: Log,
        slices: Slices,
        cursor: Cursor,
        alarm: Alarm,
        advisories: Advisories,
        now: Clock,
        time_of_day: Clock,
        changed: Callable[[], None],
        acknowledged: Callable[[int], None],
        is_kept_for_consumers: Callable[[], bool],
        warn: Callable[[str], None],
        later: Callable[[Callable[[], object]], None],
        flush_soon: Callable[[], None],
    ) -> None:
        self.account: str = account
        self.stream: str = stream
        self.name = name
        self.config = config
        self.client = client
        self.log = log
        self.slices = slices
        self.cursor = cursor
        self.ledger: Ledger = Ledger(cursor.pending)
        self.alarm = alarm
        self.advisories = advisories
        self.now = now
        """A steady clock, for waiting; `time_of_day` is for reporting."""
        self.time_of_day = time_of_day
        self.changed = changed
        """Called when the state on disk is out of date."""
        self._acknowledged = acknowledged
        self._is_kept_for_consumers = is_kept_for_consumers
        self.warn = warn
        self.later = later
        """Runs something at the end of the tick."""
        self.flush_soon = flush_soon
        """Sends messages that were delivered outside of a tick, when a timer fired."""

    @property
    def acknowledged(self) -> Callable[[int], None] | None:
        """Informs the stream of an acknowledgement; None if its retention does not depend on that."""
        return self._acknowledged if self._is_kept_for_consumers() else None

    @property
    def has_acks(self) -> bool:
        return self.config.ack_policy != "none"

    @property
    def num_redelivered(self) -> int:
        """Messages that were delivered more than once and are not acknowledged."""
        return 0 if self.config.max_deliver == 1 else len(self.ledger.redelivered)

    def try_again_later(self) -> None:
        """A message cannot be read at present."""
        self.alarm.set("read", self.now() + READ_RETRY)

    def send_status(self, subject: bytes, headers: bytes, reply: bytes = b"") -> None:
        self.client.publish(subject, reply=reply, headers=headers)

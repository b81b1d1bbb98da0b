"""What the parts of one consumer share: its configuration, cursor, ledger, clock and voice.

The parts (pull or push delivery, acknowledgements, redelivery, replay) know this and not each other;
consumer.py puts them together.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.broker.internal import InternalClient
from headrace.engine.cursor import Cursor
from headrace.engine.log import Log
from headrace.streams.advisories import Advisories
from headrace.streams.config import ConsumerConfig
from headrace.streams.consumer_alarm import Alarm
from headrace.streams.consumer_ledger import Ledger
from headrace.streams.formats import parse_time


class Core:
    def __init__(
        self,
        *,
        stream: str,
        name: str,
        config: ConsumerConfig,
        client: InternalClient,
        log: Log,
        cursor: Cursor,
        alarm: Alarm,
        advisories: Advisories,
        now: Callable[[], int],
        changed: Callable[[], None],
        acknowledged: Callable[[int], None] | None,
        warn: Callable[[str], None],
    ) -> None:
        self.stream = stream
        self.name = name
        self.config = config
        self.client = client
        self.log = log
        self.cursor = cursor
        self.ledger = Ledger(cursor.pending)
        self.alarm = alarm
        self.advisories = advisories
        self.now = now
        self.changed = changed
        """Tells that the state on disk is no longer the state."""
        self.acknowledged = acknowledged
        """Tells the stream that a message is done with; None if its retention does not depend on that."""
        self.warn = warn

    @property
    def is_paused(self) -> bool:
        return self.pause_until > self.now()

    @property
    def pause_until(self) -> int:
        """0 if it was never paused."""
        return parse_time(self.config.pause_until) if self.config.pause_until else 0

    @property
    def has_acks(self) -> bool:
        return self.config.ack_policy != "none"

    @property
    def is_full(self) -> bool:
        """As many messages wait for acknowledgements as may."""
        return 0 < self.config.max_ack_pending <= len(self.ledger.pending)

    def send_status(self, subject: bytes, headers: bytes, reply: bytes = b"") -> None:
        self.client.publish(subject, reply=reply, headers=headers)

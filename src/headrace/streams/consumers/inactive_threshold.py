"""Consumers that nobody uses are deleted: ephemeral ones after some seconds, others if they have a
threshold.

A pull consumer is used while requests arrive or wait, or messages are delivered or acknowledged, or may still
be; a push consumer while somebody subscribes to its deliver subject.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from headrace.streams.config import ConsumerConfig
from headrace.streams.consumers.core import Core
from headrace.streams.consumers.pull import PullDelivery
from headrace.streams.consumers.push import PushDelivery
from headrace.streams.consumers.redelivery import Redelivery

MILLISECOND = 1_000_000
EPHEMERAL_THRESHOLD = 5_000 * MILLISECOND


def stamp_threshold(config: ConsumerConfig) -> None:
    """Give an ephemeral consumer a threshold if it has none."""
    if not config.durable_name and config.inactive_threshold <= 0:
        config.inactive_threshold = EPHEMERAL_THRESHOLD


class Idleness:
    def __init__(
        self,
        core: Core,
        delivery: PullDelivery | PushDelivery,
        redelivery: Redelivery,
        delete: Callable[[], None],
    ) -> None:
        self._core = core
        self._delivery = delivery
        self._redelivery = redelivery
        self._delete = delete
        self._threshold = 0

    def configure(self) -> None:
        """Use the threshold of the configuration, and start the timer."""
        config = self._core.config
        self._threshold = config.inactive_threshold
        if self._threshold > 0 and not config.deliver_subject:
            # spread out, so that many consumers do not end at the same moment
            self._threshold += random.randrange(100, 1000) * MILLISECOND
        self._core.alarm.clear("idle")
        if isinstance(self._delivery, PullDelivery) or not self._delivery.is_active:
            self.count()

    def count(self) -> None:
        """Start the timer, if there is a threshold."""
        if self._threshold > 0:
            self._core.alarm.set("idle", self._core.now() + self._threshold)

    def on_active(self, is_active: bool) -> None:
        """A push consumer's deliver subject gained or lost its subscribers."""
        if is_active:
            self._core.alarm.clear("idle")
        elif self._core.alarm.when("idle") is None:
            self.count()

    def note_ack(self) -> None:
        if isinstance(self._delivery, PullDelivery):
            self._delivery.queue.last_active = self._core.now()
        elif self._core.alarm.when("idle") is not None:
            self.count()

    def check(self) -> None:
        """The timer has fired: delete the consumer unless it was used in the meantime."""
        delivery, now = self._delivery, self._core.now()
        if isinstance(delivery, PushDelivery):
            if not delivery.is_active:
                self._delete()
            return
        used_until = delivery.queue.last_active + self._threshold
        if used_until <= now:
            delivery.on_due()  # which may deliver
            used_until = delivery.queue.last_active + self._threshold
            if len(delivery.queue):
                used_until = now + self._threshold
            elif due := self._redelivery.last_due():
                used_until = max(used_until, due + self._threshold)
        if used_until > now:
            self._core.alarm.set("idle", used_until)
        else:
            self._delete()

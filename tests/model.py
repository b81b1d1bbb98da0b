"""Publish and subscribe in 50 lines: what a server must deliver, said as plainly as possible.

A queue group picks one of its members; the model cannot know which. So `publish` answers what must happen and
what may, and `took` informs it who got it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class ModelSubscription:
    client: int
    sid: bytes
    subject: bytes
    queue: bytes | None
    maximum: int = 0
    delivered: int = 0


def matches(pattern: bytes, subject: bytes) -> bool:
    """Token by token, as the documentation of NATS explains it."""
    wanted, given = pattern.split(b"."), subject.split(b".")
    if b"" in given:
        return False
    for position, token in enumerate(wanted):
        if token == b">":
            return len(given) > position
        if position >= len(given) or token not in (b"*", given[position]):
            return False
    return len(wanted) == len(given)


class Model:
    def __init__(self) -> None:
        self.subscriptions: dict[tuple[int, bytes], ModelSubscription] = {}

    def subscribe(self, client: int, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        self.subscriptions.setdefault((client, sid), ModelSubscription(client, sid, subject, queue))

    def unsubscribe(self, client: int, sid: bytes, maximum: int) -> None:
        subscription = self.subscriptions.get((client, sid))
        if subscription and maximum > subscription.delivered:
            subscription.maximum = maximum
        elif subscription:
            del self.subscriptions[client, sid]

    def disconnect(self, client: int) -> None:
        for key in [key for key in self.subscriptions if key[0] == client]:
            del self.subscriptions[key]

    def publish(
        self, subject: bytes, silent: int | None = None
    ) -> tuple[list[ModelSubscription], list[list[ModelSubscription]]]:
        """(who gets it, [the members of each queue group of which one gets it]); `silent` gets no echo."""
        found = [s for s in self.subscriptions.values() if matches(s.subject, subject) and s.client != silent]
        groups: dict[bytes, list[ModelSubscription]] = {}
        for subscription in found:
            if subscription.queue is not None:
                groups.setdefault(subscription.queue, []).append(subscription)
        return [s for s in found if s.queue is None], list(groups.values())

    def took(self, subscription: ModelSubscription) -> None:
        subscription.delivered += 1
        if subscription.delivered == subscription.maximum:
            del self.subscriptions[subscription.client, subscription.sid]

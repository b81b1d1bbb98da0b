"""Subscriptions without receivers, for tests of who matches what."""

from __future__ import annotations

from headrace.engine.core.interest import Interest
from headrace.engine.core.trie import Subscription


class Trie:
    """An Interest and the subscriptions in it (it only borrows them)."""

    def __init__(self) -> None:
        self.interest = Interest()
        self.kept: list[Subscription] = []

    def add(self, subject: bytes, queue: bytes | None = None, sid: bytes = b"1") -> Subscription:
        subscription = Subscription(subject, queue, sid)
        self.kept.append(subscription)
        self.interest.add(subscription)
        return subscription

    def discard(self, subscription: Subscription) -> None:
        self.interest.discard(subscription)

    def found(self, subject: bytes) -> list[bytes]:
        """The subjects of the plain subscriptions that match, sorted."""
        plain, _ = self.interest.match(subject)
        return sorted(subscription.subject for subscription in plain)

    def groups(self, subject: bytes) -> dict[bytes | None, int]:
        """The queue groups that match, and how many members each has."""
        _, queues = self.interest.match(subject)
        assert all(len({member.queue for member in members}) == 1 for members in queues)
        return {members[0].queue: len(members) for members in queues}

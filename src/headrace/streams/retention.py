"""Interest and work queue retention: a message stays until its consumers are done with it.

A consumer says of a message whether it `needs` it: it matches its filter, and is not yet acknowledged or
delivered. A message that nobody needs is removed: when it is acknowledged, when it arrives (interest
only: a work queue keeps it for later consumers), when a consumer is deleted. Checking all messages takes
long, so it is done in parts: everything up to `checked_seq` is checked, and a change of consumers resets it.

If the configuration of a consumer is damaged, nobody knows what it needs. As long as there is such a
consumer, a stream with interest retention keeps everything. (Consumers of a work queue share no messages:
what one of them acknowledges is not needed by another.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet

from headrace.engine.basics.audiences import Audiences
from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from headrace.streams.consumers.consumer import NEVER, Consumer

EVERYTHING = Filter(())
MANY = 16
"""Messages for which it pays to sort thousands of consumers by what they ask for."""

Readers = Callable[[bytes], Iterable[Consumer]]
"""The consumers that may need a message with this subject."""


class Retention:
    """Decides for one stream. Removals are not committed here."""

    def __init__(self, log: Log, consumers: Mapping[str, Consumer], damaged: AbstractSet[str]) -> None:
        self._log = log
        self._consumers = consumers
        self._damaged = damaged
        self._policy = "limits"
        self.checked_seq = 0

    def configure(self, policy: str) -> None:
        """Use this policy from now on. `check` applies it to the messages that are there."""
        was, self._policy = self._policy, policy
        if policy != was:
            self.checked_seq = self._log.last_seq
            if policy == "interest" and was == "limits" and self._consumers:
                self.check_all()

    def recovered(self, policy: str) -> None:
        self._policy = policy
        self.checked_seq = self._log.last_seq

    def on_recovered_consumers(self) -> bool:
        """Remove messages that were acknowledged before the restart. Returns whether there were any."""
        if self._policy == "limits" or not self._consumers:
            return False
        consumers, readers = self._consumers.values(), self._sorted_readers()
        end = max(consumer.core.cursor.next_seq for consumer in consumers)
        if self._policy == "interest" and all(one.core.cursor.filter.patterns for one in consumers):
            end = self._log.last_seq + 1  # also new messages that nobody is interested in
        done: list[int] = []
        seq = self._log.first_seq
        while (message := self._log.next(seq, EVERYTHING)) and message.seq < end:
            if self._is_done(message.seq, message.subject, readers):
                done.append(message.seq)
            seq = message.seq + 1
        return self._log.remove_many(done) > 0

    @property
    def has_unchecked(self) -> bool:
        """Whether messages must be checked: there are new ones, or consumers have changed."""
        if self._damaged:
            return False
        return self._policy == "interest" and self.checked_seq < self._log.committed_seq

    def on_acknowledged(self, seqs: list[int]) -> None:
        """A consumer is done with these messages."""
        if self._policy == "limits":
            return
        if self._policy == "interest" and self._damaged:
            return  # they are checked once the damaged consumer is gone
        # consumers of a work queue share no messages
        if self._policy == "interest" and len(self._consumers) > 1:
            readers = self._readers(len(seqs))
            seqs = [seq for seq in seqs if not self._is_stored_and_needed(seq, readers)]
        self._log.remove_many(seqs)

    def check_all(self) -> None:
        """Consumers need other messages than before: check all messages again."""
        if self._policy == "interest":
            self.checked_seq = min(self.checked_seq, max(self._log.first_seq, 1) - 1)

    def check(self, most: int) -> bool:
        """Check that many messages, and remove those that nobody needs. Returns whether all are checked."""
        if not self.has_unchecked:
            return True
        log, needed = self._log, self._all_needed_from()
        readers = self._readers(min(most, log.committed_seq - self.checked_seq))
        unneeded: list[int] = []
        for _ in range(most):
            message = log.next(self.checked_seq + 1, EVERYTHING)
            if message is None or message.seq >= needed:
                self.checked_seq = log.committed_seq
                break
            self.checked_seq = message.seq
            if not _is_needed(message.seq, message.subject, readers):
                unneeded.append(message.seq)
        log.remove_many(unneeded)
        return not self.has_unchecked

    def _all_needed_from(self) -> int:
        """From this sequence on some consumer needs every message, so no check is needed."""
        return min((consumer.needs_all_from for consumer in self._consumers.values()), default=NEVER)

    def _readers(self, messages: int) -> Readers:
        """The function that finds the consumers, for this many messages."""
        if messages >= MANY:
            return self._sorted_readers()
        consumers = self._consumers.values()
        return lambda _: consumers

    def _sorted_readers(self) -> Readers:
        """Only the consumers whose filter it passes: there may be thousands, and few need a message."""
        readers: Audiences[Consumer] = Audiences()
        for consumer in self._consumers.values():
            readers.enlist(consumer, consumer.core.cursor.filter)
        return readers.who_asked_for

    def _is_done(self, seq: int, subject: bytes, sorted_readers: Readers) -> bool:
        """Whether nobody needs it any more. In a work queue, a message that matches no consumer stays."""
        if _is_needed(seq, subject, sorted_readers):
            return False
        return self._policy == "interest" or any(True for _ in sorted_readers(subject))

    def _is_stored_and_needed(self, seq: int, readers: Readers) -> bool:
        message = self._log.get(seq)
        return message is not None and _is_needed(seq, message.subject, readers)


def _is_needed(seq: int, subject: bytes, readers: Readers) -> bool:
    return any(consumer.needs(seq, subject) for consumer in readers(subject))

"""Interest and work queue retention: a message stays until its consumers are done with it.

A consumer says of a message whether it `needs` it: it matches its filter, and is not yet acknowledged or
delivered. A message that nobody needs is removed: when it is acknowledged, when it arrives (interest
only: a work queue keeps work for whoever comes), when a consumer goes.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.engine.filters import Filter
from headrace.engine.log import Log
from headrace.streams.consumer import Consumer

EVERYTHING = Filter(())


class Retention:
    """Decides for one stream. Removals are not committed here."""

    def __init__(self, log: Log, consumers: Mapping[str, Consumer]) -> None:
        self._log = log
        self._consumers = consumers
        self._policy = "limits"
        self._checked_seq = 0

    def configure(self, policy: str) -> None:
        """From now on, messages are kept by this policy. Those that are there are looked at, too."""
        was, self._policy = self._policy, policy
        self._checked_seq = self._log.last_seq
        if policy == "interest" and was == "limits" and self._consumers:
            self.check_from(self._log.first_seq)

    def recovered(self, policy: str) -> None:
        self._policy = policy
        self._checked_seq = self._log.last_seq

    def on_recovered_consumers(self) -> bool:
        """Remove what was acknowledged before the server ended but not yet removed. Whether there was any."""
        if self._policy == "limits" or not self._consumers:
            return False
        consumers = self._consumers.values()
        end = max(consumer.core.cursor.next_seq for consumer in consumers)
        if self._policy == "interest" and all(one.core.cursor.filter.patterns for one in consumers):
            end = self._log.last_seq + 1  # also what had arrived, and nobody is interested in
        done: list[int] = []
        seq = self._log.first_seq
        while (message := self._log.next(seq, EVERYTHING)) and message.seq < end:
            if self._is_done(message.seq, message.subject):
                done.append(message.seq)
            seq = message.seq + 1
        return self._log.remove_many(done) > 0

    def on_stored(self) -> bool:
        """Messages have come. Remove those that nobody is interested in; whether there were any."""
        if self._policy != "interest" or self._checked_seq >= self._log.committed_seq:
            return False
        first, self._checked_seq = self._checked_seq + 1, self._log.committed_seq
        if not self._consumers:
            return self._log.remove_many(self._stored_from(first)) > 0
        return self.check_from(first) > 0

    def on_acknowledged(self, seqs: list[int]) -> bool:
        """A consumer is done with these messages. Whether some were removed."""
        if self._policy == "limits":
            return False
        # consumers of a work queue share no message
        if self._policy == "interest" and len(self._consumers) > 1:
            seqs = [seq for seq in seqs if not self._is_stored_and_needed(seq)]
        return self._log.remove_many(seqs) > 0

    def check_all(self) -> bool:
        """What consumers need has changed: what nobody needs any more goes. Whether there was anything."""
        return self._policy == "interest" and self.check_from(self._log.first_seq) > 0

    def check_from(self, seq: int) -> int:
        """Remove all messages from there on that nobody needs; how many."""
        unneeded: list[int] = []
        while message := self._log.next(seq, EVERYTHING):
            if not self._is_needed(message.seq, message.subject):
                unneeded.append(message.seq)
            seq = message.seq + 1
        return self._log.remove_many(unneeded)

    def _stored_from(self, seq: int) -> list[int]:
        found: list[int] = []
        while message := self._log.next(seq, EVERYTHING):
            found.append(message.seq)
            seq = message.seq + 1
        return found

    def _is_done(self, seq: int, subject: bytes) -> bool:
        """Whether somebody had it, and nobody needs it. In a work queue, what nobody had waits."""
        if self._is_needed(seq, subject):
            return False
        readers = self._consumers.values()
        return self._policy == "interest" or any(one.core.cursor.filter.matches(subject) for one in readers)

    def _is_stored_and_needed(self, seq: int) -> bool:
        message = self._log.get(seq)
        return message is not None and self._is_needed(seq, message.subject)

    def _is_needed(self, seq: int, subject: bytes) -> bool:
        return any(consumer.needs(seq, subject) for consumer in self._consumers.values())

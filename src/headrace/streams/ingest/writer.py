"""Stores a message that passed its checks, and does what follows from it: rollup, expiry, republishing.

Nothing here answers the publisher: `store` returns the sequence or raises the ApiError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.engine.store.log import Refused
from headrace.streams import headers
from headrace.streams.errors import api_error, store_error
from headrace.streams.ingest.republish import Republisher
from headrace.streams.ingest.rollup import ALL, SUBJECT, is_permitted, messages_to_roll_up
from headrace.streams.ingest.schedules import PURGE
from headrace.streams.ingest.ttl import raise_to_marker, read_ttl

if TYPE_CHECKING:
    from headrace.streams.ingest.publication import Publication
    from headrace.streams.ingest.scheduler import Scheduler
    from headrace.streams.lifetimes import Lifetimes
    from headrace.streams.stream import Stream
    from headrace.streams.usage import StreamUsage

_REFUSALS = {
    "max_msgs": "maximum messages exceeded",
    "max_bytes": "maximum bytes exceeded",
    "max_msgs_per_subject": "maximum messages per subject exceeded",
    "last_seq": "all sequences are used",
}


class Writer:
    """Of one stream; it knows the stream's log, sink and consumers."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._log = stream.log
        self._sink = stream.sink
        self._republisher: Republisher | None = None
        self._lifetimes: Lifetimes | None = None
        self._scheduler: Scheduler | None = None
        self._usage: StreamUsage | None = None

    def configure(self) -> None:
        stream = self._stream
        wanted = stream.config.republish
        self._republisher = Republisher(wanted, stream.name, stream.account.client) if wanted else None

    def attach(self, usage: StreamUsage, lifetimes: Lifetimes, scheduler: Scheduler | None) -> None:
        """The parts that check for room, and that are informed of each stored message."""
        self._usage = usage
        self._lifetimes = lifetimes
        self._scheduler = scheduler

    def after_commit(self) -> None:
        if self._republisher is not None:
            self._republisher.publish(self._log.committed_seq)

    def store(self, publication: Publication) -> int:
        """Returns the message's sequence. Raises ApiError if the stream does not accept it."""
        self.check_room(publication)
        publication.ttl = read_ttl(publication.headers)
        publication.headers, publication.ttl = raise_to_marker(
            publication.headers, publication.ttl, self._stream.config
        )
        target = self._republisher.target(publication.subject) if self._republisher else None
        last_seq = self._log.last(publication.subject) if target else 0
        time = publication.time or self._stream.jetstream.now()
        seq = self._append(publication, time)
        self._remember(publication, seq, time)
        self._roll_up(publication, keep=1)
        if self._lifetimes is not None:
            self._lifetimes.note(seq, time, publication.ttl)
        if self._scheduler is not None:
            self._scheduler.note(publication.subject, publication.headers, seq, time)
        if self._republisher is not None and target:
            self._republisher.note(publication, target, seq, time, last_seq)
        return seq

    def check_room(self, publication: Publication) -> None:
        """Raises ApiError if the server or the account has no memory or disk space left."""
        if self._usage is None:
            return
        if self._usage.is_full:
            raise api_error("insufficient_resources")
        if self._usage.would_exceed(publication.stored_size(self._usage.storage)):
            raise api_error("account_resources_exceeded")

    def _append(self, publication: Publication, time: int) -> int:
        arguments = (publication.subject, publication.headers, publication.payload, time, publication.seq)
        try:
            try:
                return self._log.append(*arguments)
            except Refused as refusal:
                # A rollup makes the room that it needs.
                if refusal.reason != "max_msgs_per_subject" or not publication.rollup:
                    raise
                self._roll_up(publication, keep=0)
                return self._log.append(*arguments)
        except Refused as refusal:
            raise api_error("stream_store_failed", err=_REFUSALS[refusal.reason]) from None
        except OSError as error:
            raise store_error(error) from None

    def _remember(self, publication: Publication, seq: int, time: int) -> None:
        if publication.msg_id:
            self._sink.remember(publication.msg_id, seq, time)
        self._sink.last_msg_id = publication.msg_id

    def _roll_up(self, publication: Publication, *, keep: int) -> None:
        """Remove the messages that it replaces, and the schedule that it ends."""
        if not is_permitted(self._stream.config):
            return
        removed = 0
        if publication.rollup == SUBJECT:
            old = messages_to_roll_up(self._log, publication.subject, keep=keep)
            removed += self._log.remove_many(old)
        elif publication.rollup == ALL:
            removed += self._log.compact(self._log.last_seq) if keep else self._log.purge()
        scheduler = headers.text(publication.headers, headers.SCHEDULER)
        if scheduler and headers.text(publication.headers, headers.SCHEDULE_NEXT) == PURGE:
            removed += self._log.remove_many(messages_to_roll_up(self._log, scheduler, keep=0))
        if removed:
            self._stream.on_purged()

"""Stores a message that passed its checks, and does what follows from it: rollup, expiry, republishing.

Three steps, so that a batch can take each with all its messages: `_prepare` reads whatever has to be read and
may refuse, `_append` stores, `_settle` does what follows and cannot fail. Nothing here answers the publisher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Refused
from headrace.streams import headers
from headrace.streams.errors import ApiError, api_error, store_error
from headrace.streams.ingest.republish import Republisher
from headrace.streams.ingest.rollup import ALL, SUBJECT, is_permitted, messages_of
from headrace.streams.ingest.schedules import PURGE
from headrace.streams.ingest.ttl import raise_to_marker, read_ttl

if TYPE_CHECKING:
    from headrace.streams.ingest.publication import Publication
    from headrace.streams.ingest.scheduler import Scheduler
    from headrace.streams.message_ttl import MessageTtls
    from headrace.streams.stream import Stream
    from headrace.streams.usage import StreamUsage

_REFUSALS = {
    "max_msgs": "maximum messages exceeded",
    "max_bytes": "maximum bytes exceeded",
    "max_msgs_per_subject": "maximum messages per subject exceeded",
    "last_seq": "all sequences are used",
}


class Writer:
    """The writer of one stream; it knows the stream's log, sink and consumers."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._log = stream.log
        self._sink = stream.sink
        self._republisher: Republisher | None = None
        self._message_ttls: MessageTtls | None = None
        self._scheduler: Scheduler | None = None
        self._usage: StreamUsage | None = None

    def configure(self) -> None:
        stream = self._stream
        wanted = stream.config.republish
        self._republisher = Republisher(wanted, stream.name, stream.account.client) if wanted else None

    def attach(self, usage: StreamUsage, message_ttls: MessageTtls, scheduler: Scheduler | None) -> None:
        """The parts that check for room, and that are informed of each stored message."""
        self._usage = usage
        self._message_ttls = message_ttls
        self._scheduler = scheduler

    def after_commit(self) -> None:
        if self._republisher is not None:
            self._republisher.publish(self._log.committed_seq)

    def store(self, publication: Publication) -> int:
        """The message's sequence. Raises ApiError if the stream refuses it, OSError if a read fails."""
        self._prepare(publication)
        self._append(publication)
        self._settle(publication)
        return publication.seq

    def store_all(self, publications: list[Publication]) -> int:
        """Store all of a batch, or none; returns the last sequence. Raises like `store`."""
        for publication in publications:
            self._prepare(publication)
        for number, publication in enumerate(publications):
            try:
                self._append(publication)
            except ApiError:
                self._log.remove_many([earlier.seq for earlier in publications[:number]])
                raise
        for number, publication in enumerate(publications):
            for subject in self._replaced_subjects(publication):
                wanted, earlier = Filter((subject,)), publications[:number]
                publication.replaced += [one.seq for one in earlier if wanted.matches(one.subject)]
            self._settle(publication)
        return publications[-1].seq

    def _prepare(self, publication: Publication) -> None:
        """Raises ApiError if there is no room for it, OSError if what it replaces cannot be read."""
        self.check_room(publication)
        publication.ttl = read_ttl(publication.headers)
        publication.headers, publication.ttl = raise_to_marker(
            publication.headers, publication.ttl, self._stream.config
        )
        publication.replaced = [
            seq for subject in self._replaced_subjects(publication) for seq in messages_of(self._log, subject)
        ]

    def _append(self, publication: Publication) -> None:
        """It is stored with its `seq` and `time`. Raises ApiError if the stream does not accept it."""
        try:
            if self._republisher is not None:
                publication.republished_to = self._republisher.target(publication.subject)
            if publication.republished_to:
                publication.previous_seq = self._log.last(publication.subject)
            publication.time = publication.time or self._stream.jetstream.now()
            publication.seq = self._log_append(publication)
        except OSError as error:
            raise store_error(error) from None

    def _settle(self, publication: Publication) -> None:
        seq, time = publication.seq, publication.time
        if publication.msg_id:
            self._sink.remember(publication.msg_id, seq, time)
        self._sink.last_msg_id = publication.msg_id
        self._roll_up(publication, is_stored=True)
        if self._message_ttls is not None:
            self._message_ttls.note(seq, time, publication.ttl)
        if self._scheduler is not None:
            self._scheduler.note(publication.subject, publication.headers, seq, time)
        if self._republisher is not None and publication.republished_to:
            self._republisher.note(publication)

    def check_room(self, publication: Publication) -> None:
        """Raises ApiError if the server or the account has no memory or disk space left."""
        if self._usage is None:
            return
        if self._usage.is_full:
            raise api_error("insufficient_resources")
        if self._usage.would_exceed(publication.stored_size(self._usage.storage)):
            raise api_error("account_resources_exceeded")

    def _log_append(self, publication: Publication) -> int:
        arguments = (
            *(publication.subject, publication.headers, publication.payload),
            *(publication.time, publication.seq),
        )
        try:
            try:
                return self._log.append(*arguments)
            except Refused as refusal:
                # A rollup makes the room that it needs.
                if refusal.reason != "max_msgs_per_subject" or not publication.rollup:
                    raise
                self._roll_up(publication, is_stored=False)
                return self._log.append(*arguments)
        except Refused as refusal:
            raise api_error("stream_store_failed", err=_REFUSALS[refusal.reason]) from None

    def _replaced_subjects(self, publication: Publication) -> list[bytes]:
        """The subjects whose messages go: the one rolled up, and the schedule that the message ends."""
        found: list[bytes] = []
        if not publication.headers or not is_permitted(self._stream.config):
            return found
        if publication.rollup == SUBJECT:
            found.append(publication.subject)
        scheduler = headers.text(publication.headers, headers.SCHEDULER)
        if scheduler and headers.text(publication.headers, headers.SCHEDULE_NEXT) == PURGE:
            found.append(scheduler)
        return found

    def _roll_up(self, publication: Publication, *, is_stored: bool) -> None:
        """Remove what the message replaces, but not the message itself."""
        removed = self._log.remove_many(publication.replaced) if publication.replaced else 0
        if publication.rollup == ALL and is_permitted(self._stream.config):
            removed += self._log.compact(publication.seq) if is_stored else self._log.purge()
        if removed:
            self._stream.on_purged()

"""Messages with their own lifetime (Nats-TTL), and what expires message by message.

A message may say that it never expires, and a stream may leave delete markers (delete_markers.py). So where a
stream has TTLs or markers, max_age is applied here, message by message; otherwise it is in expiry.py. TTLs
are kept in a heap (ttl_heap.py), which is filled again from the stored headers after a restart.

A message is removed when it is older than max_age or has outlived its TTL, whichever comes first. With
`never` it does not expire at all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.engine.basics.filters import Filter
from headrace.go_formats import NANOSECONDS
from headrace.streams.deadline import Deadline
from headrace.streams.delete_markers import make_marker, needs_marker
from headrace.streams.errors import ApiError
from headrace.streams.ingest.publication import Publication
from headrace.streams.ingest.ttl import NEVER, read_ttl
from headrace.streams.ttl_heap import Ending, TtlHeap

if TYPE_CHECKING:
    from headrace.engine.store.log import Log
    from headrace.engine.store.readings import Stored
    from headrace.streams.config import StreamConfig

SLICE_MESSAGES = 200  # at a time; then others get a turn
RETRY_NANOSECONDS = NANOSECONDS
_ALL = Filter(())


class MessageTtls:
    """Expires the messages of one stream.

    `store` stores a delete marker, or raises ApiError; `on_removed` is called after removals.
    """

    def __init__(
        self,
        log: Log,
        store: Callable[[Publication], object],
        on_removed: Callable[[], object],
        now: Callable[[], int],
    ) -> None:
        self._now = now
        self._log = log
        self._store = store
        self._on_removed = on_removed
        self._heap = TtlHeap(log)
        self._next_ending = Deadline(self.run, now)
        self._next_aged = Deadline(self.run, now)
        self._max_age = 0
        self._aged_seq = 0  # messages below it are removed, or never expire
        self._has_ttls = False
        self._marker_seconds = 0

    def configure(self, config: StreamConfig) -> None:
        self._has_ttls = config.allow_msg_ttl
        self._marker_seconds = config.subject_delete_marker_ttl // NANOSECONDS
        self._max_age = config.max_age if has_own_ages(config) else 0
        if not self._has_ttls:
            self._heap.clear()
        self._aged_seq = 0
        self._next_ending.clear()
        self._next_aged.clear()
        self.arm()

    def stop(self) -> None:
        self._next_ending.clear()
        self._next_aged.clear()
        self._heap.clear()

    def note_message(self, message: Stored) -> None:
        self.note(message.seq, message.time, _read_ttl(message))

    def note(self, seq: int, time: int, ttl: int) -> None:
        """A message was stored that lives for this many seconds."""
        if ttl > 0 and self._has_ttls:
            ending = (time + ttl * NANOSECONDS, seq)
            self._heap.add(ending)
            self._next_ending.set(ending[0])

    def arm(self) -> None:
        """Set the timers for the next messages to expire. Call it whenever there may be new ones."""
        if (first := self._heap.first) is not None:
            self._next_ending.set(first[0])
        if self._max_age > 0 and not self._next_aged.is_set:
            try:
                oldest = self._log.next(self._aged_seq, _ALL)
            except OSError:  # it cannot be read at present
                self._next_aged.set(self._now() + RETRY_NANOSECONDS)
                return
            if oldest is not None:
                self._next_aged.set(oldest.time + self._max_age)

    def run(self) -> None:
        """Remove messages that are too old by now; if they are very many, the rest in the next turns."""
        moment = self._now()
        ended: list[Ending] = []
        try:
            left = self._expire_aged(moment - self._max_age) if self._max_age > 0 else SLICE_MESSAGES
            self._expire_ended(moment, left, ended)
        except OSError:  # the log cannot be written or read at present
            self._retry()
        else:
            self.arm()
        self._log.when_committed(partial(self._on_written, ended))
        self._on_removed()

    def _retry(self) -> None:
        moment = self._now() + RETRY_NANOSECONDS
        self._next_ending.set(moment)
        self._next_aged.set(moment)

    def _on_written(self, ended: list[Ending], failure: str | None) -> None:
        """Removals that could not be written are undone, and must be tried again."""
        if failure:
            self._aged_seq = 0
            for ending in ended:
                self._heap.add(ending)
            self._retry()

    def _expire_aged(self, oldest: int) -> int:
        """By max_age. Returns how many more messages may be looked at in this run."""
        for left in range(SLICE_MESSAGES, 0, -1):
            message = self._log.next(self._aged_seq, _ALL)
            if message is None or message.time > oldest:
                return left
            if not _never_expires(message):
                self._expire(message)
            self._aged_seq = message.seq + 1
        return 0

    def _expire_ended(self, moment: int, most: int, ended: list[Ending]) -> None:
        """By their own TTL."""
        for _ in range(most):
            ending = self._heap.first
            if ending is None or ending[0] > moment:
                return
            time, seq = ending
            message = self._log.get(seq)
            # After a failed write, the sequence belongs to another message.
            if message is not None and _ends_at(message) == time:
                self._expire(message)
                ended.append(ending)
            self._heap.pop()

    def _expire(self, message: Stored) -> None:
        if not self._marker_seconds or not needs_marker(self._log, message):
            self._log.remove(message.seq)
            return
        try:
            self._store(make_marker(message.subject, self._marker_seconds))
        except ApiError:
            self._log.remove(message.seq)


def has_own_ages(config: StreamConfig) -> bool:
    """Whether max_age is not the same for all messages of the stream.

    A message from another stream may never expire, even if this stream does not allow TTLs.
    """
    return bool(
        config.allow_msg_ttl or config.subject_delete_marker_ttl > 0 or config.mirror or config.sources
    )


def _never_expires(message: Stored) -> bool:
    return _read_ttl(message) == NEVER


def _ends_at(message: Stored) -> int:
    return message.time + _read_ttl(message) * NANOSECONDS


def _read_ttl(message: Stored) -> int:
    try:
        return read_ttl(message.headers)
    except ApiError:
        return 0

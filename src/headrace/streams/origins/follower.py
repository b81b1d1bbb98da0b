"""Following another stream of this server, the origin: a mirror or a source reads its log as it grows.

nats-server makes a consumer on the origin for this. Within one server that is a detour: the follower is
called when the origin has committed messages, and reads them from its log. While there is no such stream, or
after it was deleted, the follower keeps looking for it, and reports that in its info, as nats-server does.
Then it catches up: the mirror or source decides where to start. A stream of another domain is never found.

An origin with interest or work queue retention is notified which messages are on disk here.

A mirror may answer for its origin, but must not know less: `when_current` waits until it has read everything
that the origin has at that time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.engine.basics.filters import Filter
from headrace.engine.store.store import Watcher
from headrace.streams.errors import ApiError, api_error
from headrace.streams.formats import now
from headrace.streams.slices import STEP_RECORDS
from headrace.subjects import grammar
from headrace.subjects.transform import Transform

if TYPE_CHECKING:
    from headrace.engine.store.readings import Stored
    from headrace.streams.config import StreamSource
    from headrace.streams.stream import Stream

FIRST_DELAY_SECONDS = 0.1
RETRY_SECONDS = 0.5
SLICE_SECONDS = 0.002  # of reading; then others get a turn
SLICE_RECORDS = 2000  # that may be skipped at a time
HEARTBEAT_NANOSECONDS = 1_000_000_000
UNHEARD = -1


class Follower:
    """Reads the stream that `config` names.

    `begin` returns where to start, once it is found; `copy` stores a message, or returns False to get it
    again.
    """

    def __init__(
        self,
        stream: Stream,
        config: StreamSource,
        begin: Callable[[Stream], int],
        copy: Callable[[Stored], bool],
        on_current: Callable[[], None] = lambda: None,
    ) -> None:
        self._stream = stream
        self._config = config
        self._begin = begin
        self._copy = copy
        self._on_current = on_current
        self._transforms = [
            Transform(transform.src, transform.dest)
            for transform in config.subject_transforms
            if transform.dest
        ]
        self._filter = _filter(config)
        self._found: Stream | None = None
        self._ahead = Watcher()  # the next message to read, and how many there are from there on
        self._current_seq = 0  # of the origin: everything up to it was read
        self._waiting: list[Callable[[], None]] = []  # until it is read to the end
        self.was_current = False
        self._last_heard = 0
        self._error: ApiError | None = None
        self._timer: asyncio.Handle | None = None
        self._is_reading = False
        self.was_looked_for = False
        self._consumed: list[int] = []  # to notify the origin when they are on disk here

    def start(self) -> None:
        """Start soon, but not at once: by then all streams are recovered."""
        self._timer = asyncio.get_running_loop().call_later(FIRST_DELAY_SECONDS, self._connect)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._found is not None:
            self._found.ingest.followers.discard(self)
            self._found.log.remove_watcher(self._ahead)
            self._found = None
        self._end_waiting()

    def when_current(self, action: Callable[[], None]) -> None:
        """Call the function when all that the origin has now is read, or if there is nothing to wait for."""
        if self._found is None or self._current_seq >= self._found.log.committed_seq:
            action()
        else:
            self._waiting.append(action)

    def _end_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()

    def on_lost(self) -> None:
        """The origin is going away."""
        self.stop()
        self._retry(self._connect)

    def transformed(self, subject: bytes) -> bytes:
        """The subject after the first transform that matches it."""
        for transform in self._transforms:
            changed = transform.apply(subject)
            if changed is not None:
                return changed
        return subject

    @property
    def origin(self) -> str:
        """Its name."""
        return self._config.name

    @property
    def lag(self) -> int | None:
        """How many messages of the origin are still to be copied; None while there is no such stream."""
        return None if self._found is None else max(self._ahead.num_pending, 0)

    def info(self) -> dict[str, Any]:
        """As stream info shows it. A follower that is connected has heard from its origin within a second."""
        config = self._config
        active = UNHEARD
        if self._found is not None:
            active = (now() - self._last_heard) % HEARTBEAT_NANOSECONDS
        info: dict[str, Any] = {"name": config.name, "lag": self.lag or 0, "active": active}
        if config.external is not None:
            info["external"] = config.external
        if self._error is not None:
            info["error"] = self._error.body
        if config.filter_subject:
            info["filter_subject"] = config.filter_subject
        if config.subject_transforms:
            info["subject_transforms"] = config.subject_transforms
        return {key: msgspec.to_builtins(value) for key, value in info.items()}

    def after_own_commit(self) -> None:
        """Copied messages are on disk: an origin that keeps messages for its consumers may remove them."""
        consumed, self._consumed = self._consumed, []
        if self._found is not None:
            for seq in consumed:
                self._found.on_acknowledged(seq)

    def wake(self) -> None:
        """The origin has committed something."""
        if self._found is not None and not self._is_reading:
            self._last_heard = now()
            self._read()

    def _connect(self) -> None:
        self._timer = None
        self.was_looked_for = True
        try:
            found = self._find()
        except ApiError as error:
            self._error = error
            found = None
        if found is None:
            self._retry(self._connect)
            return
        self._error = None
        self._found = found
        self._last_heard = now()
        try:
            self._ahead.next_seq, self._ahead.filter = self._begin(found), self._filter
        except OSError:  # it cannot be read at present
            self._found = None
            self._retry(self._connect)
            return
        self._current_seq = 0
        found.log.begin_to_watch(self._ahead)
        self._stream.jetstream.slices.add(partial(self._count, found))
        found.ingest.followers.add(self)
        self._read()

    def _count(self, found: Stream) -> bool:
        """A step of counting the messages to read; returns whether it was the last."""
        if self._found is not found:
            return True
        try:
            return found.log.count_ahead(self._ahead, STEP_RECORDS)
        except OSError:  # it cannot be read at present
            slices = self._stream.jetstream.slices
            asyncio.get_running_loop().call_later(RETRY_SECONDS, slices.add, partial(self._count, found))
            return True

    def _find(self) -> Stream | None:
        """The origin; None if it is in another domain. Raises ApiError if it is missing."""
        config, stream = self._config, self._stream
        if config.external is not None and config.external.api != f"$JS.{stream.jetstream.domain}.API":
            return None
        found = stream.account.streams.get(config.name)
        if found is None or not found.is_started:
            raise api_error("stream_not_found")
        if config.consumer is not None and config.consumer.name not in found.consumers:
            raise api_error("consumer_not_found")
        return found

    def _read(self) -> None:
        self._is_reading = True
        try:
            self._read_slice()
        except OSError:  # the origin cannot be read at present
            self._retry(self._read_again)
        finally:
            self._is_reading = False
        self._stream.log.commit()

    def _read_slice(self) -> None:
        assert self._found is not None
        log, ahead = self._found.log, self._ahead
        keeps_for_consumers = self._found.config.retention != "limits"
        until = time.monotonic() + SLICE_SECONDS
        while time.monotonic() < until:
            message, next_seq = log.look_for(ahead.next_seq, self._filter, SLICE_RECORDS)
            if next_seq:  # the filter skips many messages of the origin
                ahead.next_seq = next_seq
                continue
            if message is None:
                self._become_current(log.committed_seq)
                return
            if not self._copy(message):
                self._retry(self._read_again)
                self._end_waiting()
                return
            ahead.next_seq = message.seq + 1
            ahead.num_pending -= 1
            if keeps_for_consumers:
                self._consumed.append(message.seq)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_soon(self._read_again)

    def _become_current(self, seq: int) -> None:
        self._current_seq = seq
        if not self.was_current:
            self.was_current = True
            self._on_current()
        self._end_waiting()

    def _read_again(self) -> None:
        self._timer = None
        self.wake()

    def _retry(self, action: Callable[[], None]) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RETRY_SECONDS, action)


def _filter(config: StreamSource) -> Filter:
    patterns = [config.filter_subject] if config.filter_subject else []
    patterns += [transform.src or grammar.FULL_WILDCARD for transform in config.subject_transforms]
    return Filter(tuple(grammar.encode(pattern) for pattern in patterns))


def first_to_read(origin: Stream, wanted: int) -> int:
    """The sequence to start at: not before the origin's first message, not after its next one."""
    log = origin.log
    return min(max(wanted, log.first_seq, 1), log.last_seq + 1)

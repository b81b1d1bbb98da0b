"""Scheduled messages: which schedules are stored, when they are due, and what they publish then.

A schedule is the last message of its subject if that has a Nats-Schedule header. When it is due, a message
with its payload (or that of the last message of Nats-Schedule-Source) is stored under Nats-Schedule-Target.
That message says in Nats-Schedule-Next when the schedule fires again, or `purge`, which removes the
schedule: storing it is all that happens, so a crash leaves either both or neither.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.go_formats import NANOSECONDS
from headrace.streams import headers
from headrace.streams.deadline import Deadline
from headrace.streams.errors import ApiError
from headrace.streams.formats import format_time, now, parse_time
from headrace.streams.ingest.publication import Publication
from headrace.streams.ingest.schedules import PURGE, Due, read_due

RETRY_NANOSECONDS = NANOSECONDS

if TYPE_CHECKING:
    from headrace.engine.store.log import Log
    from headrace.engine.store.readings import Stored


class Scheduler:
    """The schedules of one stream. `store` stores a message that is due, or raises ApiError."""

    def __init__(self, log: Log, store: Callable[[Publication], object]) -> None:
        self._log = log
        self._store = store
        self._schedules: dict[bytes, tuple[int, int]] = {}  # by subject: the time it is due, its sequence
        self._queue: list[tuple[int, bytes]] = []  # entries that are not in _schedules any more are skipped
        self._deadline = Deadline(self.run)

    def __len__(self) -> int:
        return len(self._schedules)

    def stop(self) -> None:
        self._deadline.clear()
        self._schedules.clear()
        self._queue.clear()

    def note_message(self, message: Stored) -> None:
        self.note(message.subject, message.headers, message.seq, message.time)

    def note(self, subject: bytes, block: bytes, seq: int, time: int) -> None:
        """A message was stored: a schedule, a replacement of one, or a message that one published."""
        due = _due(block, time)
        if due is not None:
            self._set(subject, due.time, seq)
        elif not headers.text(block, headers.SCHEDULER):
            self._schedules.pop(subject, None)
        self._note_fired(block)

    def _note_fired(self, block: bytes) -> None:
        scheduler = headers.text(block, headers.SCHEDULER)
        upcoming = headers.text(block, headers.SCHEDULE_NEXT)
        if not upcoming or upcoming == PURGE or scheduler not in self._schedules:
            return
        try:
            time = parse_time(upcoming.decode())
        except ValueError:
            return
        self._set(scheduler, time, self._schedules[scheduler][1])

    def _set(self, subject: bytes, time: int, seq: int) -> None:
        self._schedules[subject] = (time, seq)
        heapq.heappush(self._queue, (time, subject))
        self._deadline.set(self._queue[0][0])

    def run(self) -> None:
        """Publish what is due, in the order in which the schedules were stored."""
        moment = now()
        due: list[tuple[int, bytes, int]] = []
        while self._queue and self._queue[0][0] <= moment:
            time, subject = heapq.heappop(self._queue)
            scheduled, seq = self._schedules.get(subject, (0, 0))
            if scheduled == time:
                due.append((seq, subject, time))
        for seq, subject, time in sorted(due):
            try:
                self._fire(seq, subject, time)
            except OSError:  # the log cannot be read at present
                heapq.heappush(self._queue, (time, subject))
        if self._queue and self._queue[0][0] <= moment:
            self._deadline.set(moment + RETRY_NANOSECONDS)
        elif self._queue:
            self._deadline.set(self._queue[0][0])

    def _fire(self, seq: int, subject: bytes, time: int) -> None:
        message = self._log.get(seq)
        is_there = message is not None and message.subject == subject
        publication = self._publication(message, time) if message is not None and is_there else None
        if publication is None:  # purged, or deleted
            self._schedules.pop(subject, None)
            return
        try:
            self._store(publication)
        except ApiError:
            self._schedules.pop(subject, None)
            return
        if self._schedules.get(subject, (0, 0)) == (time, seq):  # nothing has replaced it
            del self._schedules[subject]

    def _publication(self, schedule: Stored, time: int) -> Publication | None:
        due = _due(schedule.headers, time)
        target = headers.text(schedule.headers, headers.SCHEDULE_TARGET)
        if due is None or not target:
            return None
        source = headers.text(schedule.headers, headers.SCHEDULE_SOURCE)
        source_seq = self._log.last(source) if source else 0
        content = (self._log.get(source_seq) if source_seq else None) or schedule
        block = headers.remove_prefixed(content.headers, headers.SCHEDULE)  # Nats-Scheduler, too
        block = headers.remove_prefixed(block, headers.EXPECTED_PREFIX)
        for name in (headers.MSG_ID, headers.TTL, headers.ROLLUP):
            block = headers.remove(block, name)
        upcoming = format_time(due.time).encode() if due.repeats else PURGE
        block = headers.append(block, headers.SCHEDULER, schedule.subject)
        block = headers.append(block, headers.SCHEDULE_NEXT, upcoming)
        for wanted, name in ((headers.SCHEDULE_TTL, headers.TTL), (headers.SCHEDULE_ROLLUP, headers.ROLLUP)):
            value = headers.text(schedule.headers, wanted)
            if value:
                block = headers.append(block, name, value)
        return Publication(target, b"", block, content.payload, is_sourced=True)


def _due(block: bytes, since: int) -> Due | None:
    try:
        return read_due(block, since) if block else None
    except ApiError:
        return None

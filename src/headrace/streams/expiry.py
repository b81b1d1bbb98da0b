"""max_age: messages are removed when they are older than the stream allows.

Messages are stored in the order of their times, so one timer for the oldest is enough. It wakes at most
ten times a second, however many messages expire in between, and at least once an hour, in case the clock
was set. If it was set back for a while, the order is broken: then a message is removed once all messages
before it may be.

For streams with TTLs, delete markers or an origin, message_ttl.py does this message by message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.engine.store.log import Log
from headrace.go_formats import NANOSECONDS
from headrace.streams.slices import STEP_RECORDS, Background, Slices, StuckError

SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 3600.0
RETRY_PAUSE = 1.0


class Expiry:
    """`now` is in nanoseconds; `on_removed` is called after removals."""

    def __init__(
        self,
        slices: Slices,
        log: Log,
        now: Callable[[], int],
        on_removed: Callable[[], object],
        on_stuck: Callable[[StuckError], object],
    ) -> None:
        self._log = log
        self._now = now
        self._on_removed = on_removed
        self._max_age = 0
        self._timer: asyncio.TimerHandle | None = None
        self._removing = Background(
            slices, log, self._remove, progress=lambda: self._next_seq, on_stuck=on_stuck
        )
        self._oldest_allowed = 0
        self._next_seq = 0  # where removing continues; 0: at the first message

    def configure(self, max_age: int) -> None:
        """In nanoseconds; 0 means no limit. Messages that are too old are removed now."""
        self.stop()
        self._max_age = max_age
        if max_age:
            self._run()

    def arm(self) -> None:
        """Set the timer for the oldest message, if there is one."""
        if self._max_age and self._timer is None and self._log.count:
            self._timer = asyncio.get_running_loop().call_later(self._pause(), self._run)

    def stop(self) -> None:
        self._removing.stop()
        self._next_seq = 0
        if self._timer:
            self._timer.cancel()
            self._timer = None

    async def finished(self) -> None:
        """Wait until the messages that are too old by now are removed."""
        await self._removing.finished()

    def _pause(self) -> float:
        try:
            oldest = self._log.first_time
        except OSError:
            return RETRY_PAUSE
        if self._log.failure or not oldest:  # nothing can be written, or the oldest cannot be read
            return RETRY_PAUSE
        age = self._now() - oldest
        return min(max((self._max_age - age) / NANOSECONDS, SHORTEST_PAUSE), LONGEST_PAUSE)

    def _run(self) -> None:
        self._timer = None
        self._oldest_allowed = self._now() - self._max_age
        self._removing.start()
        self.arm()

    def _remove(self) -> bool:
        """Remove some of them; returns whether those were all."""
        self._next_seq = self._log.expire(self._oldest_allowed, self._next_seq, STEP_RECORDS)
        self._log.when_committed(self._on_written)
        self._on_removed()
        return not self._next_seq

    def _on_written(self, failure: str | None) -> None:
        if failure:  # removals that could not be written are undone
            self.arm()

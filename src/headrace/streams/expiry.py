"""max_age: messages go when they are older than the stream allows.

Messages are stored in the order of their times, so one timer for the oldest is enough. It wakes at most
ten times a second, however many messages expire in between, and at least once an hour, in case the clock
was set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.engine.log import Log
from headrace.streams.formats import NANOSECONDS

SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 3600.0
RETRY_SECONDS = 1.0


class Expiry:
    """`now` is in nanoseconds; `expire(seq)` removes everything below a sequence."""

    def __init__(self, log: Log, now: Callable[[], int], expire: Callable[[int], None]) -> None:
        self._log = log
        self._now = now
        self._expire = expire
        self._max_age = 0
        self._timer: asyncio.TimerHandle | None = None

    def configure(self, max_age: int) -> None:
        """Nanoseconds; 0: messages do not age. What is too old goes at once."""
        self.stop()
        self._max_age = max_age
        if max_age:
            self._run()

    def arm(self) -> None:
        """There may be messages now: see to it that the oldest one is watched."""
        if self._max_age and self._timer is None and self._log.count:
            age = self._now() - self._log.first_time
            pause = min(max((self._max_age - age) / NANOSECONDS, SHORTEST_PAUSE), LONGEST_PAUSE)
            self._timer = asyncio.get_running_loop().call_later(pause, self._run)

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        self._timer = None
        log = self._log
        oldest_allowed = self._now() - self._max_age
        try:
            if log.count and log.first_time <= oldest_allowed:
                self._expire(log.seek_time(oldest_allowed + 1))
        except OSError:  # the log cannot be read at present
            self._timer = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._run)
            return
        self.arm()

"""One point in time at which something must be done: an event loop timer that follows the wall clock.

The loop's timers count on a clock of their own. If the wall clock is set, a message that expires at a time
of day is due sooner or later than its timer says. So the timer fires at least once a minute, and its owner
looks at the clock and sets it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.go_formats import NANOSECONDS
from headrace.streams.formats import now

LONGEST_WAIT_SECONDS = 60.0


class Deadline:
    def __init__(self, ring: Callable[[], None], clock: Callable[[], int] = now) -> None:
        self._ring = ring
        self._now = clock
        self._timer: asyncio.TimerHandle | None = None
        self._time = 0

    @property
    def is_set(self) -> bool:
        return self._timer is not None

    def set(self, time: int) -> None:
        """Fire at that time (nanoseconds), or soon if it has passed. An earlier deadline stays set."""
        if self._timer is not None:
            if self._time <= time:
                return
            self._timer.cancel()
        self._time = time
        delay = min(max(time - self._now(), 0) / NANOSECONDS, LONGEST_WAIT_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(delay, self._on_timer)

    def clear(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        if self._now() < self._time:
            self.set(self._time)
        else:
            self._ring()

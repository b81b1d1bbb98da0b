"""One timer for all the deadlines of a consumer.

A deadline has a kind (a word) and a time. The timer of the event loop is only set again if something is due
before it would fire: a deadline that moves away leaves it alone, so that renewing one with every request
costs nothing. Then it fires early, finds nothing due, and is set to the next deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.go_formats import NANOSECONDS


class Alarm:
    def __init__(self, now: Callable[[], int], ring: Callable[[str], None]) -> None:
        self._now = now
        self._ring = ring
        self._due: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._fires = 0

    def set(self, kind: str, when: int) -> None:
        self._due[kind] = when
        self._arm(when)

    def advance(self, kind: str, when: int) -> None:
        """Set a deadline, unless it is set for an earlier time."""
        if self._due.get(kind, when) >= when:
            self.set(kind, when)

    def clear(self, kind: str) -> None:
        self._due.pop(kind, None)

    def when(self, kind: str) -> int | None:
        return self._due.get(kind)

    def stop(self) -> None:
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check(self) -> None:
        """Fire everything that is due. The timer calls it, and so do tests that move the clock."""
        self._timer = None
        now = self._now()
        for kind in [kind for kind, when in self._due.items() if when <= now]:
            if self._due.get(kind, now + 1) <= now:  # the handler of another one may have moved it
                del self._due[kind]
                self._ring(kind)
        if self._due:
            self._arm(min(self._due.values()))

    def _arm(self, when: int) -> None:
        if self._timer is not None:
            if self._fires <= when:
                return
            self._timer.cancel()
        self._fires = when
        delay = max(0, when - self._now()) / NANOSECONDS
        self._timer = asyncio.get_running_loop().call_later(delay, self.check)

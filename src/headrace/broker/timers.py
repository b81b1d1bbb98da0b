"""Many equal timers for the price of one.

Every connection needs a timer for its first ping, its next pings and its authentication, and all timers of a
kind take equally long. So they end in the order in which they were started, and one queue and one timer of
the event loop are enough for all of them. When thousands end at once, the loop serves others in between.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)
TURN_SECONDS = 0.002
"""How long timers that expire together may hold the loop."""


class EqualTimers(Generic[Item]):
    """Calls `callback(item)` for each item `seconds` after it was started, unless it was stopped before."""

    def __init__(self, seconds: float, callback: Callable[[Item], None]) -> None:
        self._seconds = seconds
        self._callback = callback
        self._due: OrderedDict[Item, float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def seconds(self) -> float:
        """A shorter time also applies to the timers that run: they end no later than ones started now."""
        return self._seconds

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self._seconds = seconds
        latest = asyncio.get_running_loop().time() + seconds
        for item, due in self._due.items():
            self._due[item] = min(due, latest)
        if self._timer:
            self._timer.cancel()
            self._timer = None
        self._arm()

    def start(self, item: Item) -> None:
        """Start, or start again, the timer of an item."""
        self._due.pop(item, None)
        self._due[item] = asyncio.get_running_loop().time() + self.seconds
        self._arm()

    def stop(self, item: Item) -> None:
        self._due.pop(item, None)

    def stop_all(self) -> None:
        self._due.clear()
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def __contains__(self, item: Item) -> bool:
        return item in self._due

    def _arm(self) -> None:
        if self._timer is None and self._due:
            due = next(iter(self._due.values()))
            self._timer = asyncio.get_running_loop().call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        turn_ends = time.monotonic() + TURN_SECONDS
        while self._due:
            item, due = next(iter(self._due.items()))
            if due > now:
                break
            del self._due[item]
            try:
                self._callback(item)
            except Exception:
                self._arm()
                raise
            if time.monotonic() > turn_ends:
                break
        self._arm()

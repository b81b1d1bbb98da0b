"""Timers for the end of a client's right to be connected, each at a time of the wall clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)

LONGEST_WAIT_SECONDS = 3600.0
"""The clock may be set meanwhile, and event loops do not wait for centuries."""


class ExpiryTimers(Generic[Item]):
    """Calls `callback(item)` at the time of each item, unless it was stopped before."""

    def __init__(self, callback: Callable[[Item], None]) -> None:
        self._callback = callback
        self._timers: dict[Item, asyncio.TimerHandle] = {}

    def start(self, item: Item, at: float | None) -> None:
        """At this time in seconds since 1970, instead of what was set before; None: never."""
        self.stop(item)
        if at is not None:
            delay = min(max(at - time.time(), 0.0), LONGEST_WAIT_SECONDS)
            self._timers[item] = asyncio.get_running_loop().call_later(delay, self._ring, item, at)

    def stop(self, item: Item) -> None:
        timer = self._timers.pop(item, None)
        if timer:
            timer.cancel()

    def stop_all(self) -> None:
        for item in list(self._timers):
            self.stop(item)

    def __contains__(self, item: Item) -> bool:
        return item in self._timers

    def _ring(self, item: Item, at: float) -> None:
        if time.time() < at:
            self.start(item, at)
            return
        del self._timers[item]
        self._callback(item)

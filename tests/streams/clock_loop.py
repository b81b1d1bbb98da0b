"""Time that only moves when a test moves it: a clock, and an event loop whose timers follow it."""

from __future__ import annotations

import asyncio
import selectors

SECOND = 1_000_000_000
POLL_SECONDS = 0.001


class Clock:
    """Nanoseconds. It begins early: the loop's floats are exact enough there to tell microseconds apart."""

    def __init__(self) -> None:
        self.time = 1_000_000 * SECOND

    def __call__(self) -> int:
        return self.time


class _Selector(selectors.DefaultSelector):
    """Waits for files only briefly: no timer gets due by waiting."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout if timeout is None else min(timeout, POLL_SECONDS))


class ClockLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        super().__init__(_Selector())

    def time(self) -> float:
        return self._clock.time / SECOND

    def has_due_timers(self) -> bool:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return any(timer.when() <= self.time() and not timer.cancelled() for timer in timers)

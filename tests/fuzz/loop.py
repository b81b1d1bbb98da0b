"""An event loop for a server inside of a fuzzer: what the server asks of a loop, and no more.

The hub's events are looked for where the hub has them, without an epoll around its own; nothing else has a
descriptor. It runs in turns, between which the caller has control, so that an input does not have to start
and stop the loop. The turns are asyncio's: what becomes ready during one runs in the next, and every turn
looks for events and timers. What is sent outside of the hub's ticks leaves only if the server wakes the hub
for it, as everywhere.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import select
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import Context, copy_context
from itertools import count
from typing import Any, TypeVar

from headrace.engine.core.hub import Hub

MOST_CANCELLED = 1000
"""Timers that are kept although they are cancelled."""
Made = TypeVar("Made")


class Handle:
    __slots__ = ("arguments", "callback", "context", "is_cancelled")

    def __init__(self, callback: Callable[..., object], arguments: tuple[Any, ...], context: Context | None):
        self.callback = callback
        self.arguments = arguments
        self.context = context or copy_context()
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled


class Loop(asyncio.AbstractEventLoop):
    """Belongs to the thread that makes it, where it counts as running from then on."""

    def __init__(self) -> None:
        self.hub: Hub | None = None
        self.failures: list[dict[str, Any]] = []
        """What nobody caught; a server would log it."""
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._numbers = count()
        self._most_timers = MOST_CANCELLED
        self._threads = ThreadPoolExecutor(1)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._sleep = select.poll()
        self._sleep.register(self._wake, select.POLLIN)
        asyncio._set_running_loop(self)

    def serve(self, hub: Hub) -> None:
        """From now on."""
        self.hub = hub
        self._sleep.register(hub.fileno(), select.POLLIN)

    def run_until(self, is_done: Callable[[], bool]) -> None:
        """Turn by turn. If it is never done, this does not return."""
        while not is_done():
            if not self._ready:
                self._wait()
            self._turn()

    def _turn(self) -> None:
        timers, ready = self._timers, self._ready
        if timers and timers[0][0] <= time.monotonic():
            now = time.monotonic()
            while timers and timers[0][0] <= now:
                ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.is_cancelled:
                try:
                    handle.context.run(handle.callback, *handle.arguments)
                except Exception as error:
                    self.call_exception_handler({"message": "Exception in a callback", "exception": error})
        if self.hub is not None:
            self.hub.poll()

    def _wait(self) -> None:
        """For an event, a thread or a timer."""
        timeout = max(self._timers[0][0] - time.monotonic(), 0) * 1000 if self._timers else None
        if any(descriptor == self._wake for descriptor, _ in self._sleep.poll(timeout)):
            os.eventfd_read(self._wake)

    # -- what the server asks for

    def time(self) -> float:
        return time.monotonic()

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = self.call_soon(callback, *args, context=context)
        os.eventfd_write(self._wake, 1)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self.call_at(time.monotonic() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, context)
        if len(self._timers) > self._most_timers:
            self._timers = [timer for timer in self._timers if not timer[2].is_cancelled]
            self._most_timers = 2 * len(self._timers) + MOST_CANCELLED
            heapq.heapify(self._timers)
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Made],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[Made]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[..., Made], *args: Any
    ) -> asyncio.Future[Made]:
        return asyncio.wrap_future((executor or self._threads).submit(func, *args), loop=self)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

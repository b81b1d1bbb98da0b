"""Credential checks that take long, in threads of their own.

A bcrypt comparison takes about 0.1 s of CPU, and anybody who can connect can ask for one. Therefore:

- The threads do nothing else, so nothing else (a stream's metadata, say) waits behind strangers. They run at
  a lower priority than the event loop.
- At most MAX_WAITING new clients wait for a thread; the caller turns away the others.
- A client that has left, or whose time is over, gives up its place before a thread is spent on it.
- Clients that are checked again after a reload wait in a second line. The two lines take turns, so neither a
  flood of strangers nor a reload with thousands of clients delays the other for long.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from headrace.accounts.authentication import Identity

WORKERS = min(4, max(2, (os.cpu_count() or 1) // 2))
WORKER_NICENESS = 5
MAX_WAITING = 1000


class Client(Protocol):
    """Who is checked."""

    def has_left(self) -> bool: ...
    def on_left(self) -> None: ...


class Check(NamedTuple):
    compare: Callable[[], Identity | None]
    """Runs in a thread. Who the client is; None: it is refused."""
    on_compared: Callable[[Identity | None], None]
    on_bug: Callable[[BaseException], None]


class CredentialChecks:
    """Everything but `Check.compare` runs in the thread of the event loop."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(WORKERS, "headrace-auth", _lower_priority)
        self._new: OrderedDict[Client, Check] = OrderedDict()
        self._again: OrderedDict[Client, Check] = OrderedDict()
        self._running: set[asyncio.Future[Identity | None]] = set()
        self._next_is_again = False

    @property
    def waiting(self) -> int:
        """How many checks have not begun."""
        return len(self._new) + len(self._again)

    def check(self, client: Client, check: Check) -> bool:
        """Check a client that wants to be admitted; False if too many are waiting already."""
        if len(self._new) >= MAX_WAITING:
            return False
        if len(self._running) < WORKERS:
            self._start(check)
        else:
            self._new[client] = check
        return True

    def check_again(self, client: Client, check: Check) -> None:
        """Check a client that has been admitted. There is no limit, since each takes one place at most."""
        self._again[client] = check
        self._start_waiting()

    def drop(self, client: Client) -> None:
        """The client is gone: whatever has not begun is not needed any more."""
        self._new.pop(client, None)
        self._again.pop(client, None)

    def stop(self) -> None:
        self._new.clear()
        self._again.clear()
        for future in self._running:
            future.cancel()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _start_waiting(self) -> None:
        while self.waiting and len(self._running) < WORKERS:
            client, check = self._take()
            if client.has_left():
                client.on_left()
            else:
                self._start(check)

    def _take(self) -> tuple[Client, Check]:
        line = self._again if self._again and (self._next_is_again or not self._new) else self._new
        self._next_is_again = line is self._new
        return line.popitem(last=False)

    def _start(self, check: Check) -> None:
        future = asyncio.get_running_loop().run_in_executor(self._executor, check.compare)
        self._running.add(future)
        future.add_done_callback(lambda done: self._end(check, done))

    def _end(self, check: Check, future: asyncio.Future[Identity | None]) -> None:
        self._running.discard(future)
        if future.cancelled():
            return
        try:
            error = future.exception()
            if error is not None:
                check.on_bug(error)
            else:
                check.on_compared(future.result())
        finally:
            self._start_waiting()


def has_hung_up(descriptor: int) -> bool:
    """Whether the peer of a socket will send no more. Bytes that nobody has read do not hide it."""
    poll = select.poll()
    poll.register(descriptor, select.POLLRDHUP)
    return bool(poll.poll(0))


def _lower_priority() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), WORKER_NICENESS)

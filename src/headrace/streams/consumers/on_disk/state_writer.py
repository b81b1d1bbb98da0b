"""Writes a consumer's state to disk, lazily and in a background thread.

A thread may still be writing when the consumer is deleted and another one of its name is created. So a write
uses a descriptor of the directory, not its path: it ends in the directory of the deleted consumer, which has
another name by then, and never overwrites the state of the new one.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable

from headrace.streams.consumers.on_disk import state as consumer_state
from headrace.streams.consumers.on_disk.state import ConsumerState

PAUSE_SECONDS = 0.1
"""The shortest pause between writes; after a longer one, a change is written at once."""
LONGEST_PAUSE_SECONDS = 2.0
LONGEST_RETRY_SECONDS = 10.0
WORK_SHARE = 20
"""Encoding a large state costs processor time; the pause is this many times as long."""
WAITING_SHARE = 2
"""On a slow or busy disk, the pause is this many times as long as the write took."""


class StateWriter:
    """`snapshot` returns the state to write; with `sync` each write waits for the disk.

    `snapshot_slowly` returns None, or an awaitable for a state that is too long to be copied in one turn.
    """

    def __init__(
        self,
        path: str,
        snapshot: Callable[[], ConsumerState],
        warn: Callable[[str], None],
        *,
        sync: bool,
        snapshot_slowly: Callable[[], Awaitable[ConsumerState] | None] = lambda: None,
    ) -> None:
        self._path = path
        self._snapshot = snapshot
        self._snapshot_slowly = snapshot_slowly
        self._warn = warn
        self._sync = sync
        self._timer: asyncio.TimerHandle | None = None
        self._under_way: asyncio.Future[float | OSError] | None = None
        self._is_dirty = False
        self._is_closed = False
        self._lock = threading.Lock()  # held while the file is written: both use one temporary name
        self._closing = threading.Lock()  # held for a moment: once closed, nothing more is begun
        self._pause = PAUSE_SECONDS
        self._may_begin = 0.0

    def changed(self) -> None:
        if self._is_dirty or self._is_closed:
            return
        self._is_dirty = True
        if self._under_way is None:
            delay = max(0.0, self._may_begin - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._is_dirty = False
        future: asyncio.Future[float | OSError]
        slowly, started = self._snapshot_slowly(), time.monotonic()
        if slowly is None:
            loop = asyncio.get_running_loop()
            future = loop.run_in_executor(None, self._write, self._snapshot(), started)
        else:
            future = asyncio.ensure_future(self._write_slowly(slowly, started))
        future.add_done_callback(self._end)
        self._under_way = future

    async def _write_slowly(self, slowly: Awaitable[ConsumerState], started: float) -> float | OSError:
        state = await slowly
        return await asyncio.get_running_loop().run_in_executor(None, self._write, state, started)

    def _write(self, state: ConsumerState, started: float) -> float | OSError:
        """Returns how long to pause afterwards, or why it failed."""
        name, work_before = os.path.basename(self._path), time.thread_time()
        try:
            with self._lock:
                directory = self._open_directory()
                if directory is not None:  # otherwise a newer state is on disk, or about to be
                    try:
                        consumer_state.write(name, state, sync=self._sync, directory=directory)
                    finally:
                        os.close(directory)
        except OSError as error:
            return error
        work, waited = time.thread_time() - work_before, time.monotonic() - started
        return min(max(PAUSE_SECONDS, WORK_SHARE * work, WAITING_SHARE * waited), LONGEST_PAUSE_SECONDS)

    def _open_directory(self) -> int | None:
        """None if the consumer is gone. Raises OSError."""
        with self._closing:
            if self._is_closed:
                return None
            return os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def _end(self, future: asyncio.Future[float | OSError]) -> None:
        self._under_way = None
        if self._is_closed or future.cancelled():
            return
        outcome, must_write = future.result(), self._is_dirty
        if isinstance(outcome, OSError):
            self._warn(f"cannot write a consumer's state: {outcome}")
            self._pause = min(self._pause * 2, LONGEST_RETRY_SECONDS)
            must_write = True
        else:
            self._pause = outcome
        self._may_begin = time.monotonic() + self._pause
        if must_write:
            self._is_dirty = False
            self.changed()

    async def flush(self) -> None:
        """Write changes now. Many consumers can do so at the same time."""
        if self._under_way is not None:
            await asyncio.wait([self._under_way])
        if self._timer is not None:
            self._timer.cancel()
            self._begin()
        if self._under_way is not None:
            await asyncio.wait([self._under_way])

    def close(self, *, keep: bool) -> None:
        """Write the last state if it should be kept. Blocks; a failure is logged, not raised."""
        if self._is_closed:
            return
        with self._closing:
            self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if not keep or (not self._is_dirty and self._under_way is None):
            return
        try:
            with self._lock:
                consumer_state.write(self._path, self._snapshot(), sync=self._sync)
        except OSError as error:
            self._warn(f"cannot write a consumer's state: {error}")

"""Writes a consumer's state to disk, lazily and beside the event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from headrace.streams import consumer_state
from headrace.streams.consumer_state import ConsumerState

DELAY_SECONDS = 0.1
SHARE = 20
"""A write that took long is followed by a pause of so many times that."""


class StateWriter:
    def __init__(self, path: str, take: Callable[[], ConsumerState], warn: Callable[[str], None]) -> None:
        self._path = path
        self._take = take
        self._warn = warn
        self._timer: asyncio.TimerHandle | None = None
        self._under_way = False
        self._is_dirty = False
        self._is_closed = False
        self._lock = threading.Lock()  # held while the file is written: both use one temporary name
        self._pause = DELAY_SECONDS

    def changed(self) -> None:
        if self._is_dirty or self._is_closed:
            return
        self._is_dirty = True
        if not self._under_way:
            self._timer = asyncio.get_running_loop().call_later(self._pause, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._is_dirty = False
        self._under_way = True
        state = self._take()
        future = asyncio.get_running_loop().run_in_executor(None, self._write, state)
        future.add_done_callback(self._end)

    def _write(self, state: ConsumerState) -> float:
        started = time.monotonic()
        with self._lock:
            if not self._is_closed:  # else a newer state is, or is about to be, on disk
                consumer_state.write(self._path, state)
        return time.monotonic() - started

    def _end(self, future: asyncio.Future[float]) -> None:
        self._under_way = False
        if self._is_closed or future.cancelled():
            return
        error = future.exception()
        if error is not None:
            self._warn(f"cannot write a consumer's state: {error}")
            self._pause = min(self._pause * 2, 10.0)
            self._is_dirty = False
            self.changed()
            return
        self._pause = max(DELAY_SECONDS, SHARE * future.result())
        if self._is_dirty:
            self._is_dirty = False
            self.changed()

    def close(self, *, keep: bool) -> None:
        """Write the last state, synced, if it is to be kept. Blocks; a failure is reported, not raised."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if not keep:
            return
        try:
            with self._lock:
                consumer_state.write(self._path, self._take(), sync=True)
        except OSError as error:
            self._warn(f"cannot write a consumer's state: {error}")

"""Writes a consumer's state to disk, lazily and beside the event loop.

A thread may still be at it when the consumer is deleted and another one of its name is created. So a write is
tied to the directory that was there when it began, not to its path: it goes to the directory of the deleted
consumer, which has another name by then, and never over the state of the new one.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable

from headrace.streams import consumer_state
from headrace.streams.consumer_state import ConsumerState

DELAY_SECONDS = 0.1
SHARE = 20
"""A write that took long, or waited long for its turn, is followed by a pause of so many times that."""
LONGEST_DELAY_SECONDS = 2.0
LONGEST_RETRY_SECONDS = 10.0


class StateWriter:
    """`take` gives the state to write; with `sync` each write waits for the disk."""

    def __init__(
        self, path: str, take: Callable[[], ConsumerState], warn: Callable[[str], None], *, sync: bool
    ) -> None:
        self._path = path
        self._take = take
        self._warn = warn
        self._sync = sync
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
        loop, started = asyncio.get_running_loop(), time.monotonic()
        future = loop.run_in_executor(None, self._write, self._open_directory(), self._take(), started)
        future.add_done_callback(self._end)

    def _open_directory(self) -> int | OSError:
        try:
            return os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            return error

    def _write(self, directory: int | OSError, state: ConsumerState, started: float) -> float | OSError:
        """How long it took, or why it failed."""
        if isinstance(directory, OSError):
            return directory
        try:
            with self._lock:
                if not self._is_closed:  # else a newer state is, or is about to be, on disk
                    name = os.path.basename(self._path)
                    consumer_state.write(name, state, sync=self._sync, directory=directory)
        except OSError as error:
            return error
        finally:
            os.close(directory)
        return time.monotonic() - started

    def _end(self, future: asyncio.Future[float | OSError]) -> None:
        self._under_way = False
        if self._is_closed or future.cancelled():
            return
        outcome, must_write = future.result(), self._is_dirty
        if isinstance(outcome, OSError):
            self._warn(f"cannot write a consumer's state: {outcome}")
            self._pause = min(self._pause * 2, LONGEST_RETRY_SECONDS)
            must_write = True
        else:
            self._pause = min(max(DELAY_SECONDS, SHARE * outcome), LONGEST_DELAY_SECONDS)
        if must_write:
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

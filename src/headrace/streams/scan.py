"""Reads all messages of a stream after a start, for the TTLs and schedules in their headers.

A long stream is read in slices; the event loop serves other clients in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.engine.basics.filters import Filter

if TYPE_CHECKING:
    from headrace.engine.store.log import Log
    from headrace.engine.store.readings import Stored

_ALL = Filter(())
SLICE_MESSAGES = 1000
RETRY_SECONDS = 1.0


class Scan:
    """Calls `visit` for every message with headers, up to the current last one.

    The first slice is read at once.
    """

    def __init__(self, log: Log, visit: Callable[[Stored], None]) -> None:
        self._log = log
        self._visit = visit
        self._seq = log.first_seq
        self._last_seq = log.last_seq
        self._handle: asyncio.Handle | None = None
        self._read_slice()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _read_slice(self) -> None:
        self._handle = None
        for _ in range(SLICE_MESSAGES):
            try:
                message = self._log.next(self._seq, _ALL)
            except OSError:  # it cannot be read at present
                self._handle = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._read_slice)
                return
            if message is None or message.seq > self._last_seq:
                return
            self._seq = message.seq + 1
            if message.headers:
                self._visit(message)
        self._handle = asyncio.get_running_loop().call_soon(self._read_slice)

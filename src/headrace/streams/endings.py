"""When messages with a TTL end, soonest first.

A message may be gone long before it would have ended: a key that is written a thousand times a second with a
TTL of a year leaves ever more entries of messages that are not there. So when most entries must be of that
kind, the heap is swept: what is of use moves into a new one, two entries with each that is added, until the
old one is empty. Nobody waits for that, and there are never more than a few entries per message.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.engine.store.log import Log

Ending = tuple[int, int]
"""The time (nanoseconds), and the sequence of the message."""

FEW = 1000
"""Entries that are not worth a look."""


class Endings:
    def __init__(self, log: Log) -> None:
        self._log = log
        self._heap: list[Ending] = []
        self._swept: list[Ending] = []  # a heap as well; empty unless there is one to sweep

    def __len__(self) -> int:
        return len(self._heap) + len(self._swept)

    @property
    def first(self) -> Ending | None:
        return self._soonest[0] if self else None

    def add(self, ending: Ending) -> None:
        heapq.heappush(self._heap, ending)
        if not self._swept and len(self._heap) > 2 * self._log.count + FEW:
            self._heap, self._swept = [], self._heap
        for _ in range(min(2, len(self._swept))):
            kept = self._swept.pop()  # from the end: what is left is a heap, too
            if self._log.has(kept[1]):
                heapq.heappush(self._heap, kept)

    def pop(self) -> Ending:
        return heapq.heappop(self._soonest)

    def clear(self) -> None:
        self._heap.clear()
        self._swept.clear()

    @property
    def _soonest(self) -> list[Ending]:
        """The heap that the first entry is in."""
        if not self._swept or (self._heap and self._heap[0] <= self._swept[0]):
            return self._heap
        return self._swept

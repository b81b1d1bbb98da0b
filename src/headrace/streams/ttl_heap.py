"""When messages with a TTL expire, soonest first.

A message may be removed long before it would have expired: a key that is written a thousand times a second
with a TTL of a year leaves more and more entries of messages that no longer exist. When most entries must be
of that kind, the heap is swept: entries of existing messages move into a new heap, two with each that is
added, until the old one is empty. This stalls nobody, and there are never more than a few entries per
message.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.engine.store.log import Log

Ending = tuple[int, int]
"""The time (nanoseconds), and the sequence of the message."""

FEW = 1000
"""With no more entries than this, the heap is not swept."""


class TtlHeap:
    def __init__(self, log: Log) -> None:
        self._log = log
        self._heap: list[Ending] = []
        self._swept: list[Ending] = []  # also a heap; empty unless it is being swept

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
            kept = self._swept.pop()  # from the end: the rest is still a heap
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

"""A sorted page of a long list, as the tables of the page ask for it and show it (page/views/listing.js)."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from headrace.monitor.console.asking import Asking, Document

Row = TypeVar("Row")


class Listing:
    """What was asked for: `sort`, `order`, `filter`, `offset` and `limit`. Raises Refusal."""

    def __init__(self, ask: Asking, sorts: Mapping[str, Callable[[Any], Any]]) -> None:
        self._key = sorts[ask.choice("sort", dict(sorts))]
        self._largest_first = ask.choice("order", ("up", "down")) == "down"
        self.wanted = ask.text("filter").lower()
        self._offset, self._limit = ask.page()

    def page(self, found: Sequence[Row], names: Callable[[Row], tuple[Any, ...]]) -> list[Row]:
        """The rows of the page; `names` decides between those that are equal."""
        pick = heapq.nlargest if self._largest_first else heapq.nsmallest
        rows = pick(self._offset + self._limit, found, key=lambda row: (self._key(row), *names(row)))
        return rows[self._offset :]

    def describe(self, total: int, matching: int) -> Document:
        """Which part of how much it is."""
        return {
            "now": int(time.time() * 1000),
            "total": total,
            "matching": matching,
            "offset": self._offset,
            "limit": self._limit,
        }

"""Looks from outside, while everything runs: what do the streams hold, what is in the tables by now?

The tables are Delta tables. Each commit says when it was made, how many rows it added and up to which
sequence the table is complete then; the log is read as any program may read it, with `deltalake`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from headrace.client import Client, StreamNotFound

ORDERS, ALERTS = "ORDERS", "ALERTS"
DEAD_LETTERS = "_headrace/dead-letters"
JUST_COME = 8


@dataclass(frozen=True)
class Sample:
    """The progress of everything, this many seconds after the feed began."""

    second: float
    published: int
    """Acknowledged: the server has it on disk."""
    stored: int
    landed: int
    """Orders in their table, and dead letters in theirs."""
    dead_letters: int
    alerts: int

    @property
    def behind(self) -> int:
        return self.published - self.landed


@dataclass(frozen=True)
class Batch:
    """What one commit added to a table."""

    rows: int
    next: int
    """The first sequence that the table of orders does not hold yet; 0 for tables of no stream."""
    at: float
    """When it was committed, in seconds since 1970."""


class TableWatch:
    """The commits of a table."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._table: DeltaTable | None = None
        self._version = -1
        self._found: dict[tuple[str, int], Batch] = {}

    def look(self) -> None:
        if self._table is None:
            if not DeltaTable.is_deltatable(str(self._directory)):
                return
            self._table = DeltaTable(str(self._directory))
        self._table.update_incremental()
        version = self._table.version()
        if version > self._version:
            # It counts from the newest entry of the log, which may have come since: so some more are read.
            for entry in self._table.history(version - self._version + JUST_COME):
                if found := _batch(entry):
                    self._found.setdefault(*found)
            self._version = version

    @property
    def batches(self) -> list[Batch]:
        return sorted(self._found.values(), key=lambda batch: batch.at)

    @property
    def rows(self) -> int:
        return sum(batch.rows for batch in self._found.values())


class Watch:
    """Takes samples of the whole."""

    def __init__(self, client: Client, tables: Path) -> None:
        self._client = client
        self.orders = TableWatch(tables / "orders")
        self.dead_letters = TableWatch(tables / "orders" / DEAD_LETTERS)
        self.revenue = TableWatch(tables / "revenue")

    def look(self) -> None:
        self.dead_letters.look()  # is committed first
        self.orders.look()
        self.revenue.look()

    def sample(self, second: float, published: int) -> Sample:
        """Of what is there now; what was published is asked for first, so nothing seems to overtake it."""
        self.look()
        return Sample(
            second,
            published,
            self._messages(ORDERS),
            self.orders.rows + self.dead_letters.rows,
            self.dead_letters.rows,
            self._messages(ALERTS),
        )

    def _messages(self, stream: str) -> int:
        try:
            return self._client.stream_info(stream).messages
        except StreamNotFound:
            return 0


def _batch(entry: Mapping[str, Any]) -> tuple[tuple[str, int], Batch] | None:
    """What the log says of a commit: query and number, and the batch; None if it was a compaction."""
    if "headrace" not in entry:
        return None
    told = entry["headrace"]
    told = json.loads(told) if isinstance(told, str) else told
    position = told["positions"].get(ORDERS, {})
    batch = Batch(told["rows"], position.get("next", 0), entry["timestamp"] / 1000)
    return (told["query"], told["batch"]), batch

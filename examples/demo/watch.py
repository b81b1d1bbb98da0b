"""Looks from outside, while everything runs: what do the streams hold, what is in the table by now?

The table is plain Parquet: a file counts when it is there, and its footer says how many rows and which
sequences it holds. When a file came into the table is exact, however seldom we look: the pipeline renames it
into place, and that is when its inode changed (`st_ctime`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet

from headrace.client import Client, StreamNotFound

ORDERS, ALERTS = "ORDERS", "ALERTS"


@dataclass(frozen=True)
class Sample:
    """The progress of everything, this many seconds after the feed began."""

    second: float
    published: int
    """Acknowledged: the server has it on disk."""
    stored: int
    landed: int
    alerts: int

    @property
    def behind(self) -> int:
        return self.published - self.landed


@dataclass(frozen=True)
class LandedFile:
    name: str
    rows: int
    first_seq: int
    last_seq: int
    at: float
    """When it came into the table, in seconds since 1970."""

    @property
    def compacted(self) -> bool:
        """Several files that were there before, as one."""
        return self.name.startswith("batches-")


class TableWatch:
    """The files of a table: those that are there, and all that were ever seen."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._there: dict[tuple[str, int], LandedFile] = {}
        self.seen: dict[tuple[str, int], LandedFile] = {}

    def look(self) -> None:
        there = {}
        for path in table_files(self._directory):
            try:
                status = path.stat()
                # A batch that is repeated after a crash replaces its files under the same names.
                key = str(path), status.st_ctime_ns
                there[key] = self.seen.get(key) or _landed(path, status)
            except FileNotFoundError:
                continue  # it has just been compacted
        self._there = there
        self.seen |= there

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self._there.values())


class Watch:
    """Takes samples of the whole."""

    def __init__(self, client: Client, tables: Path) -> None:
        self._client = client
        self.orders = TableWatch(tables / "orders")
        self.revenue = TableWatch(tables / "revenue")

    def look(self) -> None:
        self.orders.look()
        self.revenue.look()

    def sample(self, second: float, published: int) -> Sample:
        """Of what is there now; what was published is asked for first, so nothing seems to overtake it."""
        self.look()
        return Sample(second, published, self._messages(ORDERS), self.orders.rows, self._messages(ALERTS))

    def _messages(self, stream: str) -> int:
        try:
            return self._client.stream_info(stream).messages
        except StreamNotFound:
            return 0


def table_files(directory: Path) -> Iterator[Path]:
    """The Parquet files that are the table: names with `_` or `.` in front are not part of it."""
    for place, directories, files in os.walk(directory):
        directories[:] = [name for name in directories if not name.startswith(("_", "."))]
        for name in sorted(files):
            if name.endswith(".parquet") and not name.startswith(("_", ".")):
                yield Path(place, name)


def _landed(path: Path, status: os.stat_result) -> LandedFile:
    footer = pyarrow.parquet.read_metadata(path)
    first, last = _sequences(footer)
    return LandedFile(path.name, footer.num_rows, first, last, status.st_ctime)


def _sequences(footer: pyarrow.parquet.FileMetaData) -> tuple[int, int]:
    """The lowest and the highest sequence; 0 and -1 where there is no such column or no row."""
    ranges = [
        (column.statistics.min, column.statistics.max)
        for group in range(footer.num_row_groups)
        for column in map(footer.row_group(group).column, range(footer.num_columns))
        if column.path_in_schema == "seq" and column.statistics and column.statistics.has_min_max
    ]
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else (0, -1)

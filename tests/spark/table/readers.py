"""Reads a table again and again while it is written, and notes what must not be.

Batches have `per_batch` rows with ascending sequences, from 1 on, and the last one has the rest.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from headrace.errors import UsageError
from headrace.spark.table.iceberg.catalog_table import CatalogTable
from headrace.spark.table.iceberg.commits import version_of
from headrace.spark.table.interface import TableError

ATOMIC = ("delta", "iceberg")


class Reader:
    def __init__(self, directory: Path, form: str, per_batch: int, total: int) -> None:
        self.directory = directory
        self.form = form
        self.reads = 0
        self.problems: list[str] = []
        self._per_batch = per_batch
        self._total = total
        self._stop = threading.Event()

    @contextlib.contextmanager
    def polling(self) -> Iterator[None]:
        """In another thread. Plain Parquet is not read: it does not promise anything."""
        if self.form not in ATOMIC:
            yield
            return
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def wait_for_reads(self, count: int) -> None:
        """A busy machine may have written all before it has read so often."""
        deadline = time.monotonic() + 120
        while self.reads < count:
            assert time.monotonic() < deadline, f"{self.reads} reads: {self.problems}"
            time.sleep(0.05)

    def _run(self) -> None:
        version = -1
        while not self._stop.is_set():
            try:
                newer, found = read_version(self.directory, self.form)
            except (DeltaError, UsageError, TableError) as error:
                if version >= 0:  # it was there once, so it is there
                    self.problems.append(str(error))
                time.sleep(0.05)
                continue
            self.reads += 1
            if newer < version:
                self.problems.append(f"version {newer} after {version}")
            version = newer
            whole = len(found) % self._per_batch == 0 or len(found) == self._total
            if sorted(found) != list(range(1, len(found) + 1)) or not whole:
                self.problems.append(
                    f"version {version}: {len(found)} rows, {len(set(found))} of them different"
                )


def read_version(directory: Path, form: str) -> tuple[int, list[int]]:
    """The newest version of a table, and the sequences in it, in any order."""
    if form == "delta":
        table = DeltaTable(directory)
        return table.version(), table.to_pyarrow_table(columns=["seq"])["seq"].to_pylist()
    if form == "iceberg":
        loaded = CatalogTable(str(directory)).load()
        rows = loaded.scan(selected_fields=("seq",)).to_arrow()
        return version_of(loaded.current_snapshot()), rows["seq"].to_pylist()
    paths = sorted(directory.glob("*.parquet"))
    return 0, [seq for path in paths for seq in pyarrow.parquet.read_table(path)["seq"].to_pylist()]


def count_rows(directory: Path, form: str) -> int:
    """How many rows the newest version has, without reading them."""
    if form == "delta":
        actions = pyarrow.table(DeltaTable(directory).get_add_actions(flatten=True))
        return sum(actions["num_records"].to_pylist())
    if form == "iceberg":
        newest = CatalogTable(str(directory)).load().current_snapshot()
        return int(newest.summary["total-records"]) if newest and newest.summary else 0
    paths = sorted(directory.glob("*.parquet"))
    return sum(pyarrow.parquet.read_metadata(path).num_rows for path in paths)

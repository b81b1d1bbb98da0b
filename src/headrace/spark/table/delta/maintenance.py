"""Expiry and orphans of a Delta table, by `deltalake`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headrace.spark.table.files import Files
from headrace.spark.table.interface import Expired

if TYPE_CHECKING:
    from deltalake import DeltaTable

HOUR_SECONDS = 3600.0


def expire(table: DeltaTable, files: Files, older_than_seconds: float) -> Expired:
    """Delete files that were removed from the table at least that long ago, and old log entries.

    Files that a query is writing are not touched: those were never in the table.
    """
    before = _versions(table)
    removed = _vacuum(table, files, older_than_seconds, full=False)
    table.create_checkpoint()
    table.cleanup_metadata()
    return Expired(max(0, before - _versions(table)), removed)


def remove_orphans(table: DeltaTable, files: Files, older_than_seconds: float) -> int:
    """Delete files that were written at least that long ago and are in no version.

    The time must be longer than a batch takes: a file is an orphan until its commit.
    """
    return _vacuum(table, files, older_than_seconds, full=True)


def _vacuum(table: DeltaTable, files: Files, older_than_seconds: float, *, full: bool) -> int:
    """How many files were deleted. The library also lists those that it has deleted before."""
    present = {file.path for file in files.list()}
    listed = table.vacuum(
        retention_hours=math.ceil(older_than_seconds / HOUR_SECONDS),
        dry_run=False,
        enforce_retention_duration=False,
        full=full,
    )
    table.update_incremental()
    removed = [path for path in listed if path in present and not path.rpartition("/")[2].startswith(".")]
    for path in removed:  # Hadoop keeps a checksum next to every file that it writes on a local disk
        directory, _, name = path.rpartition("/")
        files.delete(f"{directory}/.{name}.crc")
    return len(removed)


def _versions(table: DeltaTable) -> int:
    return len(table.history())

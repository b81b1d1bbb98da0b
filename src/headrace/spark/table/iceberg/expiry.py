"""Old versions of an Iceberg table, and files that no version needs.

A version needs its list of manifests, the manifests in it, and the data files in those. A file is deleted
after the commit that forgets the last version that needs it: if that is interrupted, the file is an orphan.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.spark.table.batch_files import DATA
from headrace.spark.table.files import Files
from headrace.spark.table.interface import Expired

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from headrace.spark.table.iceberg.format import IcebergFormat

METADATA = "metadata"


def expire(table: IcebergFormat, files: Files, older_than: datetime) -> Expired:
    """Forget versions from before this time, except the newest one and those that a tag or a branch names."""
    before = table.load()
    limit = older_than.timestamp() * 1000
    named = {reference.snapshot_id for reference in before.refs().values()}
    old = [
        snapshot
        for snapshot in before.metadata.snapshots
        if snapshot.timestamp_ms < limit and snapshot.snapshot_id not in named
    ]
    if not old:
        return Expired()
    needed = _needed(before, old)

    def attempt(loaded: Table) -> None:
        table.ask(lambda: loaded.maintenance.expire_snapshots().older_than(older_than).commit())

    table.again("its old versions could not be removed", attempt)
    after = table.load()
    garbage = needed - _needed(after, after.metadata.snapshots)
    for path in garbage:
        _delete(files, table.relative(path))
    data = [path for path in garbage if not table.relative(path).startswith(f"{METADATA}/")]
    return Expired(len(old), len(data))


def remove_orphans(table: IcebergFormat, files: Files, written_before: float) -> int:
    """Delete files that were written before this time and that no version needs.

    The time must be longer ago than a batch takes: a file is an orphan until its commit. Files are listed
    before the table is loaded, so that what is committed in between is known.
    """
    listed = [f"{directory}/{file.path}" for directory in (DATA, METADATA) for file in files.list(directory)]
    loaded = table.load()
    needed = {table.relative(path) for path in _needed(loaded, loaded.metadata.snapshots)}
    needed.add(table.relative(loaded.metadata_location))
    needed.update(table.relative(entry.metadata_file) for entry in loaded.metadata.metadata_log)
    needed.update(table.relative(entry.statistics_path) for entry in loaded.metadata.statistics)
    removed = 0
    for path in listed:
        if path in needed or path.endswith(".crc") or files.modified(path) >= written_before:
            continue
        _delete(files, path)
        removed += 1
    return removed


def _needed(table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    found: set[str] = set()
    for snapshot in snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in found:
                found.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                found.update(entry.data_file.file_path for entry in entries)
    return found


def _delete(files: Files, path: str) -> None:
    """Also delete the checksum that Hadoop writes next to a file on this machine."""
    directory, _, name = path.rpartition("/")
    files.delete(path)
    files.delete(f"{directory}/.{name}.crc")

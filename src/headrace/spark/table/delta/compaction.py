"""Compaction of a Delta table: small files of a partition become one.

Spark writes the new files, which takes a while, and one commit replaces the old ones. The library has a
compaction of its own, but does not notice when two run at once: both succeed, and every row is there twice.
Here the commit is for exactly the version in which all old files were seen. If there is a newer version, it
is checked: an added batch does no harm; if an old file is gone, another compaction was faster.
"""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.spark.table.batch_files import DATA, write_files
from headrace.spark.table.delta.actions import add_action, remove_action
from headrace.spark.table.delta.files import files_of, spark_schema
from headrace.spark.table.files import Files
from headrace.spark.table.interface import Compacted, DataFile, TableError
from headrace.spark.table.partition_columns import with_partition_columns

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction
    from pyspark.sql import SparkSession

# Files of this size are large enough for a task, and stay as they are. A new one is at most twice as large.
LARGE_BYTES = 128 << 20
ATTEMPTS = 20
OPERATION = "headraceOperation"


def compact(spark: SparkSession, files: Files, table: DeltaTable) -> Compacted:
    old: list[DataFile] = []
    new: list[DataFile] = []
    for group in _groups(files_of(table)):
        old += group
        new += _merge(spark, files, table, group)
    if not old or not _replace(table, old, new):
        return Compacted()
    return Compacted(len(old), len(new))


def _groups(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Small files of a partition, in groups that make one file each."""
    partitions: dict[tuple[tuple[str, str | None], ...], list[DataFile]] = defaultdict(list)
    for file in files:
        if file.size < LARGE_BYTES:
            partitions[tuple(sorted(file.partition.items()))].append(file)
    for small in partitions.values():
        lot: list[DataFile] = []
        for file in small:
            lot.append(file)
            if sum(member.size for member in lot) >= LARGE_BYTES:
                yield lot
                lot = []
        if len(lot) > 1:
            yield lot


def _merge(spark: SparkSession, files: Files, table: DeltaTable, group: list[DataFile]) -> list[DataFile]:
    schema, partition_by = spark_schema(table), table.metadata().partition_columns
    paths = [file.path for file in group]
    rows = with_partition_columns(spark, files, paths, schema, partition_by).coalesce(1)
    order = [name for name in ("stream", "seq") if name in schema.names]
    rows = rows.sortWithinPartitions(*order) if order else rows
    merged = write_files(rows, files, f"{DATA}/compacted-{secrets.token_hex(8)}", partition_by)
    if sum(file.rows for file in merged) != sum(file.rows for file in group):
        raise TableError(f"not all rows of {len(group)} files in {files.root} could be read; they stay")
    return merged


def _replace(table: DeltaTable, old: Sequence[DataFile], new: Sequence[DataFile]) -> bool:
    """Whether the new files replace the old ones now. If not, they are orphans."""
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import CommitProperties, PostCommitHookProperties

    now = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [remove_action(file, now, data_change=False) for file in old]
    actions += [add_action(file, now, data_change=False) for file in new]
    gone = {file.path for file in old}
    for attempt in range(ATTEMPTS):
        table.update_incremental()
        if not gone <= {file.path for file in files_of(table)}:
            return False
        try:
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                table.metadata().partition_columns,
                commit_properties=CommitProperties({OPERATION: "COMPACT"}, max_commit_retries=0),
                post_commithook_properties=PostCommitHookProperties(False, False),
            )
        except CommitFailedError:
            time.sleep(0.02 * attempt)
        else:
            table.update_incremental()
            return True
    return False

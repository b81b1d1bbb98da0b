"""Small files of a partition become one.

Spark reads them with the columns that the table has now and writes them as one file; one commit removes them
and adds it. Batches that are appended in the meantime do no harm: the commit is repeated on top of them. If a
file is gone by then (an upsert has replaced it), the new file is left to `remove_orphans`.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.spark.table.batch_files import DATA
from headrace.spark.table.iceberg.schemas import spark_schema
from headrace.spark.table.interface import Compacted, TableError

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from headrace.spark.table.iceberg.format import IcebergFormat

# Files of this size are large enough for a task, and stay as they are.
LARGE_BYTES = 128 << 20


class _Gone(Exception):
    """One of the files has been removed."""


def compact(table: IcebergFormat, spark: SparkSession) -> Compacted:
    removed = added = 0
    for group in _groups(table.live_files(table.load())):
        new = _merge(table, spark, group)
        swap = partial(_swap, table, group, new)
        try:
            table.again("its files could not be merged", swap)
        except _Gone:
            continue
        removed, added = removed + len(group), added + len(new)
    return Compacted(removed, added)


def _groups(files: list[DataFile]) -> Iterator[list[DataFile]]:
    """Small files of the same partition, up to a large file together."""
    small: dict[Any, list[DataFile]] = defaultdict(list)
    for file in sorted(files, key=lambda file: file.file_path):
        if file.file_size_in_bytes < LARGE_BYTES:
            small[file.spec_id, file.partition].append(file)
    for members in small.values():
        group: list[DataFile] = []
        for file in members:
            if sum(one.file_size_in_bytes for one in group) >= LARGE_BYTES:
                yield group
                group = []
            group.append(file)
        if len(group) > 1:
            yield group


def _merge(table: IcebergFormat, spark: SparkSession, group: list[DataFile]) -> list[str]:
    schema = spark_schema(table.load().schema())
    rows = _in_order(table.rows_of(spark, group, schema).coalesce(1))
    written = table.write_below(rows, f"{DATA}/merged-{secrets.token_hex(8)}")
    if sum(file.rows for file in written) != sum(file.record_count for file in group):
        raise TableError(f"not all rows of the table in {table.directory} could be read; nothing was merged")
    return [file.path for file in written]


def _in_order(rows: DataFrame) -> DataFrame:
    """By sequence where there is one: neighbours compress well, and readers can skip."""
    keys = [name for name in ("stream", "seq") if name in rows.columns]
    return rows.sortWithinPartitions(*keys) if keys else rows


def _swap(table: IcebergFormat, group: list[DataFile], new: list[str], loaded: Table) -> None:
    live = {file.file_path: file for file in table.live_files(loaded)}
    if any(file.file_path not in live for file in group):
        raise _Gone
    table.change(loaded, new, [live[file.file_path] for file in group], operation="compact")

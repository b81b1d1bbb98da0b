"""A new schema for a Delta table: more columns, wider numbers.

A column that is added is a new entry in the log; older files have null there. Widening a number takes more:
no reader may find a file whose type is not that of the table, so the files are rewritten, and one commit
replaces them all together with the schema.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from headrace.spark.table.batch_files import DATA, write_files
from headrace.spark.table.delta.actions import add_action, delta_schema
from headrace.spark.table.delta.files import files_of, spark_schema
from headrace.spark.table.files import Files
from headrace.spark.table.interface import TableBusy, TableError
from headrace.spark.table.partition_columns import with_partition_columns
from headrace.spark.table.schemas import nullable

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def evolve(spark: SparkSession, files: Files, table: DeltaTable, schema: StructType) -> None:
    from deltalake.exceptions import SchemaMismatchError

    schema = nullable(schema)
    present = {field.name: field for field in table.schema().fields}
    wanted = delta_schema(schema).fields
    changed = [field for field in wanted if present.get(field.name) != field]
    if not changed:
        return
    _allow_times_without_zone(table, schema)
    try:
        table.alter.add_columns(changed)  # also merges new fields into structs
    except SchemaMismatchError:
        _rewrite(spark, files, table, schema)
    table.update_incremental()


def _allow_times_without_zone(table: DeltaTable, schema: StructType) -> None:
    """A table created without such columns must declare them before it gets the first one."""
    from deltalake import TableFeatures

    if "timestamp_ntz" in schema.json() and "timestampNtz" not in (table.protocol().writer_features or ()):
        table.alter.add_feature(TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True)
        table.update_incremental()


def _rewrite(spark: SparkSession, files: Files, table: DeltaTable, schema: StructType) -> None:
    """The commit is made for the version that was read: a file added in the meantime would have old types."""
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import CommitProperties

    partition_by = table.metadata().partition_columns
    old = files_of(table)
    paths = [file.path for file in old]
    rows = with_partition_columns(spark, files, paths, spark_schema(table), partition_by)
    directory = f"{DATA}/rewritten-{secrets.token_hex(8)}"
    new = write_files(rows.to(schema), files, directory, partition_by)
    if sum(file.rows for file in new) != sum(file.rows for file in old):
        raise TableError(f"not all rows of the table in {files.root} could be read; nothing was changed")
    now = time.time_ns() // 1_000_000
    try:
        table.create_write_transaction(
            [add_action(file, now) for file in new],
            "overwrite",  # removes what the version has
            delta_schema(schema),
            partition_by,
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    except CommitFailedError:
        raise TableBusy(
            f"the table in {files.root} was changed while its columns were being widened",
            hint="start the query again",
        ) from None

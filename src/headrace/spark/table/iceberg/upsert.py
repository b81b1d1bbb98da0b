"""`--key` in an Iceberg table: files with rows that a batch replaces are rewritten without them.

Spark finds those files by the keys of the batch, and writes new ones: the rows that stay, and the rows of the
batch. One commit removes the old files and adds the new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING
from urllib.parse import unquote

from headrace.spark.table.iceberg.schemas import spark_schema
from headrace.spark.table.interface import Commit

if TYPE_CHECKING:
    import pyarrow
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.spark.table.iceberg.format import IcebergFormat

SEQUENCE = "seq"
CHANGE = "__headrace_change_"


def upsert(
    table: IcebergFormat,
    spark: SparkSession,
    loaded: Table,
    commit: Commit,
    rows: pyarrow.Table,
    key: Sequence[str],
    deleted: pyarrow.Table,
) -> None:
    """Both sources have each key at most once, and `seq`."""
    from pyspark.sql import functions

    schema = spark_schema(loaded.schema())
    new = spark.createDataFrame(rows).to(schema)
    gone = spark.createDataFrame(deleted)
    names = [*key, SEQUENCE]
    changes = _marked(new.select(*map(_quoted, names)).unionByName(gone.select(*map(_quoted, names))), names)
    live = table.live_files(loaded)
    affected = _affected(table, spark, live, schema, functions.broadcast(changes), key)
    staying = table.rows_of(spark, affected, schema).join(
        functions.broadcast(changes), _same_key(key) & _is_older(), "left_anti"
    )
    current = table.rows_of(spark, live, schema).select(*map(_quoted, names))
    winning = _marked(new, schema.names).join(current, _same_key(key) & ~_is_older(), "left_anti")
    winning = winning.toDF(*schema.names)
    written = table.write(staying.unionByName(winning), commit.batch)
    table.change(loaded, [file.path for file in written], affected, commit=commit)


def _affected(
    table: IcebergFormat,
    spark: SparkSession,
    live: list[DataFile],
    schema: StructType,
    changes: DataFrame,
    key: Sequence[str],
) -> list[DataFile]:
    """The files that have a row which the batch replaces or deletes."""
    if not live:
        return []
    current = table.rows_of(spark, live, schema).select("*", "_metadata.file_path")
    found = current.join(changes, _same_key(key) & _is_older(), "left_semi").select("file_path").distinct()
    paths = {table.relative(unquote(row.file_path)) for row in found.collect()}
    return [file for file in live if table.relative(file.file_path) in paths]


def _marked(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Renamed so that the names clash with no column of the table."""
    return rows.toDF(*(CHANGE + name for name in names))


def _same_key(key: Sequence[str]) -> Column:
    from pyspark.sql import functions

    parts = [functions.col(_quoted(name)).eqNullSafe(functions.col(_quoted(CHANGE + name))) for name in key]
    return reduce(and_, parts)


def _is_older(name: str = SEQUENCE) -> Column:
    """The row of the table is older than the change."""
    from pyspark.sql import functions

    return functions.col(name) < functions.col(CHANGE + name)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"

"""Reads a list of Parquet files whose partition columns are in the names of their directories.

Spark itself finds those only if all files of a table lie below directories of the same depth. Here each file
is read on its own. Spark does not open a file whose path alone contradicts the query's condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.spark.table.files import Files
from headrace.spark.table.footers import NULL_PARTITION, partition_of
from headrace.spark.table.interface import TableError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


def with_partition_columns(
    spark: SparkSession,
    files: Files,
    paths: Sequence[str],
    schema: StructType,
    partition_by: Sequence[str],
) -> DataFrame:
    """The rows of these files, with the columns of `schema` in their order."""
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    if not paths:
        return spark.createDataFrame([], schema)
    for path in paths:
        if set(partition_of(path.rpartition("/")[0])) < set(partition_by):
            raise TableError(
                f"{files.at(path)} was written by another program, and its path does not name its partition"
            )
    stored = StructType([field for field in schema if field.name not in partition_by])
    rows = spark.read.schema(stored).parquet(*(files.at(path) for path in paths))
    columns = [
        _from_path(field.name).cast(field.dataType).alias(field.name)
        if field.name in partition_by
        else functions.col(_quoted(field.name))
        for field in schema
    ]
    return rows.select(*columns)


def _from_path(name: str) -> Column:
    from pyspark.sql import functions

    path = functions.col("_metadata.file_path")
    part = functions.regexp_extract(path, f"/{_escaped(name)}=([^/]*)/", 1)
    # The path is a URL, and the name of the directory was escaped before; a plus is a plus in both.
    for _ in range(2):
        part = functions.url_decode(functions.replace(part, functions.lit("+"), functions.lit("%2B")))
    return functions.when(part != NULL_PARTITION, part)


def _escaped(name: str) -> str:
    import re
    from urllib.parse import quote

    return re.escape(quote(quote(name)))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"

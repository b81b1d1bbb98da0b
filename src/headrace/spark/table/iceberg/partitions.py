"""Partitions of an Iceberg table: a file holds rows of one value of each partition column.

Readers of Iceberg do not look at the names of directories: the commit says which partition a file belongs to,
and the column stays in the file. But Spark leaves a column out of the files if it names directories after it.
So they are named after a copy, which also distinguishes what Spark would put together, null and empty text:

    data/batch-000000042-5f0c1d2e/by_date=2026-11-16/by_kind=_order/part-00000-….parquet
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.errors import UsageError

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

# A directory's name has at most 255 bytes: a longer text is cut, and its hash is added.
LONGEST_TEXT = 30


def check_partitions(schema: StructType, partition_by: Sequence[str]) -> None:
    """Raises UsageError for a type for which a footer does not prove that a file has one value."""
    from pyspark.sql import types

    allowed = types.StringType, types.BooleanType, types.IntegralType, types.DateType
    for name in partition_by:
        kind = schema[name].dataType
        if not isinstance(kind, allowed):
            raise UsageError(
                f"an Iceberg table cannot be partitioned by {name}, which is {kind.simpleString()}",
                hint="use a column with text, an integer, a boolean or a date",
            )


def partition_spec(schema: Schema, partition_by: Sequence[str]) -> PartitionSpec:
    from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    return PartitionSpec(
        *(
            PartitionField(
                source_id=schema.find_field(name).field_id,
                field_id=PARTITION_FIELD_ID_START + number,
                transform=IdentityTransform(),
                name=name,
            )
            for number, name in enumerate(partition_by)
        )
    )


def with_directories(rows: DataFrame, partition_by: Sequence[str]) -> tuple[DataFrame, list[str]]:
    """The rows with a column for each level of directories, and the names of those columns."""
    taken = set(rows.columns)
    directories = []
    for name in partition_by:
        directory = f"by_{name}"
        while directory in taken:
            directory = f"by_{directory}"
        taken.add(directory)
        directories.append(directory)
        rows = rows.withColumn(directory, _directory(rows, name))
    return rows, directories


def _directory(rows: DataFrame, name: str) -> Column:
    from pyspark.sql import functions
    from pyspark.sql.types import StringType

    column = rows[f"`{name.replace('`', '``')}`"]
    if not isinstance(rows.schema[name].dataType, StringType):
        return column.cast("string")
    short = functions.concat(functions.left(column, functions.lit(LONGEST_TEXT)), functions.lit("-"))
    hashed = functions.concat(short, functions.sha2(column, 256))
    text = functions.when(functions.length(column) > LONGEST_TEXT, hashed).otherwise(column)
    return functions.concat(functions.lit("_"), text)

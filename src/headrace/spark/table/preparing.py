"""Prepares a table for a query: it is created or, if it exists, checked and given new columns."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError, UsageError
from headrace.spark.payload.evolution import evolved
from headrace.spark.table.description import Description, check_same, read_description, write_description
from headrace.spark.table.files import Files
from headrace.spark.table.interface import DEFAULT_FORMAT, Settings, TableFormat
from headrace.spark.table.layout import DESCRIPTION, OWN
from headrace.spark.table.opening import check_free, table_of
from headrace.spark.table.schemas import nullable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def prepare(
    spark: SparkSession, directory: str, wanted: Description, schema: StructType, settings: Settings
) -> TableFormat:
    """The table, with at least these columns. `wanted.format` may be empty: then it is what the table is.

    Raises UsageError if the directory holds something else, and changes nothing then.
    """
    schema = nullable(schema)
    files = Files(spark, directory)
    found = read_description(files)
    chosen = wanted.format or (found.format if found else DEFAULT_FORMAT)
    wanted = replace(wanted, format=chosen)
    if wanted.key and chosen == "parquet":
        raise UsageError(
            "a plain Parquet table cannot keep only the latest row of each key",
            hint="a key needs the format delta or iceberg",
        )
    if found is not None:
        wanted = replace(wanted, catalog=wanted.catalog or found.catalog, table=wanted.table or found.table)
        check_same(files, found, wanted)
        _check_columns(schema, wanted)
        table = table_of(spark, directory, wanted, settings)
        _make(table, schema, wanted)
        if found != wanted:
            write_description(files, wanted)
        return table
    check_free(files)
    _check_columns(schema, wanted)
    table = table_of(spark, directory, wanted, settings)
    write_description(files, wanted)
    try:
        _make(table, schema, wanted)
    except HeadraceError:
        files.delete(DESCRIPTION)
        if not files.list():
            files.delete(OWN)
        raise
    return table


def _check_columns(schema: StructType, about: Description) -> None:
    twice = [name for name, count in Counter(name.lower() for name in schema.names).items() if count > 1]
    if twice:
        raise UsageError(
            f"the table would have the column {twice[0]} twice",
            hint="partition it differently (--partition-by), or rename the field",
        )
    for name in about.partition_by:
        if name not in schema.names:
            raise UsageError(
                f"the table cannot be partitioned by {name}: it is not a column",
                hint=f"the columns are {', '.join(schema.names)}",
            )


def _make(table: TableFormat, schema: StructType, about: Description) -> None:
    if not table.exists():
        table.create(schema, about.partition_by)
        return
    before = table.schema()
    wider = nullable(evolved(before, schema, table.name))
    if wider != before:
        table.evolve(wider)

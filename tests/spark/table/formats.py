"""A table of each format, and the programs with which other people read it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars
import pyarrow
import pyarrow.parquet

from headrace.spark.table.description import Description
from headrace.spark.table.interface import Commit, Settings, StreamPosition, TableFormat
from headrace.spark.table.opening import table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STREAM = "S"

# Otherwise polars warns that a plugin of its own would be faster.
os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")


def open_format(spark: SparkSession, kind: str, directory: Path, partition_by: tuple[str, ...] = ()) -> Any:
    about = Description(kind, "a test", partition_by=partition_by, streams=(STREAM,))
    return table_of(spark, str(directory), about, Settings())


def committed(batch: int, first: int, end: int, query: str = "q") -> Commit:
    """Of a batch that holds the messages from `first` up to, and without, `end`."""
    return Commit(
        query,
        batch,
        {STREAM: StreamPosition(end, 7)},
        rows=end - first,
        starts={STREAM: StreamPosition(first, 7)},
    )


def append(table: TableFormat, batch: int, rows: DataFrame, first: int, end: int, query: str = "q") -> None:
    table.commit(committed(batch, first, end, query), table.write(rows, batch))


def read_elsewhere(table: Any) -> dict[str, list[dict[str, Any]]]:
    """The rows of a table as each program reads them that is not Spark."""
    if table.name == "delta":
        from deltalake import DeltaTable

        return {
            "deltalake": DeltaTable(table.directory).to_pyarrow_table().to_pylist(),
            "polars": polars.read_delta(table.directory).to_dicts(),
        }
    if table.name == "iceberg":
        return read_iceberg(table)
    files = [str(Path(table.directory, file.path)) for file in table.files()]
    return {
        "pyarrow": pyarrow.parquet.read_table(table.directory).to_pylist(),
        "polars": polars.read_parquet(files).to_dicts(),
    }


def read_iceberg(table: Any) -> dict[str, list[dict[str, Any]]]:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("headrace", uri=f"sqlite:///{table.directory}/_headrace/catalog.sqlite")
    try:
        found = catalog.load_table(table.identifier)
        return {
            "pyiceberg": found.scan().to_arrow().to_pylist(),
            "polars": polars.scan_iceberg(found).collect().to_dicts(),
        }
    finally:
        catalog.close()


def read_everywhere(spark: SparkSession, table: Any, column: str = "id") -> list[Any]:
    """The values of a column, sorted: every program must find the same ones."""
    found = sorted(row[column] for row in table.read(spark).collect())
    for program, rows in read_elsewhere(table).items():
        assert sorted(row[column] for row in rows) == found, program
    return found

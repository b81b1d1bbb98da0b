"""Finds out which format a table has, and opens it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.errors import UsageError
from headrace.spark.failure import SparkError
from headrace.spark.table.description import Description, read_description
from headrace.spark.table.files import Files
from headrace.spark.table.interface import DEFAULT_FORMAT, FORMATS, Settings, TableFormat
from headrace.spark.table.layout import OWN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def format_of(spark: SparkSession, directory: str, settings: Settings) -> str:
    """The format of the table or, if there is none, the one that is wanted."""
    files = Files(spark, directory)
    found = read_description(files)
    if found is not None:
        return found.format
    check_free(files)
    return settings.format or DEFAULT_FORMAT


def check_free(files: Files) -> None:
    """Raises UsageError if a directory without a description is not empty: it is not ours."""
    found = files.list()
    if any(not file.path for file in found):
        raise UsageError(f"{files.root} is a file, not a directory", hint="choose another name")
    if any(not file.path.startswith(f"{OWN}/") for file in found):
        raise UsageError(
            f"{files.root} contains files that do not belong to this table",
            hint="choose another directory, or empty it",
        )


def open_table(spark: SparkSession, directory: str, settings: Settings) -> TableFormat:
    """The existing table. Raises UsageError if there is none."""
    found = read_description(Files(spark, directory))
    if found is None:
        raise UsageError(f"there is no table in {directory}", hint="`headrace land` makes one")
    return table_of(spark, directory, found, settings)


def table_of(spark: SparkSession, directory: str, about: Description, settings: Settings) -> TableFormat:
    """A table as it is described, which may not exist yet."""
    if settings.format and settings.format != about.format:
        raise UsageError(
            f"the table in {directory} has format {about.format}, not {settings.format}",
            hint="choose another directory, or leave the format out",
        )
    if about.format != "iceberg" and (settings.catalog or settings.table):
        raise UsageError(
            f"only Iceberg tables have a catalog, and the table in {directory} has format {about.format}",
            hint="choose --format iceberg, or leave --catalog and --table out",
        )
    if about.format == "delta":
        require("deltalake", "headrace[spark]")
        from headrace.spark.table.delta.table import DeltaFormat

        return DeltaFormat(spark, directory, storage_options=settings.storage_options, streams=about.streams)
    if about.format == "iceberg":
        require("pyiceberg", "headrace[iceberg]")
        from headrace.spark.table.iceberg.format import IcebergFormat

        return IcebergFormat(
            spark,
            directory,
            catalog=settings.catalog or about.catalog,
            table=settings.table or about.table,
            storage_options=settings.storage_options,
        )
    if about.format == "parquet":
        from headrace.spark.table.parquet import ParquetFormat

        return ParquetFormat(spark, directory, partition_by=about.partition_by)
    raise UsageError(f"unknown format {about.format}", hint=f"the formats are {', '.join(FORMATS)}")


def opened_beside(
    spark: SparkSession, table: TableFormat, about: Description, settings: Settings
) -> Callable[[], TableFormat] | None:
    """Opens a table once more, for another thread; None if only the query that writes it may change it.

    Delta detects conflicting commits of two writers. Plain Parquet has no commits. In a table with a key each
    batch replaces files, so a compaction at the same time would hardly ever find those that it has read.
    """
    if table.name != "delta" or about.key:
        return None
    return lambda: table_of(spark, table.directory, replace(about, format=table.name), settings)


def require(module: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise SparkError(f"{module} is not installed", hint=f"`pip install '{extra}'` installs it")

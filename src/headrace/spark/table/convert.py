"""A plain Parquet table becomes a Delta table, in place: its files stay where they are.

Delta's first entry lists them, and the schema. Then the description says that this is a Delta table. The
query's checkpoint stays, so the query continues with its next batch. It must not run during the conversion.

    1. complete what an interrupted batch or compaction has left
    2. create the log, with the files and the last batch of the query as one commit
    3. write the description

Between 2 and 3, queries still see a plain Parquet table, and nothing uses the log: converting it again starts
over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.errors import UsageError
from headrace.spark.table.delta.table import DeltaFormat
from headrace.spark.table.description import read_description, write_description
from headrace.spark.table.files import Files
from headrace.spark.table.footers import data_file
from headrace.spark.table.interface import Commit
from headrace.spark.table.layout import CHECKPOINT
from headrace.spark.table.parquet import ParquetFormat
from headrace.spark.table.query_progress import QueryProgress
from headrace.spark.table.schemas import nullable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = "_delta_log"


def convert_to_delta(
    spark: SparkSession, directory: str, storage_options: Mapping[str, str], checkpoint: str = ""
) -> int:
    """How many files the table has. Raises UsageError if it is not plain Parquet.

    `checkpoint` is that of its query, if it is not below the table itself.
    """
    files = Files(spark, directory)
    about = read_description(files)
    if about is None or about.format != "parquet":
        what = f"is a table of format {about.format}" if about else "holds no table of headrace"
        raise UsageError(f"{directory} {what}: only plain Parquet can be converted")
    before = ParquetFormat(spark, directory, partition_by=about.partition_by)
    progress = QueryProgress(spark, checkpoint or files.at(CHECKPOINT))
    commit = _last_commit(before, progress)
    files.delete(LOG)
    schema = nullable(before.schema())
    after = DeltaFormat(spark, directory, storage_options=storage_options)
    after.create(schema, about.partition_by)
    listed = {file.path: file for file in files.list()}
    found = [data_file(files, listed[file.path]) for file in before.files()]
    after.commit(replace(commit, rows=sum(file.rows for file in found)), found)
    streams = about.streams or tuple(commit.positions)
    write_description(files, replace(about, format="delta", streams=streams))
    return len(found)


def _last_commit(table: ParquetFormat, progress: QueryProgress) -> Commit:
    """The last batch that Spark has recorded; files of a later one are removed from the table."""
    if not progress.exists():
        raise UsageError(
            f"the checkpoint of the table in {table.directory} is missing: its query could not continue",
            hint="restore it first",
        )
    batch = progress.last_recorded()
    table.recover(batch)
    if batch < 0:
        return Commit(progress.query, batch)
    return Commit(progress.query, batch, progress.span(batch).ends)

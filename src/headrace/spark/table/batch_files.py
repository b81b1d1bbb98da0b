"""The rows of a batch as Parquet files, under a name that nothing else uses. Spark writes them, in parallel.

    data/batch-000000042-5f0c1d2e/date=2026-11-16/part-00000-….parquet

Nothing renames them later: they stay where they are, and a commit makes them part of the table. A repeated
attempt gets another name, so that two drivers that each believe they are alone cannot overwrite each other's
files.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.spark.table.arrow_files import write_arrow
from headrace.spark.table.files import Files
from headrace.spark.table.footers import data_files
from headrace.spark.table.interface import ArrowRows, DataFile, Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = "data"
_DIRECTORY = re.compile(r"data/batch-(\d{9,})-[0-9a-f]{8}")

SETTINGS = {
    # Both formats know times in microseconds; Spark's default is an older type of 12 bytes.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Without it Spark sorts the rows by partition before it writes them, to have one file open at a time.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
}


def new_batch_directory(batch: int) -> str:
    """Below the table's directory."""
    return f"{DATA}/batch-{batch:09d}-{secrets.token_hex(4)}"


def batch_of(directory: str) -> int | None:
    """The batch for which this directory was made; None if it is a different kind of directory."""
    match = _DIRECTORY.match(directory)
    return int(match[1]) if match else None


def write_files(rows: Rows, files: Files, directory: str, partition_by: Sequence[str] = ()) -> list[DataFile]:
    """Write the rows below a directory of the table. Files without rows are left out, and removed."""
    if isinstance(rows, ArrowRows):
        return write_arrow(rows, files, directory, partition_by)
    writer = rows.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    with settings_of(rows.sparkSession, SETTINGS):
        writer.parquet(files.at(directory))
    written = data_files(files, directory)
    for file in written:
        if not file.rows:
            files.delete(file.path)
    return [file for file in written if file.rows]


@contextmanager
def settings_of(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session temporarily: it is the caller's, who may have chosen them."""
    before = {name: spark.conf.get(name) or "" for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)

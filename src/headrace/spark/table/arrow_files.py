"""Writes rows that this process has, as one file per partition of the table.

Parquet as Spark writes it: the same types, names of directories and compression. The contents of the footer
are known when the file is written, so nothing is read again.
"""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.spark.table.files import Files
from headrace.spark.table.footers import figures_of
from headrace.spark.table.interface import ArrowRows, DataFile

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

CODEC = "spark.sql.parquet.compression.codec"
CODECS = {"snappy": "snappy", "gzip": "gzip", "zstd": "zstd", "none": "none", "uncompressed": "none"}
"""Spark's names of the codecs that both know."""
DECIMALS = "store_decimal_as_integer"


def codec_of(spark: SparkSession) -> str | None:
    """The compression of files, as pyarrow names it; None if it cannot write what Spark would write."""
    import pyarrow.parquet

    if DECIMALS not in inspect.signature(pyarrow.parquet.ParquetWriter).parameters:
        return None  # an older one, which writes decimals in a way that Iceberg does not accept
    return CODECS.get((spark.conf.get(CODEC) or "").lower())


def write_arrow(rows: ArrowRows, files: Files, directory: str, partition_by: Sequence[str]) -> list[DataFile]:
    """Below a directory of the table; no file if there are no rows.

    The values of partitions are numbers and dates, whose text can be part of a path.
    """
    import pyarrow.parquet

    found, codec = [], rows.codec
    for partition, part in _parts(rows.table, partition_by):
        place = "/".join([directory, *(f"{name}={value}" for name, value in partition.items())])
        path = f"{place}/part-00000-{secrets.token_hex(8)}.{codec}.parquet"
        footers: list[Any] = []
        with pyarrow.BufferOutputStream() as output:
            pyarrow.parquet.write_table(
                part,
                output,
                compression=codec,
                coerce_timestamps="us",
                metadata_collector=footers,
                **{DECIMALS: True},
            )
            contents = output.getvalue()
        files.create(path, contents)
        found.append(DataFile(path, contents.size, part.num_rows, partition, figures_of(footers[0])))
    return found


def _parts(
    rows: pyarrow.Table, partition_by: Sequence[str]
) -> Iterator[tuple[dict[str, str | None], pyarrow.Table]]:
    """The rows of each partition, without its columns."""
    import pyarrow.compute

    if not rows.num_rows:
        return
    if not partition_by:
        yield {}, rows
        return
    first, *others = partition_by
    for value in rows.column(first).unique():
        part = rows.filter(pyarrow.compute.equal(rows.column(first), value)).drop_columns([first])
        for partition, smaller in _parts(part, others):
            yield {first: str(value.as_py()), **partition}, smaller

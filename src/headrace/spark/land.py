"""`headrace land`: keeps a table of a stream up to date."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.spark.start import start_query
from headrace.spark.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS = {
    "none": {},
    "day": {"date": "to_date(timestamp)"},
    "hour": {"date": "to_date(timestamp)", "hour": "hour(timestamp)"},
}

SETTINGS = {
    # Without it Spark sorts the rows by partition before it writes them, to have one file open at a time.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
}


@dataclass(frozen=True)
class Landing:
    """What to land, and how."""

    stream: str
    directory: str
    options: dict[str, str] = field(default_factory=dict)
    """Options of the data source: servers and credentials."""
    partition_by: str = "day"
    text: bool = False
    """Store payloads as text instead of bytes."""
    start: str = "earliest"
    rows_per_batch: int = 1_000_000
    compact_after: int = 32
    every_seconds: float = 10.0


def start_landing(spark: SparkSession, landing: Landing, *, once: bool) -> StreamingQuery:
    """Start it. With `once`, the query ends when it has landed all messages of now."""
    columns = PARTITIONS[landing.partition_by]
    table = Table(
        spark,
        landing.directory,
        origin=f"the stream {landing.stream}",
        partition_by=tuple(columns),
        compact_after=landing.compact_after,
    )
    rows = _rows(spark, landing).selectExpr("*", *(f"{how} AS {name}" for name, how in columns.items()))
    writer = rows.writeStream.queryName(f"land {landing.stream}").foreachBatch(table.write_batch)
    writer = writer.option("checkpointLocation", table.checkpoint)
    every = {"availableNow": True} if once else {"processingTime": f"{landing.every_seconds:g} seconds"}
    return start_query(writer.trigger(**every))


def _rows(spark: SparkSession, landing: Landing) -> DataFrame:
    reader = spark.readStream.format("nats").options(**landing.options)
    rows = (
        reader.option("stream", landing.stream)
        .option("startingOffsets", landing.start)
        .option("maxOffsetsPerTrigger", landing.rows_per_batch)
        .load()
    )
    return rows.withColumn("data", rows["data"].cast("string")) if landing.text else rows

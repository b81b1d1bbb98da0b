"""`headrace land`: keeps a table of a stream up to date."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.errors import UsageError
from headrace.spark.connection import Streams
from headrace.spark.options import Use, read_options
from headrace.spark.progress import Tally
from headrace.spark.reading.early import early_option
from headrace.spark.reading.offsets import is_another
from headrace.spark.start import start_query
from headrace.spark.table.batch_files import SETTINGS
from headrace.spark.table.dead_letters import bad_rows, deletions_of
from headrace.spark.table.description import Description, read_description
from headrace.spark.table.files import Files
from headrace.spark.table.interface import DEFAULT_FORMAT, Settings, StreamPosition
from headrace.spark.table.layout import CHECKPOINT, PARTITIONS
from headrace.spark.table.opening import opened_beside, table_of
from headrace.spark.table.preparing import prepare
from headrace.spark.table.query_progress import QueryProgress
from headrace.spark.table.small_batches import small_batches
from headrace.spark.table.typed_rows import TypedRows
from headrace.spark.table.writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.spark.landing_report import LandingReport, LandingReporter
    from headrace.spark.payload.decoding import Decoding

__all__ = ["SETTINGS", "Landing", "start_landing"]

TIMES = {"none": (), "day": ("date",), "hour": ("date", "hour")}


@dataclass(frozen=True)
class Landing:
    """What to land, and how."""

    stream: str
    directory: str
    options: dict[str, str] = field(default_factory=dict)
    """Options of the data source: servers and credentials."""
    partition_by: str = ""
    """`day`, `hour` or `none`, or the name of a column. If not given, as in the table; new ones get `day`."""
    text: bool = False
    """Store payloads as text instead of bytes."""
    start: str = "earliest"
    rows_per_batch: int = 1_000_000
    compact_after: int = 32
    every_seconds: float = 10.0
    settings: Settings = field(default_factory=Settings)
    """The format of the table, and how to reach it."""
    decoding: Decoding | None = None
    """How payloads become columns. Without it, as the table has it; a new one gets payloads as they are."""
    on_bad_row: str = "dead-letter"
    """`dead-letter`, `fail` or `stream:NAME`."""
    fail_on_data_loss: bool = True
    """Whether to end if messages have left the stream before they landed."""


def start_landing(
    spark: SparkSession,
    landing: Landing,
    *,
    once: bool,
    say: Callable[[str], None] = print,
    tally: Tally | None = None,
    reporter: LandingReporter | None = None,
) -> StreamingQuery:
    """Start it. With `once`, the query ends when it has landed all current messages.

    What is landed is added to `tally`, and `reporter` sends the progress to the server.
    """
    tally = tally or Tally()
    files = Files(spark, landing.directory)
    progress = QueryProgress(spark, files.at(CHECKPOINT))
    found = read_description(files)
    landing = _completed(found, landing)
    start = landing.start
    if found is not None and not progress.exists():
        start = _start(spark, landing, found, say)
    rows = _rows(spark, landing, start)
    computed = {name: PARTITIONS[name] for name in TIMES.get(landing.partition_by, ())}
    about = _description(landing, TIMES.get(landing.partition_by, (landing.partition_by,)))
    typed = None
    if landing.decoding is not None:
        handler = bad_rows(spark, landing.on_bad_row, files, about, landing.settings, landing.options)
        deletions = deletions_of(spark, files, about, landing.settings) if about.key else None
        typed = TypedRows(landing.decoding, handler, computed, deletions)
        rows = typed.decoded(rows)
        schema = typed.schema_of(rows)
    else:
        rows = rows.selectExpr("*", *(f"{how} AS {name}" for name, how in computed.items()))
        schema = rows.schema
    table = prepare(spark, landing.directory, about, schema, landing.settings)
    table_writer = TableWriter(
        table,
        progress,
        typed=typed,
        small=small_batches(spark, typed, _source_options(landing, start), table, about.partition_by),
        compact_after=landing.compact_after,
        beside=None if once else opened_beside(spark, table, about, landing.settings),
        tally=tally,
        report=_report(landing, reporter, tally, progress),
    )
    writer = rows.writeStream.queryName(f"land {landing.stream}").foreachBatch(table_writer.write_batch)
    writer = writer.option("checkpointLocation", files.at(CHECKPOINT))
    every = {"availableNow": True} if once else {"processingTime": f"{landing.every_seconds:g} seconds"}
    query = start_query(writer.trigger(**every))
    if reporter:
        reporter.runs(landing.stream, query)
    return query


def _report(
    landing: Landing, reporter: LandingReporter | None, tally: Tally, progress: QueryProgress
) -> LandingReport | None:
    if reporter is None:
        return None
    return reporter.landing(
        landing.stream,
        table=landing.directory,
        format=landing.settings.format,
        streams=(landing.stream,),
        tally=tally,
        progress=progress,
    )


def _description(landing: Landing, partition_by: tuple[str, ...]) -> Description:
    decoding = landing.decoding
    return Description(
        format=landing.settings.format,
        origin=f"the stream {landing.stream}",
        partition_by=partition_by,
        streams=(landing.stream,),
        key=decoding.key if decoding else (),
        decoding=decoding.to_json() if decoding else {},
        catalog=landing.settings.catalog,
        table=landing.settings.table,
    )


def _completed(found: Description | None, landing: Landing) -> Landing:
    """An existing table keeps its format and its columns if they are not given again."""
    from headrace.spark.payload.decoding import Decoding

    settings, decoding = landing.settings, landing.decoding
    if not settings.format:
        settings = replace(settings, format=found.format if found else DEFAULT_FORMAT)
    if found is not None:
        catalog, table = settings.catalog or found.catalog, settings.table or found.table
        settings = replace(settings, catalog=catalog, table=table)
    partition_by = landing.partition_by
    if not partition_by:
        names = {columns: name for name, columns in TIMES.items()}
        partition_by = names.get(found.partition_by, "".join(found.partition_by)) if found else "day"
    if found is not None and found.decoding:
        before = Decoding.from_json(found.decoding)
        if decoding is None:
            decoding = before
        elif not decoding.subject:  # a new schema does not mean that these columns should go
            decoding = replace(decoding, subject=before.subject).checked()
    return replace(landing, settings=settings, partition_by=partition_by, decoding=decoding)


def _start(spark: SparkSession, landing: Landing, about: Description, say: Callable[[str], None]) -> str:
    """Where a query without a checkpoint starts: after what the table has."""
    table = table_of(spark, landing.directory, about, landing.settings)
    latest = table.latest() if table.exists() else None
    if latest is None:
        return landing.start
    if table.name == "parquet":
        raise UsageError(
            f"the checkpoint of the table in {table.directory} was removed",
            hint="choose another directory for the table, or restore the checkpoint",
        )
    position = latest.positions.get(landing.stream, StreamPosition(1))
    _check_continued(landing, position)
    say(
        f"the checkpoint of {table.directory} is gone; continuing at sequence {position.next:,}, "
        "up to which the table is complete"
    )
    return json.dumps({landing.stream: position.next})


def _check_continued(landing: Landing, position: StreamPosition) -> None:
    """Raises UsageError unless the stream continues exactly where the table ends.

    A commit would be refused otherwise, but only in the first batch, and it could not say why.
    """
    stream, next_ = landing.stream, position.next
    given = {name.lower(): text for name, text in landing.options.items()} | {"stream": stream}
    streams = Streams(read_options(given, Use.STREAM).connection)
    try:
        extent = streams.extent(stream)
    finally:
        streams.close()
    if is_another(position.created, extent.created) or next_ > extent.end:
        raise UsageError(
            f"the stream {stream} was deleted and re-created since it landed in {landing.directory}, "
            f"up to sequence {next_ - 1:,}",
            hint="land the new stream in another directory (--to)",
        )
    if next_ < extent.first:
        raise UsageError(
            f"messages {next_:,} to {extent.first - 1:,} of the stream {stream} were removed before they "
            f"landed in {landing.directory}, whose checkpoint is gone",
            hint="restore the checkpoint, or land the stream in another directory (--to)",
        )


def _rows(spark: SparkSession, landing: Landing, start: str) -> DataFrame:
    rows = spark.readStream.format("nats").options(**_source_options(landing, start)).load()
    return rows.withColumn("data", rows["data"].cast("string")) if landing.text else rows


def _source_options(landing: Landing, start: str) -> dict[str, str]:
    return {
        **landing.options,
        **early_option(landing.decoding),
        "stream": landing.stream,
        "startingOffsets": start,
        "maxOffsetsPerTrigger": str(landing.rows_per_batch),
        "failOnDataLoss": str(landing.fail_on_data_loss).lower(),
    }

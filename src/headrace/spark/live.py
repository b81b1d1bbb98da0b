"""A stream and its table as one: the rows that have landed, and the messages that have arrived since.

The newest commit of a table says up to which sequence it is complete. So the rest of the stream is exactly
what is missing, without duplicates:

    table, version 42: ORDERS complete before 100001   +   stream ORDERS from 100001 to its end of now

The version is fixed when the view is made, the end of the stream when it is first queried. If messages that
are not in this version leave the stream in between, by a limit or a purge, the query fails: a view that is
re-created gets them from the table's next version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.errors import UsageError
from headrace.spark.connection import Streams
from headrace.spark.options import Use, read_options
from headrace.spark.payload.decoding import Decoding
from headrace.spark.reading.early import early_option
from headrace.spark.table.description import Description, read_description
from headrace.spark.table.files import Files
from headrace.spark.table.interface import Commit, Settings, StreamPosition, TableFormat, Version
from headrace.spark.table.layout import PARTITIONS
from headrace.spark.table.opening import open_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

MOST_TRIES = 20
GONE, PLACE = "_headrace_gone", "_headrace_place"


def live_table(
    spark: SparkSession,
    directory: str,
    options: Mapping[str, str] | None = None,
    *,
    settings: Settings | None = None,
) -> DataFrame:
    """The table in a directory, brought up to date from its stream.

    `options` are those of the data source `nats`: `servers`, and credentials if the server needs any. Bad
    rows of the stream are left out, as they are in the table.
    """
    about = _description(spark, directory)
    table = open_table(spark, directory, settings or Settings())
    source = {**(options or {}), "stream": ",".join(about.streams)}
    streams = Streams(
        read_options({name.lower(): text for name, text in source.items()}, Use.BATCH).connection
    )
    try:
        version, commit = _pin(table, about, streams)
    finally:
        streams.close()
    landed = table.read(spark, version)
    if about.subject:
        source["subject"] = about.subject
    source["startingOffsets"] = json.dumps({name: commit.positions[name].next for name in about.streams})
    source |= early_option(Decoding.from_json(about.decoding) if about.decoding else None)
    messages = spark.read.format("nats").options(**source).load()
    return with_tail(landed, messages, about)


def landed_table(
    spark: SparkSession,
    directory: str,
    version: Version | None = None,
    *,
    settings: Settings | None = None,
) -> DataFrame:
    """The table in a directory, without its stream: the newest version, or that of a number or a time."""
    return open_table(spark, directory, settings or Settings()).read(spark, version)


def _description(spark: SparkSession, directory: str) -> Description:
    about = read_description(Files(spark, directory))
    if about is None:
        raise UsageError(f"there is no table in {directory}", hint="`headrace land` makes one")
    if not about.lands_messages:
        raise UsageError(
            f"the table in {directory} is the result of a query, which no stream completes",
            hint="read what has landed",
        )
    if about.format == "parquet":
        raise UsageError(
            f"the table in {directory} is plain Parquet, which does not know how complete it is",
            hint="`headrace table convert` makes a Delta table of it",
        )
    return about


def _pin(table: TableFormat, about: Description, streams: Streams) -> tuple[int, Commit]:
    """A version from whose positions the streams still continue."""
    for _ in range(MOST_TRIES):
        version = table.version()
        commit = table.latest() or Commit(query="", batch=-1)
        if table.version() != version:
            continue  # a batch was committed: these may be its positions
        positions = dict(commit.positions)
        removed = False
        for stream in about.streams:
            extent = streams.extent(stream)
            position = positions.setdefault(stream, StreamPosition(extent.first, extent.created))
            if position.created and extent.created and position.created != extent.created:
                raise UsageError(
                    f"the stream {stream} is not the one that the table in {table.directory} was made of: "
                    "it was created again",
                    hint="read what has landed",
                )
            if extent.first > position.next:
                # Messages after this version are gone from the stream: removed before they were landed, or
                # landed since. Only a newer version can tell.
                removed = True
                positions[stream] = StreamPosition(extent.first, position.created)
        if removed and table.version() != version:
            continue
        return version, Commit(commit.query, commit.batch, positions)
    raise UsageError(f"the table in {table.directory} changes faster than it can be read", hint="try again")


def with_tail(landed: DataFrame, messages: DataFrame, about: Description) -> DataFrame:
    """The rows of a table and those that its query would make of these messages."""
    made = {name: PARTITIONS[name] for name in about.partition_by if name in PARTITIONS}
    if not about.decoding:
        return landed.unionByName(_as_in(landed.schema, messages, made))
    from headrace.spark.payload.decode import decode, good_rows

    decoding = Decoding.from_json(about.decoding)
    decoded = decode(messages, decoding)
    if decoding.key:
        return _newest(landed, decoded, decoding, made)
    return landed.unionByName(_as_in(landed.schema, good_rows(decoded, decoding, _columns(made))))


def _newest(landed: DataFrame, decoded: DataFrame, decoding: Decoding, made: Mapping[str, str]) -> DataFrame:
    """The latest row of each key; a key that was deleted has none."""
    from pyspark.sql import Window, functions
    from pyspark.sql.types import BooleanType, StructField, StructType

    from headrace.spark.payload.decode import DELETED, good_rows

    both = decoded.withColumns({GONE: functions.col(DELETED), DELETED: functions.lit(False)})
    tail = good_rows(both, decoding, {**_columns(made), GONE: functions.col(GONE)})
    marked = StructType([*landed.schema, StructField(GONE, BooleanType())])
    rows = landed.withColumn(GONE, functions.lit(False)).unionByName(_as_in(marked, tail))
    newest = Window.partitionBy(*(f"`{name}`" for name in decoding.key)).orderBy(functions.desc("seq"))
    ranked = rows.withColumn(PLACE, functions.row_number().over(newest))
    return ranked.where(f"{PLACE} = 1 AND NOT {GONE}").select(*landed.columns)


def _columns(made: Mapping[str, str]) -> dict[str, Column]:
    from pyspark.sql import functions

    return {name: functions.expr(how) for name, how in made.items()}


def _as_in(schema: StructType, rows: DataFrame, made: Mapping[str, str] | None = None) -> DataFrame:
    """The columns of a table; those that current messages no longer have are null."""
    from pyspark.sql import functions

    rows = rows.withColumns(_columns(made or {}))
    columns = []
    for field in schema:
        known = field.name in rows.columns
        column = rows[f"`{field.name.replace('`', '``')}`"] if known else functions.lit(None)
        columns.append(column.cast(field.dataType).alias(field.name))
    return rows.select(columns)

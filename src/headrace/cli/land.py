"""`headrace land`: a Parquet table of a stream, kept up to date."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from headrace.cli.arguments import Seconds, Target, connection_options
from headrace.cli.follow import follow
from headrace.cli.output import plural, say

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

EPILOG = """\b
Examples:
  headrace land ORDERS --to tables/orders
  headrace land ORDERS --to tables/orders --once
  headrace land ORDERS --to s3a://lake/orders --every 60 --partition-by hour

When restarted with the same --to, it resumes where it stopped: every message is in the table once.
"""


@click.command(epilog=EPILOG, short_help="Land a stream in a Parquet table.")
@click.argument("stream", metavar="STREAM")
@click.option(
    "--to", "directory", required=True, metavar="DIR", help="Directory of the table, new or existing."
)
@connection_options
@click.option("--once", is_flag=True, help="Land what is in the stream now, then exit.")
@click.option(
    "--format", "shape", type=click.Choice(("parquet",)), default="parquet", help="Format of the files."
)
@click.option(
    "--partition-by",
    type=click.Choice(("day", "hour", "none")),
    default="day",
    help="Partition by the time at which messages were stored, in UTC. [default: day]",
)
@click.option("--text", is_flag=True, help="Store payloads as text instead of bytes.")
@click.option(
    "--start",
    default="earliest",
    metavar="WHERE",
    help="Where a new table starts: earliest, latest or a sequence. [default: earliest]",
)
@click.option(
    "--every",
    type=Seconds(min=0),
    default=10.0,
    metavar="SECONDS",
    help="Time between batches. [default: 10]",
)
@click.option(
    "--rows-per-batch",
    type=click.IntRange(min=1),
    default=1_000_000,
    metavar="N",
    help="Maximum messages per batch. [default: 1000000]",
)
@click.option(
    "--compact-after",
    type=click.IntRange(min=0),
    default=32,
    metavar="N",
    help="Merge the small files of a partition once it has N; 0: never. [default: 32]",
)
@click.option("--master", metavar="MASTER", help="Spark master. [default: local[*], this machine]")
def land(
    stream: str,
    directory: str,
    target: Target,
    once: bool,
    shape: str,
    partition_by: str,
    text: bool,
    start: str,
    every: float,
    rows_per_batch: int,
    compact_after: int,
    master: str | None,
) -> None:
    """Keep a table of a stream up to date until Ctrl-C or, with --once, until everything is landed."""
    from headrace.cli.spark_command import connected, source_options, spark_for_command
    from headrace.spark.land import SETTINGS, Landing, start_landing
    from headrace.spark.session import require_pyspark

    require_pyspark()
    first = int(start) if start.isascii() and start.isdecimal() else start
    if first == 0 or (isinstance(first, str) and first not in ("earliest", "latest")):
        raise click.UsageError("--start must be earliest, latest or a sequence of at least 1")
    with connected(target) as client:  # report errors before Spark starts
        end = client.stream_info(stream).last_seq + 1
    if isinstance(first, int) and first > end:
        raise click.UsageError(f"{stream} ends at {end - 1}: --start can be at most {end}, or latest")
    landing = Landing(
        stream=stream,
        directory=directory,
        options=source_options(target),
        partition_by=partition_by,
        text=text,
        start=first if isinstance(first, str) else json.dumps({stream: first}),
        rows_per_batch=rows_per_batch,
        compact_after=compact_after,
        every_seconds=every,
    )
    with spark_for_command(f"headrace land {stream}", master, SETTINGS) as spark:
        query = start_landing(spark, landing, once=once)

        def start_again(name: str) -> StreamingQuery:
            return start_landing(spark, landing, once=once)

        say(f"landing {stream} in {directory}" + ("" if once else "; Ctrl-C stops"))
        began = time.monotonic()
        progress = follow({stream: query}, start_again)[stream]
        seconds = time.monotonic() - began
        say(f"{plural(progress.rows, 'row')} landed in {seconds:.1f} s, {progress.lag:,} behind")

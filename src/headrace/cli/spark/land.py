"""`headrace land`: a table of a stream, kept up to date."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from headrace.cli.arguments import Seconds
from headrace.cli.default_group import DefaultGroup, NamelessCommand
from headrace.cli.output import plural, say
from headrace.cli.spark.follow import follow
from headrace.cli.spark.spark_command import (
    SHORT_SETTINGS,
    check_not_connect,
    connected,
    metrics_for_command,
    metrics_option,
    spark_for_command,
)
from headrace.cli.spark.table_options import (
    check_is_table,
    payload_options,
    settings_with,
    storage_option,
    table_settings,
)
from headrace.cli.target import Target, connection_options

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.spark.land import Landing
    from headrace.spark.payload.wanted import Payload
    from headrace.spark.table.interface import Settings

EPILOG = """\b
Examples:
  headrace land ORDERS --to tables/orders
  headrace land ORDERS --to tables/orders --once
  headrace land ORDERS --infer
  headrace land ORDERS --to tables/orders --schema 'id BIGINT, amount DOUBLE' --subject 'orders.{country}'
  headrace land ORDERS --to s3a://lake/orders --every 60 --partition-by hour
  headrace land retry tables/orders

When restarted with the same --to, it resumes where it stopped: every message is in the table once.
"""


SAMPLE_MESSAGES = 1000


class LandGroup(DefaultGroup):
    """A stream may be called `retry`, too: it needs --to or --infer, which `land retry` does not have."""

    def names_command(self, args: list[str]) -> bool:
        of_stream = any(argument in ("--to", "--infer") or argument.startswith("--to=") for argument in args)
        return super().names_command(args) and not of_stream


@click.group(cls=LandGroup, short_help="Land a stream in a table.")
def land() -> None:
    """Keep a table of a stream up to date."""


@land.command(cls=NamelessCommand, hidden=True, epilog=EPILOG)
@click.argument("stream", metavar="STREAM")
@click.option("--to", "directory", metavar="DIR", help="Directory of the table, new or existing.")
@connection_options
@click.option(
    "--infer", is_flag=True, help="Print a schema that the stream's JSON messages fit, and land nothing."
)
@click.option("--once", is_flag=True, help="Land what is in the stream now, then exit.")
@table_settings
@payload_options
@click.option(
    "--partition-by",
    default="",
    metavar="WHAT",
    help="day or hour at which messages were stored, in UTC, none, or the name of a column. "
    "[default: as the table is; day for a new one]",
)
@click.option(
    "--on-bad-row",
    default="dead-letter",
    metavar="WHAT",
    help="What to do with a message that does not fit: dead-letter, fail or stream:NAME. "
    "[default: dead-letter]",
)
@click.option(
    "--on-data-loss",
    type=click.Choice(["fail", "continue"]),
    default="fail",
    help="What to do if messages have left the stream before they landed: fail, or continue with what is "
    "left. [default: fail]",
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
    help="Merge the small files of a partition when it has N; 0: never. [default: 32]",
)
@click.option("--master", metavar="MASTER", help="Spark master. [default: local[*], this machine]")
@metrics_option
def run(
    stream: str,
    directory: str | None,
    target: Target,
    infer: bool,
    once: bool,
    settings: Settings,
    payload: Payload,
    partition_by: str,
    on_bad_row: str,
    on_data_loss: str,
    text: bool,
    start: str,
    every: float,
    rows_per_batch: int,
    compact_after: int,
    master: str | None,
    metrics_at: tuple[str, int] | None,
) -> None:
    """Keep a table of a stream up to date until Ctrl-C or, with --once, until everything is landed."""
    from headrace.spark.session import require_pyspark

    require_pyspark()  # errors are reported before Spark starts
    check_not_connect(master)
    if infer:
        _propose_schema(target, stream)
        return
    if directory is None:
        raise click.UsageError("--to is missing: the directory of the table")
    from headrace.cli.spark.source_options import source_options
    from headrace.spark.land import Landing
    from headrace.spark.table.dead_letters import check_on_bad_row

    landing = Landing(
        stream=stream,
        directory=directory,
        options=source_options(target),
        partition_by=partition_by,
        text=text,
        start=_checked_start(target, stream, start, on_bad_row),
        rows_per_batch=rows_per_batch,
        compact_after=compact_after,
        every_seconds=every,
        settings=settings,
        decoding=payload.decoding(),
        on_bad_row=check_on_bad_row(on_bad_row),
        fail_on_data_loss=on_data_loss == "fail",
    )
    if text and landing.decoding is not None:
        raise click.UsageError("--text is for payloads as they are: use --payload text instead")
    _land(landing, master, metrics_at, once=once)


def _checked_start(target: Target, stream: str, start: str, on_bad_row: str) -> str:
    """As the data source takes it. Also finds out whether there are such streams."""
    first = int(start) if start.isascii() and start.isdecimal() else start
    if first == 0 or (isinstance(first, str) and first not in ("earliest", "latest")):
        raise click.UsageError("--start must be earliest, latest or a sequence of at least 1")
    with connected(target) as client:
        end = client.stream_info(stream).last_seq + 1
        if on_bad_row.startswith("stream:"):
            client.stream_info(on_bad_row.removeprefix("stream:"))
    if isinstance(first, int) and first > end:
        raise click.UsageError(f"{stream} ends at {end - 1}: --start can be at most {end}, or latest")
    return first if isinstance(first, str) else json.dumps({stream: first})


def _propose_schema(target: Target, stream: str) -> None:
    """From the newest messages; they say most about those to come."""
    from headrace.spark.payload.inference import infer

    with connected(target) as client:
        last = client.stream_info(stream).last_seq
        first = max(1, last - SAMPLE_MESSAGES + 1)
        batches = client.fetch_range(stream, first, last, headers=False) if last else ()
        payloads = [payload for batch in batches for payload in batch.column("data").to_pylist()]
    for line in infer(payloads).lines():
        click.echo(line)


def _land(landing: Landing, master: str | None, metrics_at: tuple[str, int] | None, *, once: bool) -> None:
    from headrace.spark.land import SETTINGS, start_landing
    from headrace.spark.landing_report import LandingReporter
    from headrace.spark.progress import Tally

    stream = landing.stream
    settings = SETTINGS | (SHORT_SETTINGS if once else {})
    tally = Tally()
    with (
        metrics_for_command(metrics_at) as metrics,
        spark_for_command(f"headrace land {stream}", master, settings, kind="stream") as spark,
        LandingReporter(landing.options) as reporter,
    ):

        def start_query(name: str) -> StreamingQuery:
            return start_landing(spark, landing, once=once, say=say, tally=tally, reporter=reporter)

        started = {stream: start_query(stream)}
        say(f"landing {stream} in {landing.directory}" + ("" if once else "; Ctrl-C stops"))
        began = time.monotonic()
        progress = follow(started, start_query, tallies={stream: tally}, metrics=metrics)[stream]
        say(progress.summary("landed", seconds=time.monotonic() - began))


@land.command(epilog=EPILOG)
@click.argument("directory", metavar="DIR")
@storage_option
@click.option("--master", metavar="MASTER", help="Spark master. [default: local[*], this machine]")
def retry(directory: str, storage: dict[str, str], master: str | None) -> None:
    """Land the dead letters of a table again.

    Correct its schema first.
    """
    from headrace.spark.session import require_pyspark
    from headrace.spark.table.dead_letter_retry import Retry

    require_pyspark()
    check_is_table(directory)
    with spark_for_command("headrace land retry", master, SHORT_SETTINGS) as spark:
        result = Retry(spark, directory, settings_with(storage)).run()
    click.echo(f"{plural(result.landed, 'dead letter')} landed, {result.left:,} left")

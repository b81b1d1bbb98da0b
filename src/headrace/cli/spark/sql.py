"""`headrace sql`: Spark SQL over the streams of a server."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.spark.table_options import storage_option
from headrace.cli.target import Target, connection_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.spark.table_views import NamedTable

EPILOG = """\b
Examples:
  headrace sql 'SELECT count(*) FROM ORDERS'
  headrace sql "SELECT subject, string(data) FROM ORDERS WHERE seq > 1000 LIMIT 5"
  headrace sql "SELECT get_json_object(string(data), '$.country') AS country, count(*) FROM ORDERS GROUP BY 1"
  headrace sql --format csv 'SELECT seq, timestamp FROM ORDERS' > orders.csv
  headrace sql --tables lake 'SELECT country, sum(amount) FROM orders GROUP BY country'
  headrace sql --tables lake --as-of orders=2026-11-16T12:00:00Z 'SELECT count(*) FROM orders'
  headrace sql --tables lake 'DESCRIBE HISTORY orders'

Every stream is a table with the columns subject, data, headers, stream, seq and timestamp. With --tables,
every table in DIR is one, too, complete to this second: what its stream has had since is added. As
orders_landed it has what has landed, and no server is asked; orders_dead_letters are the messages that did
not fit. A stream that is called like a table is ORDERS_stream.
"""

_WRITES = re.compile(r"\s*(?:insert|update|delete|merge|drop|alter|truncate)\b", re.IGNORECASE)


@click.command(epilog=EPILOG, short_help="Query streams and tables with Spark SQL.")
@click.argument("query", metavar="QUERY")
@connection_options
@click.option(
    "--tables",
    "directories",
    multiple=True,
    metavar="DIR",
    help="A table, or a directory of tables; repeatable.",
)
@click.option(
    "--as-of",
    multiple=True,
    metavar="TABLE=VERSION",
    help="Read an older version of a table, or TABLE=TIME; repeatable.",
)
@click.option(
    "--format",
    "shape",
    type=click.Choice(("table", "csv", "json")),
    default="table",
    help="Output format. [default: table]",
)
@storage_option
@click.option("--master", metavar="MASTER", help="Spark master. [default: local[*], this machine]")
def sql(
    query: str,
    target: Target,
    directories: tuple[str, ...],
    as_of: tuple[str, ...],
    shape: str,
    storage: dict[str, str],
    master: str | None,
) -> None:
    """Run a SQL query over the streams of a server and over tables, and print its rows."""
    from headrace.cli.spark.source_options import source_options
    from headrace.cli.spark.spark_command import SHORT_SETTINGS, spark_for_command
    from headrace.spark.failure import SparkError
    from headrace.spark.session import require_pyspark
    from headrace.spark.table_views import find_tables, history_of, names_of
    from headrace.spark.views import check_tables, list_of, make_views, read_by, streams_in

    require_pyspark()
    if as_of and not directories:
        raise click.UsageError("--as-of needs --tables: streams have no versions")
    if (name := history_of(query)) and not directories:
        raise click.UsageError(f"DESCRIBE HISTORY {name} needs --tables DIR, the directory of the table")
    streams: list[str] = []
    tables: list[NamedTable] = []
    if not directories:
        streams = _streams_of(target)
        check_tables(query, streams)
    try:
        with spark_for_command("headrace sql", master, SHORT_SETTINGS) as spark:
            if directories:
                tables = find_tables(spark, directories)
                rows = _query_tables(spark, query, target, tables, as_of, storage)
            else:
                make_views(spark, streams_in(read_by(spark, query), streams), source_options(target))
                rows = spark.sql(query)
            for line in WRITERS[shape](rows):
                click.echo(line)
    except SparkError as error:
        if str(error).startswith("[TABLE_OR_VIEW_NOT_FOUND]"):
            error.hint = names_of(tables) if directories else list_of(streams)
            if _WRITES.match(query):
                error.hint = (
                    "`headrace sql` only reads; `headrace land` writes tables, `headrace pub` streams"
                )
        raise


def _streams_of(target: Target) -> list[str]:
    from headrace.cli.spark.spark_command import connected

    with connected(target) as client:
        return client.stream_names()


def _query_tables(
    spark: SparkSession,
    query: str,
    target: Target,
    tables: list[NamedTable],
    as_of: tuple[str, ...],
    storage: Mapping[str, str],
) -> DataFrame:
    """The server is asked only if the query needs a stream: to complete a table, or under its own name."""
    from headrace.cli.spark.source_options import source_options
    from headrace.client.errors import ConnectionFailed
    from headrace.spark.table.interface import Settings
    from headrace.spark.table_views import (
        history,
        history_of,
        make_table_views,
        names_of,
        needs_streams,
        parse_as_of,
        view_names,
    )
    from headrace.spark.views import make_views, read_by, streams_in

    settings = Settings(storage_options=storage)
    if name := history_of(query):
        return history(spark, name, tables, settings)
    versions = parse_as_of(as_of, tables)
    options = source_options(target)
    sources = read_by(spark, query)
    if needs_streams(sources, tables, versions):
        taken = view_names(tables)
        try:
            streams = _streams_of(target)
        except ConnectionFailed as error:
            others = sorted((sources.names or frozenset()) - {name.lower() for name in taken})
            error.hint = (
                f"{others[0]} would be a stream: {names_of(tables)}"
                if others
                else f"{error.hint}; a table's name with _landed behind it has what has landed, offline"
            )
            raise
        make_views(spark, streams_in(sources, streams, taken), options, taken)
    make_table_views(spark, sources, tables, options, versions, settings)
    return spark.sql(query)


def lines_of_table(rows: DataFrame) -> Iterator[str]:
    """Aligned columns; all rows are needed to know how wide they are."""
    cells = [[_shown(value) for value in row] for row in rows.collect()]
    widths = [max(map(len, column)) for column in zip(rows.columns, *cells, strict=True)]
    for line in rows.columns, ["-" * width for width in widths], *cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def lines_of_csv(rows: DataFrame) -> Iterator[str]:
    import csv
    import io

    def line(cells: list[str]) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow(cells)
        return text.getvalue()

    yield line(list(rows.columns))
    for row in rows.toLocalIterator():
        yield line([_plain(value) for value in row])


def lines_of_json(rows: DataFrame) -> Iterator[str]:
    import json

    for row in rows.toLocalIterator():
        yield json.dumps(row.asDict(recursive=True), default=_plain, ensure_ascii=False)


WRITERS: dict[str, Any] = {"table": lines_of_table, "csv": lines_of_csv, "json": lines_of_json}


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode(errors="backslashreplace")
    return str(value)


def _shown(value: Any) -> str:
    from headrace.cli.output import one_line

    return "NULL" if value is None else one_line(_plain(value))

"""`headrace sql`: Spark SQL over the streams of a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.arguments import Target, connection_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EPILOG = """\b
Examples:
  headrace sql 'SELECT count(*) FROM ORDERS'
  headrace sql "SELECT subject, string(data) FROM ORDERS WHERE seq > 1000 LIMIT 5"
  headrace sql "SELECT get_json_object(string(data), '$.country') AS country, count(*) FROM ORDERS GROUP BY 1"
  headrace sql --format csv 'SELECT seq, timestamp FROM ORDERS' > orders.csv

Every stream is a table with the columns subject, data, headers, stream, seq and timestamp.
"""


@click.command(epilog=EPILOG, short_help="Query streams with Spark SQL.")
@click.argument("query", metavar="QUERY")
@connection_options
@click.option(
    "--format",
    "shape",
    type=click.Choice(("table", "csv", "json")),
    default="table",
    help="Output format. [default: table]",
)
@click.option("--master", metavar="MASTER", help="Spark master. [default: local[*], this machine]")
def sql(query: str, target: Target, shape: str, master: str | None) -> None:
    """Run a SQL query over the streams of a server, each of which is a table, and print its rows."""
    from headrace.cli.spark_command import SHORT_SETTINGS, connected, source_options, spark_for_command
    from headrace.spark.failure import SparkError
    from headrace.spark.session import require_pyspark
    from headrace.spark.views import check_tables, list_of, make_views, streams_in

    require_pyspark()
    with connected(target) as client:
        streams = client.stream_names()
    check_tables(query, streams)
    try:
        with spark_for_command("headrace sql", master, SHORT_SETTINGS) as spark:
            make_views(spark, streams_in(query, streams), source_options(target))
            for line in WRITERS[shape](spark.sql(query)):
                click.echo(line)
    except SparkError as error:
        if str(error).startswith("[TABLE_OR_VIEW_NOT_FOUND]"):
            error.hint = list_of(streams)
        raise


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

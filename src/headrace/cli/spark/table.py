"""`headrace table`: the history of a table, its files, and maintenance on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.cli.arguments import Seconds
from headrace.cli.output import plural
from headrace.cli.spark.table_options import check_is_table, settings_with, storage_option

if TYPE_CHECKING:
    from headrace.spark.table.interface import Commit, TableFormat

EPILOG = """\b
Examples:
  headrace table history tables/orders
  headrace table files tables/orders
  headrace table compact tables/orders
  headrace table expire tables/orders --older-than 86400
  headrace table convert tables/old-orders
"""
WEEK_SECONDS = 7 * 24 * 3600.0
HOUR_SECONDS = 3600.0

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group(short_help="History and maintenance of tables.", epilog=EPILOG)
def table() -> None:
    """Show and maintain the tables that `headrace land` and pipelines write."""


def table_arguments(command: Command) -> Command:
    """Adds DIR, --storage-option and --master."""
    decorators = (
        click.argument("directory", metavar="DIR"),
        storage_option,
        click.option("--master", metavar="MASTER", help="Spark master. [default: local[*], this machine]"),
    )
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


@table.command(epilog=EPILOG)
@table_arguments
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Print only the newest N versions.")
def history(directory: str, storage: dict[str, str], master: str | None, limit: int | None) -> None:
    """Print the versions of a table, the newest first.

    They say which batch wrote what.
    """
    from headrace.spark.table.interface import RETRY

    with _opened(directory, storage, master) as found:
        versions = found.versions()
    figures = "batch", "rows", "deletions", "dead letters"
    lines = [("version", "time (UTC)", "operation", *figures, "complete up to")]
    for info in versions[:limit]:
        when = f"{info.time:%Y-%m-%d %H:%M:%S}"
        is_retry = info.commit is not None and info.commit.query == RETRY
        operation = RETRY if is_retry else info.operation.lower()
        lines.append((str(info.version), when, operation, *_cells(info.commit)))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _cells(commit: Commit | None) -> tuple[str, str, str, str, str]:
    if commit is None:
        return "", "", "", "", ""
    ends = ", ".join(f"{stream} {position.next - 1}" for stream, position in commit.positions.items())
    figures = commit.batch, commit.rows, commit.deletions, commit.dead_letters
    batch, rows, deletions, dead_letters = map(str, figures)
    return batch, rows, deletions, dead_letters, ends


@table.command(epilog=EPILOG)
@table_arguments
def files(directory: str, storage: dict[str, str], master: str | None) -> None:
    """Print the files of the newest version of a table.

    For programs that read Parquet only.
    """
    with _opened(directory, storage, master) as found:
        for file in found.files():
            click.echo(f"{found.directory}/{file.path}")


@table.command(epilog=EPILOG)
@table_arguments
def compact(directory: str, storage: dict[str, str], master: str | None) -> None:
    """Merge the small files of a table. A query may be writing to it."""
    with _opened(directory, storage, master) as found:
        result = found.compact()
    click.echo(f"{plural(result.removed, 'file')} replaced by {result.added:,}")


@table.command(epilog=EPILOG)
@table_arguments
@click.option(
    "--older-than",
    type=Seconds(min=HOUR_SECONDS),
    default=WEEK_SECONDS,
    metavar="SECONDS",
    help="Keep what was part of the table in this time, at least an hour. [default: 604800, a week]",
)
def expire(directory: str, storage: dict[str, str], master: str | None, older_than: float) -> None:
    """Delete old versions of a table, and files that no version needs."""
    with _opened(directory, storage, master) as found:
        result = found.expire(older_than)
        orphans = found.remove_orphans(older_than)
    text = f"{plural(result.files, 'file')} of old versions and {plural(orphans, 'orphan')} deleted"
    click.echo(text)


@table.command(epilog=EPILOG)
@table_arguments
@click.option(
    "--checkpoint", default="", metavar="DIR", help="Of the pipeline's sink that writes it; not for `land`."
)
def convert(directory: str, storage: dict[str, str], master: str | None, checkpoint: str) -> None:
    """Turn a plain Parquet table into a Delta table, in place. Stop its query first."""
    from headrace.cli.spark.spark_command import SHORT_SETTINGS, spark_for_command
    from headrace.spark.session import require_pyspark
    from headrace.spark.table.convert import convert_to_delta

    require_pyspark()
    check_is_table(directory)
    with spark_for_command("headrace table", master, SHORT_SETTINGS) as spark:
        count = convert_to_delta(spark, directory, storage, checkpoint)
    click.echo(f"{directory} is a Delta table now, with {plural(count, 'file')}; its query can continue")


@contextmanager
def _opened(directory: str, storage: dict[str, str], master: str | None) -> Iterator[TableFormat]:
    from headrace.cli.spark.spark_command import SHORT_SETTINGS, spark_for_command
    from headrace.spark.session import require_pyspark
    from headrace.spark.table.opening import open_table

    require_pyspark()
    check_is_table(directory)
    with spark_for_command("headrace table", master, SHORT_SETTINGS) as spark:
        yield open_table(spark, directory, settings_with(storage))

"""Tables as views, for the SQL of `headrace sql`: each under the name of its directory.

orders                 the table brought up to date from its stream, if it lands one
orders_landed          what has landed, which needs no server
orders_dead_letters    messages that did not fit
ORDERS_stream          the stream, if the table has its name: Spark ignores case
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.errors import UsageError
from headrace.spark.live import live_table
from headrace.spark.table.description import read_description
from headrace.spark.table.files import Files
from headrace.spark.table.interface import Settings, Version
from headrace.spark.table.layout import DEAD_LETTERS, DESCRIPTION
from headrace.spark.table.opening import open_table
from headrace.spark.views import Sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LANDED = "_landed"
DEAD = "_dead_letters"
MOST_DIGITS = 19
"""The largest version, which may be the number of an Iceberg snapshot: 64 bits."""
_HISTORY = re.compile(r"\s*desc(?:ribe)?\s+history\s+(?:`([^`]+)`|([^\s`;]+))\s*;?\s*", re.IGNORECASE)
HISTORY_COLUMNS = (
    "version BIGINT, time TIMESTAMP, operation STRING, query STRING, batch BIGINT, rows BIGINT, "
    "deletions BIGINT, dead_letters BIGINT, complete_before MAP<STRING, BIGINT>"
)


@dataclass(frozen=True)
class NamedTable:
    name: str
    directory: str
    completable: bool
    """Whether later messages of its streams complete it."""


def find_tables(spark: SparkSession, directories: Iterable[str]) -> list[NamedTable]:
    """The tables in these directories: each is a table itself, or has tables directly below it."""
    found = []
    for directory in directories:
        files = Files(spark, directory)
        places = [""] if files.exists(DESCRIPTION) else files.directories()
        tables = [table for place in places if (table := _table(spark, files.root, place))]
        if not tables:
            raise UsageError(f"there is no table in {directory}", hint="`headrace land` makes one")
        found += tables
    names: dict[str, NamedTable] = {}
    for table in found:
        other = names.setdefault(table.name.lower(), table)
        if other is not table:
            raise UsageError(
                f"{other.directory} and {table.directory} have the same name",
                hint="query one of them at a time",
            )
    return found


def _table(spark: SparkSession, root: str, place: str) -> NamedTable | None:
    directory = f"{root}/{place}" if place else root
    about = read_description(Files(spark, directory))
    if about is None:
        return None
    completable = about.lands_messages and bool(about.streams) and about.format != "parquet"
    return NamedTable(directory.rpartition("/")[2], directory, completable)


def view_names(tables: Iterable[NamedTable]) -> list[str]:
    return [table.name + ending for table in tables for ending in ("", LANDED, DEAD)]


def needs_streams(sources: Sources, tables: Iterable[NamedTable], as_of: Mapping[str, Version]) -> bool:
    """Whether a query reads a stream, or a table that one completes."""
    tables = list(tables)
    known = {name.lower() for name in view_names(tables)}
    live = [table for table in tables if table.completable and table.name not in as_of]
    if sources.names is None or sources.names - known:
        return True
    return any(sources.include(table.name) for table in live)


def make_table_views(
    spark: SparkSession,
    sources: Sources,
    tables: Iterable[NamedTable],
    options: Mapping[str, str],
    as_of: Mapping[str, Version],
    settings: Settings,
) -> None:
    """A view of each table that a query reads."""
    for table in tables:
        landed = table.name + LANDED
        if sources.include(landed):
            open_table(spark, table.directory, settings).read(spark).createOrReplaceTempView(_quoted(landed))
        dead = table.name + DEAD
        if sources.include(dead):
            _dead_letters(spark, table, settings).createOrReplaceTempView(_quoted(dead))
        if not sources.include(table.name):
            continue
        if table.name in as_of:
            rows = open_table(spark, table.directory, settings).read(spark, as_of[table.name])
        elif table.completable:
            rows = live_table(spark, table.directory, options, settings=settings)
        else:
            rows = open_table(spark, table.directory, settings).read(spark)
        rows.createOrReplaceTempView(_quoted(table.name))


def _dead_letters(spark: SparkSession, table: NamedTable, settings: Settings) -> DataFrame:
    """None if there is no such table: it is created with the first one."""
    from headrace.spark.payload.decode import DEAD_LETTER_COLUMNS

    directory = f"{table.directory}/{DEAD_LETTERS}"
    if read_description(Files(spark, directory)) is None:
        return spark.createDataFrame([], DEAD_LETTER_COLUMNS)
    return open_table(spark, directory, settings).read(spark)


def parse_as_of(texts: Iterable[str], tables: Iterable[NamedTable]) -> dict[str, Version]:
    """`orders=42` or `orders=2026-11-16T12:00:00Z`: a version, or the newest one at a time."""
    tables = list(tables)
    names = {table.name for table in tables}
    found: dict[str, Version] = {}
    for text in texts:
        name, equals, version = text.partition("=")
        if not equals or not version:
            raise UsageError(f"--as-of {text} has no version", hint="write --as-of orders=42, or a time")
        if name not in names:
            raise UsageError(f"--as-of {text}: there is no table {name}", hint=names_of(tables))
        found[name] = _version(version)
    return found


def _version(text: str) -> Version:
    if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS:
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text} is neither a version nor a time",
            hint="a version is a number, a time 2026-11-16T12:00:00Z",
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def history_of(query: str) -> str:
    """The table of DESCRIBE HISTORY, which Spark cannot answer for our tables; empty for any other query."""
    match = _HISTORY.fullmatch(query)
    return match[1] or match[2] if match else ""


def history(spark: SparkSession, name: str, tables: Iterable[NamedTable], settings: Settings) -> DataFrame:
    named = {table.name.lower(): table for table in tables}
    if name.lower() not in named:
        raise UsageError(f"there is no table {name}", hint=names_of(named.values()))
    table = open_table(spark, named[name.lower()].directory, settings)
    rows = []
    for info in table.versions():
        commit = info.commit
        figures: tuple[str | int | None, ...] = (None,) * 5
        if commit:
            figures = commit.query, commit.batch, commit.rows, commit.deletions, commit.dead_letters
        positions = (
            {stream: position.next for stream, position in commit.positions.items()} if commit else None
        )
        rows.append((info.version, info.time, info.operation, *figures, positions))
    return spark.createDataFrame(rows, HISTORY_COLUMNS)


def names_of(tables: Iterable[NamedTable]) -> str:
    """Suggestions for a misspelled name."""
    names = sorted(table.name for table in tables)
    return f"the tables are {', '.join(names)}" if names else "--tables DIR says where tables are"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"

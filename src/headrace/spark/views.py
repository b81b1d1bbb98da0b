"""Streams as views, for the SQL of `headrace sql` and pipelines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from headrace.spark.failure import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_NAMES = 20
STREAM = "_stream"
_LITERALS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_DEFINED = re.compile(r"(\w+)\s*(?:\([^()]*\)\s*)?\bas\s*\(", re.IGNORECASE)
_NO_NAME = r"(?!(?:join|inner|left|right|full|cross|natural|semi|anti|lateral|where|from|select|union)\b)"
_ITEM = rf"{_NO_NAME}(?:`[^`]+`|[A-Za-z_][\w.-]*)(?:\s*\([^()]*\))?(?:\s+{_NO_NAME}(?:as\s+)?\w+)?"
_LISTS = re.compile(rf"\b(?:from|join)\s+({_ITEM}(?:\s*,\s*{_ITEM})*)", re.IGNORECASE)
# A name with a dot is a table of a catalog, one with a parenthesis a function: Spark handles those.
_TABLES = re.compile(r"(?:^|,)\s*(?:`([^`]+)`|([A-Za-z_]\w*))(?![\w-]*\s*[.(])(?![\w`-])")


def streams_in(query: str, streams: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """The streams whose names, or those that `view_name` gives them, occur in a query.

    Every view costs Spark a call to a Python process, and a server may have thousands of streams. A statement
    about the catalog, such as SHOW VIEWS, gets all.
    """
    if re.match(r"\s*show\b", query, re.IGNORECASE):
        return list(streams)
    return [stream for stream in streams if mentions(query, view_name(stream, taken))]


def view_name(stream: str, taken: Iterable[str]) -> str:
    """A name that is `taken` gets `_stream` behind it; Spark knows no upper and lower case."""
    return f"{stream}{STREAM}" if stream.lower() in {name.lower() for name in taken} else stream


def mentions(query: str, name: str) -> bool:
    """Whether a name occurs in a query; perhaps only its words do, but none that does occur is missed."""
    return set(re.findall(r"[\w-]+", name.lower())) <= set(re.findall(r"[\w-]+", query.lower()))


def check_tables(query: str, streams: Iterable[str]) -> None:
    """Raises SparkError early, without starting Spark, if no table that a query reads from exists.

    Only if that is certain without a parser: no stream is mentioned at all, nor a table that the query itself
    defines. Spark refuses the rest.
    """
    text = _LITERALS.sub(" ", query)
    if not re.match(r"\s*(select|with|from)\b", text, re.IGNORECASE) or streams_in(query, streams):
        return
    tables = tables_in(query)
    defined = {name.lower() for name in _DEFINED.findall(text)}
    if tables and not defined.intersection(name.lower() for name in tables):
        raise SparkError(f"stream {tables[0]!r} does not exist", hint=list_of(streams))


def tables_in(query: str) -> list[str]:
    """The names that a query reads from, without those of other catalogs and of functions."""
    lists = _LISTS.findall(_LITERALS.sub(" ", query))
    return [quoted or plain for each in lists for quoted, plain in _TABLES.findall(each)]


def list_of(streams: Iterable[str]) -> str:
    """For a misspelled name."""
    names = sorted(streams)
    more = ", …" if len(names) > MOST_NAMES else ""
    return f"the streams are {', '.join(names[:MOST_NAMES])}{more}" if names else "the server has no streams"


def make_views(
    spark: SparkSession, streams: Iterable[str], options: Mapping[str, str], taken: Iterable[str] = ()
) -> None:
    """A temporary view of each stream, by its `view_name`, as it is when a query runs."""
    for stream in streams:
        reader = spark.read.format("nats").options(**options).option("stream", stream)
        quoted = f"`{view_name(stream, taken).replace('`', '``')}`"
        reader.option("filterPushdown", "true").load().createOrReplaceTempView(quoted)

"""Streams as views, for the SQL of `headrace sql` and pipelines; and which names a query reads from.

Spark's own parser says which (`read_by`). Before Spark runs there is no parser: if nothing in a query exists,
that is then found from its words (`check_tables`), if they leave no doubt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.spark.failure import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_NAMES = 20
STREAM = "_stream"
_LITERALS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_SHOW = re.compile(r"\s*show\b", re.IGNORECASE)
_DEFINED = re.compile(r"(\w+)\s*(?:\([^()]*\)\s*)?\bas\s*\(", re.IGNORECASE)
_NO_NAME = r"(?!(?:join|inner|left|right|full|cross|natural|semi|anti|lateral|where|from|select|union)\b)"
_ITEM = rf"{_NO_NAME}(?:`[^`]+`|[A-Za-z_][\w.-]*)(?:\s*\([^()]*\))?(?:\s+{_NO_NAME}(?:as\s+)?\w+)?"
_LISTS = re.compile(rf"\b(?:from|join)\s+({_ITEM}(?:\s*,\s*{_ITEM})*)", re.IGNORECASE)
# A name with a dot is a table of a catalog, one with a parenthesis a function: Spark handles those.
_TABLES = re.compile(r"(?:^|,)\s*(?:`([^`]+)`|([A-Za-z_]\w*))(?![\w-]*\s*[.(])(?![\w`-])")

# In Spark's plans, before names are resolved: what has a name, what hides a plan, and what has no name.
_NAMED = {"UnresolvedRelation", "UnresolvedTableOrView", "UnresolvedTable", "UnresolvedView"}
_HIDING = {"ExplainCommand": "logicalPlan", "DescribeQueryCommand": "plan", "RelationTimeTravel": "relation"}
_NAMELESS = {
    "OneRowRelation",
    "UnresolvedTableValuedFunction",
    "UnresolvedInlineTable",
    "ResolvedInlineTable",
    "LocalRelation",
    "UnresolvedIdentifier",
}


@dataclass(frozen=True)
class Sources:
    """What a query reads from: `names`, in lower case, or, if those are not known, possibly any of its words.

    Not in `names`: tables of other catalogs, functions, and what the query defines itself. A statement about
    the catalog, such as SHOW VIEWS, has no names, and reads from everything.
    """

    query: str
    names: frozenset[str] | None = None

    def include(self, name: str) -> bool:
        if self.names is not None:
            return name.lower() in self.names
        return bool(_SHOW.match(self.query)) or mentions(self.query, name)


def read_by(spark: SparkSession, query: str) -> Sources:
    """As Spark parses it. A query that it does not understand reads from nothing: Spark will say why."""
    from pyspark.errors import PySparkException

    session: Any = spark._jsparkSession
    try:
        plan = session.sessionState().sqlParser().parsePlan(query)
    except PySparkException:
        return Sources(query, frozenset())
    try:
        return Sources(query, frozenset(_free_names(plan, frozenset())))
    except _Unknown:
        return Sources(query)


class _Unknown(Exception):
    """A statement in which names may be hidden."""


def _free_names(plan: Any, defined: frozenset[str]) -> Iterator[str]:
    """The names in a plan, except those that a WITH around them defines."""
    kind = plan.getClass().getSimpleName().removesuffix("$")
    if kind in _NAMED:
        parts = _items(plan.multipartIdentifier())
        if len(parts) == 1 and parts[0].lower() not in defined:
            yield parts[0].lower()
        return
    children = _items(plan.children())
    if kind in _HIDING:
        children.append(getattr(plan, _HIDING[kind])())
    elif not children and kind not in _NAMELESS:
        raise _Unknown
    if kind == "UnresolvedWith":
        for relation in _items(plan.cteRelations()):
            # A definition sees those before it; its own name means a table, unless it is recursive.
            name = {relation._1().lower()}
            yield from _free_names(relation._2(), defined | name if plan.allowRecursion() else defined)
            defined |= name
    for inner in children + _items(plan.subqueries()):
        yield from _free_names(inner, defined)


def _items(sequence: Any) -> list[Any]:
    """The items of a Scala sequence."""
    return [sequence.apply(place) for place in range(sequence.size())]


def streams_in(sources: Sources, streams: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """The streams that a query reads, by their names, or by those that `view_name` gives them.

    Every view costs Spark a call to a Python process, and a server may have thousands of streams.
    """
    return [stream for stream in streams if sources.include(view_name(stream, taken))]


def view_name(stream: str, taken: Iterable[str]) -> str:
    """A name that is `taken` gets the suffix `_stream`; Spark ignores case."""
    return f"{stream}{STREAM}" if stream.lower() in {name.lower() for name in taken} else stream


def mentions(query: str, name: str) -> bool:
    """Whether a name occurs in a query; maybe only its words do, but no name that occurs is missed."""
    return set(re.findall(r"[\w-]+", name.lower())) <= set(re.findall(r"[\w-]+", query.lower()))


def check_tables(query: str, streams: Iterable[str]) -> None:
    """Raises SparkError early, without starting Spark, if no table that a query reads from exists.

    Only if that is certain without a parser: no stream is mentioned at all, nor a table that the query itself
    defines. Spark refuses the rest.
    """
    text = _LITERALS.sub(" ", query)
    if not re.match(r"\s*(select|with|from)\b", text, re.IGNORECASE) or streams_in(Sources(query), streams):
        return
    tables = tables_in(query)
    defined = {name.lower() for name in _DEFINED.findall(text)}
    if tables and not defined.intersection(name.lower() for name in tables):
        raise SparkError(f"stream {tables[0]!r} does not exist", hint=list_of(streams))


def tables_in(query: str) -> list[str]:
    """The names that a query reads from, as far as its words tell."""
    lists = _LISTS.findall(_LITERALS.sub(" ", query))
    return [quoted or plain for each in lists for quoted, plain in _TABLES.findall(each)]


def list_of(streams: Iterable[str]) -> str:
    """Suggestions for a misspelled name."""
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

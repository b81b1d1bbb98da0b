"""Columns from the tokens of a subject: `orders.{country}.{kind}`.

A token in braces is a column; `*` matches one token that is not kept; `{rest...}`, at the end, is the rest of
the subject with its dots, as the keys of a key-value bucket need it; `>` matches the rest and drops it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import StringType, StructField

from headrace.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column

EXAMPLE = "write it like 'orders.{country}.{kind}' or '$KV.BUCKET.{key...}'"

_COLUMN = re.compile(r"\{(\w+)(\.\.\.)?\}")
# The dots of `{rest...}` do not separate tokens.
_TOKEN = re.compile(r"(?:\{[^}]*\}|[^.])*")


@dataclass(frozen=True)
class Pattern:
    """What each token must be, and which become columns."""

    literals: dict[int, str]
    columns: dict[str, int]
    tokens: int
    """How many tokens; with `rest` at the end, at least this many."""
    rest: bool

    def match(self, subject: str) -> dict[str, str] | None:
        """The columns of a subject, or None if its form is different. `extracted` does the same in Spark."""
        tokens = subject.split(".", self.tokens - 1 if self.rest else -1)
        if len(tokens) != self.tokens or any(tokens[place] != text for place, text in self.literals.items()):
            return None
        return {name: tokens[place] for name, place in self.columns.items()}


def parse_subject(pattern: str) -> Pattern:
    """Raises UsageError with the token that cannot be understood."""
    literals: dict[int, str] = {}
    columns: dict[str, int] = {}
    tokens = _split(pattern)
    rest = False
    for place, token in enumerate(tokens):
        column = _COLUMN.fullmatch(token)
        if column or token == ">":
            rest = token == ">" or bool(column and column[2])
            if rest and place != len(tokens) - 1:
                raise UsageError(f"{token} must be the last token of the pattern {pattern}", hint=EXAMPLE)
        if column:
            name = column[1]
            if name.lower() in {other.lower() for other in columns}:
                raise UsageError(f"the pattern {pattern} has the column {name} twice", hint=EXAMPLE)
            columns[name] = place
        elif token not in ("*", ">"):
            if not token or re.search(r"[{}*>\s]", token):
                raise UsageError(f"the pattern {pattern} has the token {token!r}", hint=EXAMPLE)
            literals[place] = token
    return Pattern(literals, columns, len(tokens), rest)


def subject_columns(pattern: str) -> list[StructField]:
    """A subject without these tokens does not fit, so they are never null."""
    return (
        [StructField(name, StringType(), False) for name in parse_subject(pattern).columns] if pattern else []
    )


def extracted(pattern: str, subject: Column) -> tuple[Column, dict[str, Column]]:
    """Whether a subject matches, and its columns."""
    from pyspark.sql import functions as F  # noqa: N812

    parsed = parse_subject(pattern)
    tokens = F.split(subject, r"\.", parsed.tokens if parsed.rest else -1)
    matches = F.size(tokens) == parsed.tokens
    for place, text in parsed.literals.items():
        matches = matches & (F.get(tokens, F.lit(place)) == text)
    return matches, {name: F.get(tokens, F.lit(place)) for name, place in parsed.columns.items()}


def _split(pattern: str) -> list[str]:
    tokens, place = [], 0
    while True:
        found = _TOKEN.match(pattern, place)
        assert found is not None  # it matches nothing, too
        tokens.append(found[0])
        if found.end() == len(pattern):
            return tokens
        place = found.end() + 1

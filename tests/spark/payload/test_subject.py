"""Tokens of the subject as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.errors import UsageError
from headrace.spark.payload.subject import extracted, parse_subject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MATCHES = [
    ("orders.{country}.{kind}", "orders.DE.new", {"country": "DE", "kind": "new"}),
    ("orders.{country}.{kind}", "orders.DE", None),
    ("orders.{country}.{kind}", "orders.DE.new.x", None),
    ("orders.{country}.{kind}", "returns.DE.new", None),
    ("*.{a}", "x.y", {"a": "y"}),
    ("$KV.B.{key...}", "$KV.B.a.b.c", {"key": "a.b.c"}),
    ("$KV.B.{key...}", "$KV.B.a", {"key": "a"}),
    ("$KV.B.{key...}", "$KV.B", None),
    ("{a}.>", "x.y.z", {"a": "x"}),
    ("{a}.>", "x", None),
    ("{all...}", "x", {"all": "x"}),
]


@pytest.mark.parametrize(("pattern", "subject", "columns"), MATCHES)
def test_a_subject_matches_or_not(pattern: str, subject: str, columns: dict[str, str] | None) -> None:
    assert parse_subject(pattern).match(subject) == columns


def test_spark_extracts_the_same(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    for pattern in {pattern for pattern, _, _ in MATCHES}:
        cases = [(subject, columns) for other, subject, columns in MATCHES if other == pattern]
        matches, tokens = extracted(pattern, F.col("subject"))
        rows = spark.createDataFrame([(subject,) for subject, _ in cases], "subject string")
        found = rows.select(matches.alias("m"), F.struct(*(c.alias(n) for n, c in tokens.items())).alias("t"))
        answers = [row["t"].asDict() if row["m"] else None for row in found.collect()]
        assert answers == [columns for _, columns in cases], pattern


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("orders.{a}.{A}", "the pattern orders.{a}.{A} has the column A twice"),
        ("{rest...}.x", "{rest...} must be the last token of the pattern {rest...}.x"),
        (">.x", "> must be the last token of the pattern >.x"),
        ("a..b", "the pattern a..b has the token ''"),
        ("a.v{n}", "the pattern a.v{n} has the token 'v{n}'"),
        ("a.{b c}", "the pattern a.{b c} has the token '{b c}'"),
    ],
)
def test_a_pattern_that_cannot_be_understood_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_subject(pattern)
    assert refused.value.message == message

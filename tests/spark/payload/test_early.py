"""Rows and dead letters are those of Spark alone, whatever was decoded while it was read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow
import pytest

from headrace.spark.payload.ddl import parse_ddl
from headrace.spark.payload.decode import dead_letters, decode, good_rows
from headrace.spark.payload.decoding import DECODED, Decoding
from headrace.spark.payload.json_rules import json_problem
from headrace.spark.reading.early import EarlyColumns, early_column
from tests.spark.payload import flat_payloads
from tests.spark.payload.flat_payloads import SCHEMA
from tests.spark.payload.test_json_rows import NOON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def both_ways(spark: SparkSession, payloads: list[bytes]) -> tuple[int, list[Any], list[Any]]:
    """How many were decoded early; rows and dead letters with that, and without."""
    count = len(payloads)
    messages = pyarrow.table(
        {
            "stream": ["ORDERS"] * count,
            "seq": range(1, count + 1),
            "subject": ["orders"] * count,
            "timestamp": pyarrow.array([NOON] * count, pyarrow.timestamp("us", "UTC")),
            "data": pyarrow.array(payloads, pyarrow.binary()),
        }
    )
    early = EarlyColumns(SCHEMA)
    rows = pyarrow.Table.from_batches([early.added_to(batch) for batch in messages.to_batches()])
    columns = "stream STRING, seq BIGINT, subject STRING, timestamp TIMESTAMP, data BINARY"
    with_early = _outcome(spark.createDataFrame(rows, f"{columns}, {early_column(SCHEMA)}"))
    without = _outcome(spark.createDataFrame(messages, columns))
    return rows.num_rows - rows.column(DECODED).null_count, with_early, without


def _outcome(messages: DataFrame) -> list[Any]:
    decoding = Decoding("json", parse_ddl(SCHEMA), metadata=("seq",)).checked()
    found = decode(messages, decoding)
    good = good_rows(found, decoding).toArrow().to_pylist()
    bad = dead_letters(found, decoding, 0).drop("timestamp").toArrow().to_pylist()
    return sorted(map(repr, [*good, *bad]))


@pytest.mark.parametrize("make", ["literals", "generated"])
def test_rows_and_dead_letters_are_those_of_spark_alone(spark: SparkSession, make: str) -> None:
    if make == "literals":
        payloads = list(flat_payloads.each_literal())
    else:
        makers = (flat_payloads.numbers, flat_payloads.moments, flat_payloads.objects)
        payloads = [payload for maker in makers for payload in maker(99, 2500)]
    count, with_early, without = both_ways(spark, payloads)
    # A batch that the driver lands has as dead letters what the rules in Python refuse, unasked.
    schema = parse_ddl(SCHEMA)
    refused = {seq for seq, payload in enumerate(payloads, 1) if json_problem(payload, schema)}
    letters = [re.search(r"'seq': (\d+)", row) for row in without if "'reason': " in row]
    assert refused <= {int(found[1]) for found in letters if found}
    different = set(with_early) ^ set(without)
    assert not different, "\n".join(sorted(different)[:20])
    assert len(with_early) == len(payloads)
    assert len(payloads) / 12 < count < len(payloads), "both ways are tested"


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(20, 26))
def test_many_rows_are_those_of_spark_alone(spark: SparkSession, seed: int) -> None:
    makers = (flat_payloads.numbers, flat_payloads.moments, flat_payloads.objects)
    _, with_early, without = both_ways(spark, [item for maker in makers for item in maker(seed, 20_000)])
    assert not set(with_early) ^ set(without)

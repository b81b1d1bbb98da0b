"""Generated payloads mean in Spark what the model says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from headrace.spark.payload.ddl import parse_ddl
from headrace.spark.payload.decode import dead_letters, decode, good_rows
from headrace.spark.payload.decoding import Decoding
from headrace.spark.payload.json_rules import json_problem
from tests.spark.payload.json_model import SCHEMA, Misfit, Text, expected, payloads
from tests.spark.payload.test_json_rows import messages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def found_rows(spark: SparkSession, data: list[bytes]) -> dict[int, dict[str, Any] | None]:
    """The row of each payload without nulls, or None for a dead letter."""
    decoding = Decoding("json", parse_ddl(SCHEMA), metadata=("seq",)).checked()
    decoded = decode(messages(spark, data), decoding)
    # Python's times have a zone or none; microseconds have no such question.
    inner = F.struct("r.i", F.unix_micros("r.t").alias("t"))
    good = good_rows(decoded, decoding).withColumns(
        {"t": F.unix_micros("t"), "r": F.when(F.col("r").isNotNull(), inner)}
    )
    found: dict[int, dict[str, Any] | None] = {}
    for row in good.collect():
        values = row.asDict(recursive=True)
        seq = values.pop("seq")
        found[seq] = {name: value for name, value in values.items() if value is not None}
    for row in dead_letters(decoded, decoding, 0).collect():
        assert row["seq"] not in found
        found[row["seq"]] = None
    assert len(found) == len(data)
    return found


def compare(spark: SparkSession, data: list[bytes]) -> int:
    """How many payloads became rows. Raises AssertionError with all that differ."""
    found = found_rows(spark, data)
    wrong: list[Any] = []
    rows = 0
    for seq, payload in enumerate(data, 1):
        row = found[seq]
        rows += row is not None
        try:
            wanted = expected(payload)
        except Misfit as reason:
            if row is not None:
                wrong.append((payload, row, f"must be refused: {reason}"))
            continue
        unsure = isinstance(wanted.get("s"), Text) and wanted["s"].unsure
        if wanted != row and not (row is None and unsure):
            wrong.append((payload, row, wanted))
    assert not wrong, "\n".join(map(str, wrong[:20]))
    return rows


def test_generated_payloads_mean_what_the_model_says(spark: SparkSession) -> None:
    data = payloads(seed=1, count=3000)
    rows = compare(spark, data)
    assert 1000 < rows < 2900, "both kinds are tested"


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_generated_payloads_mean_what_the_model_says(spark: SparkSession, seed: int) -> None:
    compare(spark, payloads(seed, 20_000))


def test_the_explanation_agrees_with_the_model() -> None:
    schema = parse_ddl(SCHEMA)
    for payload in payloads(seed=1, count=5000):
        reason = json_problem(payload, schema)
        try:
            expected(payload)
        except Misfit:
            # Half a surrogate pair outside of the schema's columns has no column to be named.
            assert reason or b"\\ud" in payload, payload
        else:
            assert reason is None, payload

"""Why a message does not fit. Only bad rows are looked at, so this is Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from headrace.spark.payload.csv_rules import csv_problem
from headrace.spark.payload.decoding import Decoding
from headrace.spark.payload.json_rules import json_problem

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame


def explained(bad: DataFrame, decoding: Decoding, batch: int) -> DataFrame:
    """Dead letters: with the reason, and the number of the batch."""
    from headrace.spark.payload.decode import DEAD_LETTER_COLUMNS

    return bad.mapInArrow(_explainer(decoding, batch), DEAD_LETTER_COLUMNS)


def reason_of(problem: str, data: bytes | None, subject: str, decoding: Decoding) -> str:
    """One line."""
    from headrace.spark.payload.decode import EXPLAIN, OTHER_SUBJECT

    if problem != EXPLAIN:
        return f"{problem} {decoding.subject}" if problem == OTHER_SUBJECT else problem
    rules = {"json": json_problem, "csv": csv_problem, "text": _text_problem}
    found = rules[decoding.payload](data or b"", decoding.schema)
    return found or f"the payload is not {decoding.payload} that fits the schema"


def _text_problem(data: bytes, schema: StructType) -> str | None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return f"the payload is not UTF-8 at byte {error.start + 1}"
    return None


def _explainer(
    decoding: Decoding, batch: int
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    def explain(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        for rows in batches:
            values = zip(
                rows.column("reason").to_pylist(),
                rows.column("data").to_pylist(),
                rows.column("subject").to_pylist(),
                strict=True,
            )
            reasons = pyarrow.array([reason_of(*each, decoding) for each in values], pyarrow.string())
            number = pyarrow.array([batch] * rows.num_rows, pyarrow.int64())
            place = rows.schema.get_field_index("reason")
            yield rows.set_column(place, "reason", reasons).append_column("batch", number)

    return explain

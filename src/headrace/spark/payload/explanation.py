"""Why a message does not fit. Only bad rows get here, so this is Python."""

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


def explained_here(bad: DataFrame, decoding: Decoding, batch: int) -> DataFrame:
    """The same, in this process, which gets all of them."""
    import pyarrow

    from headrace.spark.payload.decode import DEAD_LETTER_COLUMNS

    batches = list(_explainer(decoding, batch)(iter(bad.toArrow().to_batches())))
    if not batches:  # the stream has replaced them since they were counted
        return bad.sparkSession.createDataFrame([], DEAD_LETTER_COLUMNS)
    letters = pyarrow.Table.from_batches(batches)
    return bad.sparkSession.createDataFrame(letters, DEAD_LETTER_COLUMNS).coalesce(1)


def explained_rows(bad: pyarrow.Table, decoding: Decoding, batch: int) -> pyarrow.Table:
    """The same for rows that are already here: the columns of `misfits`."""
    import pyarrow

    return pyarrow.Table.from_batches(list(_explainer(decoding, batch)(iter(bad.to_batches()))))


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
            place = rows.schema.get_field_index("reason")
            kind = rows.schema.field(place).type  # a large string, if Spark is configured so
            reasons = pyarrow.array([reason_of(*each, decoding) for each in values], kind)
            number = pyarrow.array([batch] * rows.num_rows, pyarrow.int64())
            yield rows.set_column(place, "reason", reasons).append_column("batch", number)

    return explain

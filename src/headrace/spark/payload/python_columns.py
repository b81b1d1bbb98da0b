"""Typed columns from formats that Spark has no decoder for, Avro and Protobuf: in Python, by Arrow batches.

A decoder is a function from bytes to a dict of the fields; what it raises is the reason of a bad row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StringType, StructField, StructType

from headrace.spark.payload.decoding import Decoding

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

Decoder = Callable[[bytes], dict[str, Any]]


def with_decoded(rows: DataFrame, decoding: Decoding, fields: str, problem: str, skip: str) -> DataFrame:
    """`rows` with a struct of the fields and why there is none.

    Both are null where `skip` is true and the payload is empty: in Protobuf, an empty payload would be a
    message of zeros.
    """
    # Rows that do not fit have none, whatever the schema says.
    nullable = StructType([StructField(field.name, field.dataType) for field in decoding.schema.fields])
    schema = StructType(
        [*rows.schema.fields, StructField(fields, nullable), StructField(problem, StringType())]
    )

    def decode(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        from headrace.spark.payload.arrow_types import arrow_type

        decoder, kind = make_decoder(decoding), arrow_type(nullable)
        for batch in batches:
            payloads = batch.column("data").to_pylist()
            skipped = batch.column(skip).to_pylist()
            values, problems = _decoded(decoder, kind, payloads, skipped)
            batch = batch.append_column(fields, values)
            yield batch.append_column(problem, pyarrow.array(problems, pyarrow.string()))

    return rows.mapInArrow(decode, schema)


def make_decoder(decoding: Decoding) -> Decoder:
    if decoding.payload == "avro":
        from headrace.spark.payload.avro_rows import avro_decoder

        return avro_decoder(decoding.document, confluent=decoding.confluent)
    from headrace.spark.payload.protobuf_rows import protobuf_decoder

    return protobuf_decoder(decoding.document, decoding.message)


def _decoded(
    decoder: Decoder, kind: pyarrow.DataType, payloads: list[bytes | None], skipped: list[bool]
) -> tuple[pyarrow.Array, list[str | None]]:
    import pyarrow

    values: list[dict[str, Any] | None] = []
    problems: list[str | None] = []
    for payload, skip in zip(payloads, skipped, strict=True):
        value, problem = (None, None) if skip and not payload else _one(decoder, payload or b"")
        values.append(value)
        problems.append(problem)
    try:
        return pyarrow.array(values, kind), problems
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        return _one_by_one(values, problems, kind)


def _one(decoder: Decoder, payload: bytes) -> tuple[dict[str, Any] | None, str | None]:
    try:
        return decoder(payload), None
    except Exception as error:  # for bytes that are not a message, a decoder may raise anything
        return None, _one_line(error)


def _one_by_one(
    values: list[dict[str, Any] | None], problems: list[str | None], kind: pyarrow.DataType
) -> tuple[pyarrow.Array, list[str | None]]:
    """Find the values that were decoded but do not fit their column."""
    import pyarrow

    for place, value in enumerate(values):
        try:
            pyarrow.array([value], kind)
        except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
            values[place], problems[place] = None, _one_line(error)
    return pyarrow.array(values, kind), problems


def _one_line(error: Exception) -> str:
    text = str(error).strip().split("\n")[0]
    return text or type(error).__name__

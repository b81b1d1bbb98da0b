"""Payloads that are decoded in the process that reads them: `json_decoder`, for Spark.

The option `headrace.jsonSchema` asks for it. The rows then have the column DECODED: a struct of the schema's
columns, null if Spark has to decode the payload. `payload/decode.py` uses it. Only our own queries set
the option, because a struct that is null for some good payloads is of no use to anybody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import DataType, DecimalType, StructField, StructType

from headrace.client.outgoing import TextColumn
from headrace.spark.options import JSON_SCHEMA
from headrace.spark.payload.ddl import ddl, parse_ddl, type_text
from headrace.spark.payload.decoding import DECODED, Decoding
from headrace.spark.reading.json_decoder import KINDS, JsonDecoder

if TYPE_CHECKING:
    import pyarrow


def early_option(decoding: Decoding | None) -> dict[str, str]:
    """The option of a source with such payloads; nothing if Spark has to decode all of them."""
    if decoding is None or decoding.payload != "json" or not decoding.schema.fields:
        return {}
    known = all(_kind(field.dataType) in KINDS for field in decoding.schema.fields)
    return {JSON_SCHEMA: ddl(decoding.schema)} if known else {}


def early_column(schema: str) -> str:
    """DECODED and its type, as in a schema. Its structs may be null, so every column may be."""
    fields = [StructField(field.name, field.dataType) for field in parse_ddl(schema).fields]
    return f"{DECODED} {type_text(StructType(fields))}"


class EarlyColumns:
    """Adds DECODED to record batches of messages."""

    def __init__(self, schema: str) -> None:
        from headrace.spark.payload.arrow_types import arrow_type

        columns = parse_ddl(schema)
        self._type = arrow_type(columns)
        self._decoder = JsonDecoder(_column(field) for field in columns.fields)

    def added_to(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        import pyarrow

        rows = batch.num_rows
        data = batch.column("data")
        validity, offsets, payloads = data.buffers()
        texts = TextColumn(rows, data.offset, validity, offsets, payloads)
        decoded, buffers = self._decoder.decode(texts)
        children = [
            pyarrow.Array.from_buffers(field.type, rows, list(map(pyarrow.py_buffer, parts)))
            for field, parts in zip(self._type, buffers, strict=True)
        ]
        struct = pyarrow.Array.from_buffers(self._type, rows, [pyarrow.py_buffer(decoded)], children=children)
        return batch.append_column(DECODED, struct)


def _column(field: StructField) -> tuple[str, str, bool, int, int]:
    kind = field.dataType
    digits = (kind.precision, kind.scale) if isinstance(kind, DecimalType) else (0, 0)
    return field.name, _kind(kind), field.nullable, *digits


def _kind(kind: DataType) -> str:
    """The type as `json_decoder` names it."""
    return kind.simpleString().partition("(")[0]

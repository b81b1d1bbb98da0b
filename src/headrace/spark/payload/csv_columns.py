"""Typed columns from CSV, in the JVM: one record for each message, with the fields in the schema's order.

`from_csv` reads the first line and ignores the others; it also guesses. So every field is read as text and
converted here, and a last field of our own, with a random value, shows that the payload was one record. An
empty field is null, an empty pair of quotes is an empty text; quotes are doubled, as in RFC 4180.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.errors import UsageError
from headrace.spark.payload import text_rules
from headrace.spark.payload.ddl import type_text

if TYPE_CHECKING:
    from pyspark.sql import Column

_LAST = f"headrace_{secrets.token_hex(8)}"
_CORRUPT = f"{_LAST}_corrupt"
_EMPTY = f"{_LAST}_empty"
_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "quote": '"',
    "escape": '"',
    "nullValue": "",
    "emptyValue": _EMPTY,
}

CSV_TYPES = (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)


def check_csv_schema(schema: StructType) -> None:
    """Raises UsageError for a column whose type cannot come from one field of text."""
    for field in schema.fields:
        if not isinstance(field.dataType, CSV_TYPES):
            raise UsageError(f"{field.name}: CSV has no {type_text(field.dataType)}")


def parsed_csv(data: Column, schema: StructType) -> Column:
    """All fields as text."""
    fields = [StructField(f"c{i}", StringType()) for i in range(len(schema.fields))]
    root = StructType([*fields, StructField(_LAST, StringType()), StructField(_CORRUPT, StringType())])
    record = F.regexp_replace(data.cast("string"), r"\r?\n(?![\s\S])", "")
    return F.from_csv(F.concat(record, F.lit(f",{_LAST}")), _ddl(root), _OPTIONS)


def csv_values(parsed: Column, schema: StructType) -> dict[str, Column]:
    """Null where a text does not fit its column."""
    return {field.name: _value(parsed[f"c{i}"], field.dataType) for i, field in enumerate(schema.fields)}


def csv_misfit(parsed: Column, values: Column, data: Column, schema: StructType) -> Column:
    """Whether the payload is not what the schema says; never null."""
    whole = parsed[_CORRUPT].isNull() & (parsed[_LAST] == _LAST)
    text = data.cast("string")
    # Line breaks in quotes are changed by the parser if they have a carriage return.
    misfit = ~F.coalesce(whole, F.lit(False)) | ~F.is_valid_utf8(text) | (F.length(data) == 0)
    misfit = misfit | F.regexp_replace(text, r"\r?\n(?![\s\S])", "").contains("\r")
    for i, field in enumerate(schema.fields):
        value = values[field.name]
        misfit = misfit | (value.isNull() & parsed[f"c{i}"].isNotNull())
        if not field.nullable:
            misfit = misfit | value.isNull()
    return misfit


def _ddl(schema: StructType) -> str:
    return ", ".join(f"`{field.name}` STRING" for field in schema.fields)


def _value(text: Column, kind: DataType) -> Column:
    if isinstance(kind, StringType):
        return F.when(text == _EMPTY, F.lit("")).otherwise(text)
    if isinstance(kind, BinaryType):
        return F.try_to_binary(text, F.lit("base64"))
    if isinstance(kind, BooleanType):
        return F.when(text == "true", F.lit(True)).when(text == "false", F.lit(False))
    if isinstance(kind, DecimalType):
        return F.when(text.rlike(text_rules.decimal(kind)), text.try_cast(kind))
    if isinstance(kind, FloatType | DoubleType):
        number = F.when(text.rlike(text_rules.NUMBER), text.try_cast(kind))
        return F.when(F.abs(number) != float("inf"), number)
    if isinstance(kind, DateType | TimestampType | TimestampNTZType):
        return text_rules.value(text, kind)
    return F.when(text.rlike(text_rules.INTEGER), text.try_cast(kind))

"""What CSV fits a schema: the rules of `csv_columns` again, in Python, to say which field is wrong."""

from __future__ import annotations

import csv
import math
import re

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    StringType,
    StructType,
)

from headrace.spark.payload import text_rules
from headrace.spark.payload.json_rules import INTEGER_BITS, LARGEST_FLOAT, text_fits

MOST_DIGITS = 4000
"""Python refuses to convert longer texts to integers; zeros in front are digits, too."""


def csv_problem(data: bytes, schema: StructType) -> str | None:
    """Why a payload does not fit; None if it fits."""
    if not data:
        return "the payload is empty"
    try:
        text = re.sub(r"\r?\n\Z", "", data.decode())
    except UnicodeDecodeError as error:
        return f"the payload is not UTF-8 at byte {error.start + 1}"
    if "\r" in text:
        return "the payload has a carriage return within, which would be lost"
    try:
        records = list(csv.reader(text.splitlines(keepends=True) or [""], strict=True))
    except csv.Error as error:
        return "the record ends within quotes" if "end of data" in str(error) else f"not CSV: {error}"
    if len(records) > 1:
        return f"the payload has {len(records)} records, not 1"
    values = records[0] if records else [""]
    if len(values) != len(schema.fields):
        return f"the record has {len(values)} fields, not {len(schema.fields)}"
    for value, field in zip(values, schema.fields, strict=True):
        if not value and not isinstance(field.dataType, StringType):
            if not field.nullable:
                return f"{field.name} is empty, but the schema says NOT NULL"
        elif not _fits(value, field.dataType):
            return f"{field.name}: {text_rules.misfit(repr(value[:40]), value, field.dataType)}"
    return None


def _fits(text: str, kind: DataType) -> bool:
    if isinstance(kind, StringType):
        return True
    if isinstance(kind, BooleanType):
        return text in ("true", "false")
    if isinstance(kind, DecimalType):
        return re.match(text_rules.decimal(kind), text) is not None
    if isinstance(kind, FloatType | DoubleType):
        if re.match(text_rules.NUMBER, text) is None:
            return False
        number = abs(float(text))
        return number < LARGEST_FLOAT if isinstance(kind, FloatType) else not math.isinf(number)
    bits = INTEGER_BITS.get(type(kind))
    if bits:
        limit = 2 ** (bits - 1)
        is_integer = len(text) <= MOST_DIGITS and re.match(text_rules.INTEGER, text) is not None
        return is_integer and -limit <= int(text) < limit
    return text_fits(text, kind)

"""What JSON fits a schema: the rules of `json_columns` again, in Python, to say which field is wrong."""

from __future__ import annotations

import base64
import datetime
import json
import math
import re
from collections import Counter
from typing import Any

from pyspark.sql.types import (
    ArrayType,
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
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.spark.payload import text_rules

INTEGER_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
LARGEST_FLOAT = float(2**128 - 2**103)
"""From here on a number rounds to infinity: half a step beyond the largest FLOAT."""
SHOWN_CHARACTERS = 40


class Fraction(str):
    """A number with a fraction or an exponent, as it was written."""

    __slots__ = ()


def json_problem(data: bytes, schema: StructType) -> str | None:
    """Why a payload does not fit, with the path of the field; None if it fits."""
    if not data.strip():
        return "the payload is empty"
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return f"the payload is not UTF-8 at byte {error.start + 1}"
    if text.startswith("\ufeff"):
        return "the payload starts with a byte order mark"
    try:
        value = json.loads(
            text, parse_float=Fraction, parse_constant=_no_constant, object_pairs_hook=_Pairs, strict=True
        )
    except json.JSONDecodeError as error:
        return f"the payload is not JSON at character {error.pos + 1}: {error.msg}"
    except RecursionError:
        return "the payload is nested too deeply"
    except ValueError as error:  # from `_no_constant`, or Python's limit for the digits of a number
        return str(error) if "JSON" in str(error) else "a number has too many digits"
    return _problem(value, schema, "")


class _Pairs(list[tuple[str, Any]]):
    """An object with its keys in order, including those that occur twice."""


def _no_constant(name: str) -> Any:
    raise ValueError(f"the payload is not JSON: {name} is not a JSON number")


def _problem(value: Any, kind: DataType, path: str) -> str | None:
    if value is None:
        return "the payload is null, not an object" if not path else None
    if isinstance(kind, StructType):
        return _object_problem(value, kind, path)
    if isinstance(kind, ArrayType):
        if isinstance(value, _Pairs) or not isinstance(value, list):
            return _mismatch(value, kind, path)
        return _first(_problem(item, kind.elementType, f"{path}[{i}]") for i, item in enumerate(value))
    if isinstance(kind, MapType):
        if not isinstance(value, _Pairs):
            return _mismatch(value, kind, path)
        for key, times in Counter(key for key, _ in value).items():
            if times > 1:
                return f"{path}: the map has the key {key!r} twice"
        return _first(_problem(item, kind.valueType, f"{path}[{key!r}]") for key, item in value)
    return None if _fits(value, kind) else _mismatch(value, kind, path)


def _object_problem(value: Any, kind: StructType, path: str) -> str | None:
    if not isinstance(value, _Pairs):
        return _mismatch(value, kind, path) if path else f"the payload is {_shown(value)}, not an object"
    found = dict(value)
    for field in kind.fields:
        inner = f"{path}.{field.name}" if path else field.name
        if not field.nullable and found.get(field.name) is None:
            state = "is null" if field.name in found else "is missing"
            return f"{inner} {state}, but the schema says NOT NULL"
        problem = _problem(found.get(field.name), field.dataType, inner)
        if problem:
            return problem
    return None


def _first(problems: Any) -> str | None:
    return next((problem for problem in problems if problem), None)


def _fits(value: Any, kind: DataType) -> bool:
    if isinstance(kind, StringType):
        return not isinstance(value, str) or isinstance(value, Fraction) or not _has_lone_surrogate(value)
    if isinstance(kind, BooleanType):
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    bits = INTEGER_BITS.get(type(kind))
    if bits:
        return isinstance(value, int) and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)
    if isinstance(kind, FloatType | DoubleType):
        # As text: a float of an integer, or a Decimal of any exponent, would raise where this gives infinity.
        limit = LARGEST_FLOAT if isinstance(kind, FloatType) else math.inf
        return isinstance(value, int | Fraction) and abs(float(str(value))) < limit
    if isinstance(kind, DecimalType):
        return isinstance(value, int | str) and re.match(text_rules.decimal(kind), str(value)) is not None
    return isinstance(value, str) and not isinstance(value, Fraction) and text_fits(value, kind)


def text_fits(text: str, kind: DataType) -> bool:
    """Checks values of types that JSON writes as text: bytes, dates and times."""
    if isinstance(kind, BinaryType):
        try:
            base64.b64decode(text, validate=True)
        except ValueError:  # raised for text that is not ASCII, too
            return False
        return True
    patterns: dict[type[DataType], str] = {
        DateType: text_rules.DATE,
        TimestampType: text_rules.TIMESTAMP,
        TimestampNTZType: text_rules.TIMESTAMP_NTZ,
    }
    if re.match(patterns[type(kind)], text) is None:
        return False
    if isinstance(kind, TimestampType) and text_rules.is_too_far(text):
        return False
    try:
        datetime.datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text))
    except ValueError:  # there is no such day
        return False
    return True


def _has_lone_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _mismatch(value: Any, kind: DataType, path: str) -> str:
    return f"{path}: {text_rules.misfit(_shown(value), value if isinstance(value, str) else '', kind)}"


def _shown(value: Any) -> str:
    """A value as JSON, shortened."""
    if isinstance(value, _Pairs):
        return "an object"
    if isinstance(value, list):
        return "an array"
    text = str(value) if isinstance(value, Fraction) else json.dumps(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"

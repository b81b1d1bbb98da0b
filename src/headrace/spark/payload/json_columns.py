"""Typed columns from JSON, in the JVM, with one `from_json`.

`from_json` is fast and lenient. On its own it would silently change data: it ignores what follows the
first value, reads "1,5" as 15 and "10:00" as ten o'clock today, rounds decimals, wraps numbers around (200 as
a TINYINT, a large number of seconds), turns 1e400 into Infinity, and replaces bytes that are not UTF-8 and
halves of surrogate pairs. So:

- The payload is wrapped: `{"N":[PAYLOAD,{"N":1}]}`, where N is a random name. If the array then has two
  elements and the second is ours, the payload is exactly one JSON value. The random name cannot be faked.
- Some types are read as another one that keeps what was written (`wire_type`), then checked and converted:
  dates and times as text, decimals as VARIANT, which has the digits, small integers as INT.
- What remains is compared with the rules after parsing: `misfit`.

Allowed, and in docs/tables.md: the last of several equal keys counts, as everywhere; keys that the schema
does not have are ignored; timestamps are cut to microseconds, and are UTC if they name no zone; DOUBLE and
FLOAT round; a STRING column takes any JSON value and holds its JSON text, if that can be done without loss.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from headrace.spark.payload import text_rules

if TYPE_CHECKING:
    from pyspark.sql import Column

Check = Callable[["Column"], "Column"]

_FRAME = f"headrace_{secrets.token_hex(8)}"
_CORRUPT = f"{_FRAME}_corrupt"

_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}

_RANGES: dict[type[DataType], tuple[int, int]] = {
    ByteType: (-(2**7), 2**7 - 1),
    ShortType: (-(2**15), 2**15 - 1),
}

# Numbers that a double might not hold. Jackson converts fractions through a double if we ask for text.
_LONG_NUMBER = r"[0-9][0-9.]{16}|[0-9][eE]"
_FRACTION = r"^-?[0-9]+\.[0-9]"
# Text in quotes; possessive, because a long one would otherwise overflow Java's stack.
_STRINGS = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LONE_SURROGATE = (
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def parsed_json(data: Column, schema: StructType) -> Column:
    """The only expensive expression; `json_misfit` and `json_values` read its result."""
    element = StructType([*_wire_struct(schema).fields, StructField(_FRAME, IntegerType())])
    root = StructType([StructField(_FRAME, ArrayType(element)), StructField(_CORRUPT, StringType())])
    text = F.concat(F.lit(f'{{"{_FRAME}":['), data.cast("string"), F.lit(f',{{"{_FRAME}":1}}]}}'))
    return F.from_json(text, root, _OPTIONS)


def json_values(parsed: Column, schema: StructType) -> dict[str, Column]:
    """The columns; null, or anything, in rows that do not fit."""
    record = _record(parsed)
    return {field.name: _value(record[field.name], field.dataType) for field in schema.fields}


def json_misfit(parsed: Column, values: Column, data: Column, schema: StructType) -> Column:
    """Whether the payload is not what the schema says; never null. `values` are those of `json_values`."""
    elements = parsed[_FRAME]
    whole = parsed[_CORRUPT].isNull() & (F.size(elements) == 2) & (F.get(elements, F.lit(1))[_FRAME] == 1)
    record = _record(parsed)
    text = data.cast("string")
    misfit = ~F.coalesce(whole & record.isNotNull(), F.lit(False))
    for field in schema.fields:
        misfit = misfit | _top_misfit(record[field.name], values[field.name], field)
    misfit = misfit | ~F.is_valid_utf8(text) | _has_lone_surrogates(text)
    return misfit | (_any_text(record, schema, text) & _has_long_number(text))


def _record(parsed: Column) -> Column:
    return F.get(parsed[_FRAME], F.lit(0))


def _has_long_number(text: Column) -> Column:
    """The first check also finds those in strings, such as hexadecimal identifiers; few need the second."""
    outside = F.regexp_replace(text, F.lit(_STRINGS), F.lit('""'))
    return text.rlike(_LONG_NUMBER) & outside.rlike(_LONG_NUMBER)


def _has_lone_surrogates(text: Column) -> Column:
    """They have no form in UTF-8. Escaped backslashes are removed first: what follows is not an escape."""
    escapes = text.contains("\\u")
    escapes = escapes & (text.contains(r"\ud") | text.contains(r"\uD"))
    return escapes & F.replace(text, F.lit("\\\\"), F.lit("_")).rlike(_LONE_SURROGATE)


# -- Types as from_json reads them --


def wire_type(kind: DataType) -> DataType:
    """The type that a field is read as."""
    if isinstance(kind, DateType | TimestampType | TimestampNTZType):
        return StringType()
    if isinstance(kind, DecimalType):
        return VariantType()
    if isinstance(kind, ByteType | ShortType):
        return IntegerType()
    if isinstance(kind, ArrayType):
        return ArrayType(wire_type(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(wire_type(kind.keyType), wire_type(kind.valueType))
    return _wire_struct(kind) if isinstance(kind, StructType) else kind


def _wire_struct(schema: StructType) -> StructType:
    return StructType([StructField(field.name, wire_type(field.dataType)) for field in schema.fields])


def _value(column: Column, kind: DataType) -> Column:
    if wire_type(kind) == kind:
        return column
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda item: _value(item, kind.elementType))
    if isinstance(kind, MapType):
        return F.transform_values(column, lambda _, item: _value(item, kind.valueType))
    if isinstance(kind, StructType):
        values = [_value(column[field.name], field.dataType).alias(field.name) for field in kind.fields]
        return F.when(column.isNotNull(), F.struct(*values))
    if isinstance(kind, DecimalType):
        digits = _digits(column)
        fits = digits.rlike(text_rules.decimal(kind)) & _is_exact(column)
        return F.when(fits, digits.try_cast(kind))
    if isinstance(kind, ByteType | ShortType):
        return column.try_cast(kind)
    return text_rules.value(column, kind)


def _digits(variant: Column) -> Column:
    """A number as it was written, or a text; null for JSON's null."""
    return F.try_variant_get(variant, "$", "string")


def _is_exact(variant: Column) -> Column:
    """A number with an exponent, or of more than 38 digits, was rounded to a DOUBLE."""
    return F.schema_of_variant(variant) != "DOUBLE"


# -- What does not fit --


def _top_misfit(column: Column, value: Column, field: StructField) -> Column:
    """Like `_field_misfit`, but does not repeat a conversion to see whether it worked."""
    kind = field.dataType
    if not isinstance(kind, DateType | TimestampType | TimestampNTZType | DecimalType):
        check = _check(kind)
        misfit = check(column) if check else F.lit(False)
        return misfit if field.nullable else misfit | column.isNull()
    return value.isNull() & ~_is_null(column, kind) if field.nullable else value.isNull()


def _field_misfit(parent: Column, field: StructField) -> Column:
    """Whether a field of `parent`, which is not null, has a value that is not allowed."""
    column = parent[field.name]
    check = _check(field.dataType)
    misfit = check(column) if check else F.lit(False)
    if not field.nullable:
        misfit = misfit | _is_null(column, field.dataType)
    return misfit


def _is_null(column: Column, kind: DataType) -> Column:
    if isinstance(kind, DecimalType):
        return column.isNull() | F.coalesce(F.is_variant_null(column), F.lit(True))
    return column.isNull()


def _check(kind: DataType) -> Check | None:
    """The test that a value of this type does not fit; None if from_json has checked everything."""
    if isinstance(kind, ByteType | ShortType):
        least, greatest = _RANGES[type(kind)]
        return lambda column: _known((column < least) | (column > greatest))
    if isinstance(kind, FloatType | DoubleType):
        return lambda column: _known(F.abs(column) == float("inf"))
    if isinstance(kind, DecimalType):
        return lambda column: ~_is_null(column, kind) & _value(column, kind).isNull()
    if isinstance(kind, DateType | TimestampType | TimestampNTZType):
        return lambda column: column.isNotNull() & text_rules.value(column, kind).isNull()
    if isinstance(kind, ArrayType):
        return _array_check(kind)
    if isinstance(kind, MapType):
        return _map_check(kind)
    return _struct_check(kind) if isinstance(kind, StructType) else None


def _array_check(kind: ArrayType) -> Check | None:
    inner = _check(kind.elementType)
    return None if inner is None else lambda column: _known(F.exists(column, inner))


def _map_check(kind: MapType) -> Check:
    """Readers disagree about maps with the same key twice."""
    inner = _check(kind.valueType)

    def check(column: Column) -> Column:
        keys = F.map_keys(column)
        misfit = F.size(F.array_distinct(keys)) < F.size(keys)
        return _known(misfit | F.exists(F.map_values(column), inner)) if inner else _known(misfit)

    return check


def _struct_check(kind: StructType) -> Check | None:
    if all(field.nullable and _check(field.dataType) is None for field in kind.fields):
        return None

    def check(column: Column) -> Column:
        misfit = F.lit(False)
        for field in kind.fields:
            misfit = misfit | _field_misfit(column, field)
        return column.isNotNull() & misfit

    return check


def _known(condition: Column) -> Column:
    """Turns null, the result for a null value, into false."""
    return F.coalesce(condition, F.lit(False))


# -- Text columns that hold numbers, objects or arrays --


def _any_text(parent: Column, schema: StructType, text: Column) -> Column:
    """Whether a STRING column has what may have been a number with a fraction, an object or an array."""
    found = F.lit(False)
    for field in schema.fields:
        check = _text_check(field.dataType, text)
        if check is not None:
            found = found | _known(check(parent[field.name]))
    return found


def _text_check(kind: DataType, text: Column) -> Check | None:
    if isinstance(kind, StringType):
        return lambda column: _was_no_text(column, text)
    if isinstance(kind, ArrayType | MapType):
        inner = _text_check(kind.elementType if isinstance(kind, ArrayType) else kind.valueType, text)
        if inner is None:
            return None
        return lambda column: F.exists(column if isinstance(kind, ArrayType) else F.map_values(column), inner)
    if isinstance(kind, StructType) and any(_text_check(field.dataType, text) for field in kind.fields):
        return lambda column: _any_text(column, kind, text)
    return None


def _was_no_text(column: Column, text: Column) -> Column:
    """Cheap comparisons come first: almost every text starts with something else."""
    container = column.startswith("{") | column.startswith("[") | column.startswith('"')
    starts_as_number = (column >= "-") & (column < ":")
    return (container | (starts_as_number & column.rlike(_FRACTION))) & ~_is_quoted(column, text)


def _is_quoted(column: Column, text: Column) -> Column:
    """Whether a payload has this as a string, with the usual escapes."""
    written = column
    for character, escape in _ESCAPES.items():
        written = F.replace(written, F.lit(character), F.lit(escape))
    return text.contains(F.concat(F.lit('"'), written, F.lit('"')))

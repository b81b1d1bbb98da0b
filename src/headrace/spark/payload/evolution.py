"""How the schema of a table may change: only in ways that keep the existing rows correct.

| change | |
|---|---|
| a new field | allowed: older rows have null |
| a field that is gone | stays in the table, and is null from now on |
| NOT NULL added or dropped | allowed: it applies to messages from now on, and no column of a table has it |
| a number of a larger type | `WIDER`; which formats can do it is in the table |
| anything else | refused, with the path of the field |

Fields of structs, in arrays and maps too, follow the same rules.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructField,
    StructType,
)

from headrace.errors import UsageError
from headrace.spark.payload.ddl import type_text

ALL = ("delta", "iceberg", "parquet")

WIDER: dict[tuple[type[DataType], type[DataType]], tuple[str, ...]] = {
    (ByteType, ShortType): ALL,
    (ByteType, IntegerType): ALL,
    (ByteType, LongType): ALL,
    (ShortType, IntegerType): ALL,
    (ShortType, LongType): ALL,
    (IntegerType, LongType): ALL,
    (FloatType, DoubleType): ALL,
    # A double holds every integer of 32 bits; Iceberg does not turn integers into fractions.
    (ByteType, DoubleType): ("delta", "parquet"),
    (ShortType, DoubleType): ("delta", "parquet"),
    (IntegerType, DoubleType): ("delta", "parquet"),
}
"""Which formats can turn one type into the other. Decimals are in `_wider_decimal`."""

DIGITS: dict[type[DataType], int] = {ByteType: 10, ShortType: 10, IntegerType: 10, LongType: 20}
"""How many digits before the point a DECIMAL needs to replace an integer, by Delta's rules."""

NEW_TABLE = "land into a new table, or keep the type and let such rows become dead letters"


def evolved(old: StructType, new: StructType, format_name: str = "delta") -> StructType:
    """The schema of a table with schema `old` that gets rows of `new`: old fields first, in their order.

    Raises UsageError with the path of the first field that cannot change this way.
    """
    return _struct(old, new, (), format_name)


def _struct(old: StructType, new: StructType, path: tuple[str, ...], format_name: str) -> StructType:
    offered = {field.name.lower(): field for field in new.fields}
    fields = [_field(field, offered.pop(field.name.lower(), None), path, format_name) for field in old.fields]
    return StructType([*fields, *(StructField(new.name, new.dataType) for new in offered.values())])


def _field(old: StructField, new: StructField | None, path: tuple[str, ...], format_name: str) -> StructField:
    if new is None:
        return StructField(old.name, old.dataType, True)
    place = (*path, old.name)
    if new.name != old.name:
        raise UsageError(f"{'.'.join(place)} is now written {new.name}", hint=f"write {old.name}")
    if old.nullable and not new.nullable:
        new = StructField(new.name, new.dataType, True)
    kind = _type(old.dataType, new.dataType, place, format_name)
    return StructField(old.name, kind, new.nullable)


def _type(old: DataType, new: DataType, path: tuple[str, ...], format_name: str) -> DataType:
    if isinstance(old, StructType) and isinstance(new, StructType):
        return _struct(old, new, path, format_name)
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return ArrayType(_type(old.elementType, new.elementType, (*path, "element"), format_name))
    if isinstance(old, MapType) and isinstance(new, MapType):
        if old.keyType != new.keyType:
            raise _refused(old.keyType, new.keyType, (*path, "key"))
        return MapType(old.keyType, _type(old.valueType, new.valueType, (*path, "value"), format_name))
    if old == new:
        return old
    formats = WIDER.get((type(old), type(new)), ()) or _wider_decimal(old, new)
    if formats and format_name not in formats:
        change = f"{'.'.join(path)} from {type_text(old)} to {type_text(new)}"
        raise UsageError(f"{format_name.capitalize()} cannot change {change}", hint=NEW_TABLE)
    if formats:
        return new
    if WIDER.get((type(new), type(old))) or _wider_decimal(new, old):
        return old  # narrower numbers fit into what the table has
    raise _refused(old, new, path)


def _wider_decimal(old: DataType, new: DataType) -> tuple[str, ...]:
    if not isinstance(new, DecimalType):
        return ()
    if isinstance(old, DecimalType):
        if new.scale == old.scale:
            return ALL if new.precision > old.precision else ()
        more_before = new.precision - new.scale >= old.precision - old.scale
        return ("delta", "parquet") if new.scale > old.scale and more_before else ()
    digits = DIGITS.get(type(old))
    return ("delta", "parquet") if digits and new.precision - new.scale >= digits else ()


def _refused(old: DataType, new: DataType, path: tuple[str, ...]) -> UsageError:
    change = f"from {type_text(old)} to {type_text(new)}"
    return UsageError(f"{'.'.join(path)} cannot change {change}", hint=NEW_TABLE)

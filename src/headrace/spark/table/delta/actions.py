"""The entries of Delta's log for files, and Spark's schema as Delta writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from headrace.errors import UsageError
from headrace.spark.table.interface import ColumnFigures, DataFile
from headrace.spark.table.schemas import nullable

if TYPE_CHECKING:
    from deltalake import Schema
    from deltalake.transaction import AddAction, RemoveAction
    from pyspark.sql.types import DataType, StructType

# Without a limit on texts, the log could become as large as the data.
LONGEST_TEXT = 64

KNOWN_TYPES = {
    *("StringType", "BinaryType", "BooleanType", "DateType", "TimestampType", "TimestampNTZType"),
    *("ByteType", "ShortType", "IntegerType", "LongType", "FloatType", "DoubleType", "DecimalType"),
}


def delta_schema(schema: StructType) -> Schema:
    """Raises UsageError if a column has a type that Delta does not know."""
    from deltalake import Schema

    for field in schema:
        if unknown := next(_unknown(field.dataType), None):
            raise UsageError(
                f"a Delta table cannot hold the column {field.name}: {unknown.simpleString()} is not a type "
                "that it knows",
                hint="cast it to another type",
            )
    return Schema.from_json(nullable(schema).json())


def _unknown(kind: DataType) -> Iterator[DataType]:
    from pyspark.sql import types

    if isinstance(kind, types.StructType):
        for field in kind:
            yield from _unknown(field.dataType)
    elif isinstance(kind, types.ArrayType):
        yield from _unknown(kind.elementType)
    elif isinstance(kind, types.MapType):
        yield from _unknown(kind.keyType)
        yield from _unknown(kind.valueType)
    elif type(kind).__name__ not in KNOWN_TYPES:
        yield kind


def add_action(file: DataFile, now_ms: int, *, data_change: bool = True) -> AddAction:
    from deltalake.transaction import AddAction

    return AddAction(file.path, file.size, dict(file.partition), now_ms, data_change, stats_of(file))


def remove_action(file: DataFile, now_ms: int, *, data_change: bool = True) -> RemoveAction:
    from deltalake.transaction import RemoveAction

    return RemoveAction(file.path, data_change, now_ms, file.size, dict(file.partition))


def stats_of(file: DataFile) -> str:
    least = _known({name: _least(figures) for name, figures in file.columns.items()})
    greatest = _known({name: _greatest(figures) for name, figures in file.columns.items()})
    nulls = _known({name: figures.nulls for name, figures in file.columns.items()})
    figures = {"numRecords": file.rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return json.dumps(figures, ensure_ascii=False)


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _least(figures: ColumnFigures) -> Any:
    if isinstance(figures.least, str):
        return figures.least[:LONGEST_TEXT]  # the beginning of a text is not greater than the text
    return _plain(figures.least)


def _greatest(figures: ColumnFigures) -> Any:
    if isinstance(figures.greatest, str) and len(figures.greatest) > LONGEST_TEXT:
        return None
    return _plain(figures.greatest)


def _plain(value: Any) -> Any:
    """As Delta writes it in JSON; None for types for which it keeps no least and greatest values."""
    if isinstance(value, bool | bytes):
        return None
    if isinstance(value, datetime):
        zone = "Z" if value.tzinfo else ""
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + zone
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, Decimal):
        return None  # a number in JSON would lose digits
    return value if isinstance(value, int | str) else None

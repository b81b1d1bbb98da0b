"""Schemas of tables: every column may be null, since what a later query leaves out is null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def nullable(schema: StructType) -> StructType:
    """The same columns, of which each may be null, at any depth, and without comments."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(_nullable(schema.jsonValue()))


def _nullable(value: Any) -> Any:
    if isinstance(value, list):
        return [_nullable(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {name: _nullable(item) for name, item in value.items()}
    for name in "nullable", "containsNull", "valueContainsNull":
        if name in found:
            found[name] = True
    if "metadata" in found:
        found["metadata"] = {}
    return found


def conform(rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows with the types of the table, which may be wider. What they do not have is null."""
    types = {column.name: column.dataType for column in nullable(schema)}
    same = all(types.get(column.name) == column.dataType for column in nullable(rows.schema))
    return rows if same else rows.to(schema)

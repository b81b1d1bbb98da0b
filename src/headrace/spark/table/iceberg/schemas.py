"""Spark's types as Iceberg's, and back.

Every column is optional: what a later query leaves out is null. Iceberg has no 8- and 16-bit integers;
they become 32-bit ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.errors import UsageError

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType, NestedField
    from pyspark.sql.types import DataType, StructType


def iceberg_schema(schema: StructType) -> Schema:
    """Raises UsageError if Iceberg has no such type."""
    from pyiceberg.schema import Schema

    return Schema(*_fields(schema, itertools.count(1), ""))


def spark_schema(schema: Schema) -> StructType:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, _spark_type(field.field_type)) for field in schema.fields])


def _fields(struct: StructType, ids: Iterator[int], prefix: str) -> list[NestedField]:
    from pyiceberg.types import NestedField

    return [
        NestedField(
            field_id=next(ids),
            name=field.name,
            field_type=_iceberg_type(field.dataType, ids, prefix + field.name),
            required=False,
        )
        for field in struct
    ]


def _iceberg_type(kind: DataType, ids: Iterator[int], column: str) -> IcebergType:
    from pyiceberg import types as iceberg
    from pyspark.sql import types as spark

    if isinstance(kind, spark.StructType):
        return iceberg.StructType(*_fields(kind, ids, f"{column}."))
    if isinstance(kind, spark.ArrayType):
        element = next(ids)
        return iceberg.ListType(element, _iceberg_type(kind.elementType, ids, column), element_required=False)
    if isinstance(kind, spark.MapType):
        key, value = next(ids), next(ids)
        return iceberg.MapType(
            key,
            _iceberg_type(kind.keyType, ids, column),
            value,
            _iceberg_type(kind.valueType, ids, column),
            value_required=False,
        )
    if isinstance(kind, spark.DecimalType):
        return iceberg.DecimalType(kind.precision, kind.scale)
    simple: dict[type[DataType], IcebergType] = {
        spark.BooleanType: iceberg.BooleanType(),
        spark.ByteType: iceberg.IntegerType(),
        spark.ShortType: iceberg.IntegerType(),
        spark.IntegerType: iceberg.IntegerType(),
        spark.LongType: iceberg.LongType(),
        spark.FloatType: iceberg.FloatType(),
        spark.DoubleType: iceberg.DoubleType(),
        spark.StringType: iceberg.StringType(),
        spark.BinaryType: iceberg.BinaryType(),
        spark.DateType: iceberg.DateType(),
        spark.TimestampType: iceberg.TimestamptzType(),
        spark.TimestampNTZType: iceberg.TimestampType(),
    }
    if type(kind) in simple:
        return simple[type(kind)]
    raise UsageError(
        f"an Iceberg table cannot hold the column {column} of type {kind.simpleString()}",
        hint="cast it to another type",
    )


def _spark_type(kind: IcebergType) -> DataType:
    from pyiceberg import types as iceberg
    from pyspark.sql import types as spark

    if isinstance(kind, iceberg.StructType):
        return spark.StructType([spark.StructField(f.name, _spark_type(f.field_type)) for f in kind.fields])
    if isinstance(kind, iceberg.ListType):
        return spark.ArrayType(_spark_type(kind.element_type))
    if isinstance(kind, iceberg.MapType):
        return spark.MapType(_spark_type(kind.key_type), _spark_type(kind.value_type))
    if isinstance(kind, iceberg.DecimalType):
        return spark.DecimalType(kind.precision, kind.scale)
    simple: dict[type[IcebergType], DataType] = {
        iceberg.BooleanType: spark.BooleanType(),
        iceberg.IntegerType: spark.IntegerType(),
        iceberg.LongType: spark.LongType(),
        iceberg.FloatType: spark.FloatType(),
        iceberg.DoubleType: spark.DoubleType(),
        iceberg.StringType: spark.StringType(),
        iceberg.BinaryType: spark.BinaryType(),
        iceberg.DateType: spark.DateType(),
        iceberg.TimestamptzType: spark.TimestampType(),
        iceberg.TimestampType: spark.TimestampNTZType(),
    }
    if type(kind) in simple:
        return simple[type(kind)]
    raise UsageError(f"Spark cannot read columns of Iceberg's type {kind}; another program has added one")

"""The types of Arrow for those of Spark. PySpark's own function changes its arguments between versions."""

from __future__ import annotations

import pyarrow
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

SIMPLE: dict[type[DataType], pyarrow.DataType] = {
    BinaryType: pyarrow.binary(),
    BooleanType: pyarrow.bool_(),
    ByteType: pyarrow.int8(),
    DateType: pyarrow.date32(),
    DoubleType: pyarrow.float64(),
    FloatType: pyarrow.float32(),
    IntegerType: pyarrow.int32(),
    LongType: pyarrow.int64(),
    ShortType: pyarrow.int16(),
    StringType: pyarrow.string(),
    TimestampNTZType: pyarrow.timestamp("us"),
    TimestampType: pyarrow.timestamp("us", "UTC"),
}


def arrow_type(kind: DataType) -> pyarrow.DataType:
    """Everything in it may be null except the keys of maps."""
    if isinstance(kind, StructType):
        return pyarrow.struct([(field.name, arrow_type(field.dataType)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return pyarrow.list_(pyarrow.field("element", arrow_type(kind.elementType)))
    if isinstance(kind, MapType):
        return pyarrow.map_(arrow_type(kind.keyType), arrow_type(kind.valueType))
    if isinstance(kind, DecimalType):
        return pyarrow.decimal128(kind.precision, kind.scale)
    return SIMPLE[type(kind)]

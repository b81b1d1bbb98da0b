"""A Spark schema from an Avro schema. A field that has no default and cannot be null is NOT NULL."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.errors import UsageError
from headrace.spark.payload.ddl import MAX_DECIMAL_DIGITS

PRIMITIVE: dict[str, type[DataType]] = {
    "boolean": BooleanType,
    "bytes": BinaryType,
    "double": DoubleType,
    "float": FloatType,
    "int": IntegerType,
    "long": LongType,
    "string": StringType,
}
LOGICAL: dict[tuple[str, str], type[DataType]] = {
    ("int", "date"): DateType,
    ("int", "time-millis"): StringType,
    ("long", "time-micros"): StringType,
    ("long", "timestamp-millis"): TimestampType,
    ("long", "timestamp-micros"): TimestampType,
    ("long", "local-timestamp-millis"): TimestampNTZType,
    ("long", "local-timestamp-micros"): TimestampNTZType,
    ("string", "uuid"): StringType,
}
"""Other logical types are ignored, as Avro's specification requires: the value keeps its underlying type."""
CONTAINERS = ("array", "enum", "fixed", "map", "record")


def read_avro_schema(text: str, name: str) -> StructType:
    """Raises UsageError with the file's name and the field."""
    import fastavro

    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{name}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
    reader = _Reader(name)
    kind, _ = reader.read(document, "", ())
    if not isinstance(kind, StructType):
        raise UsageError(f"{name}: the schema must be a record, whose fields are the columns")
    try:
        fastavro.parse_schema(document)
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise UsageError(f"{name}: not an Avro schema: {error}") from None
    return kind


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._named: dict[str, Mapping[str, Any]] = {}
        self._namespace = ""

    def read(self, schema: Any, path: str, within: tuple[str, ...]) -> tuple[DataType, bool]:
        """The type, and whether it may be null. `within` are the records that contain it."""
        if isinstance(schema, list):
            return self._union(schema, path, within)
        if isinstance(schema, str):
            if schema in PRIMITIVE:
                return PRIMITIVE[schema](), False
            full = self._full_name(schema)
            if full not in self._named:
                close = difflib.get_close_matches(schema, (*PRIMITIVE, *self._named), n=1)
                hint = f"did you mean {close[0]}?" if close else f"types are {', '.join(PRIMITIVE)}"
                raise self._error(path, f"there is no type {schema!r}", hint)
            return self.read(self._named[full], path, within)
        if not isinstance(schema, Mapping) or "type" not in schema:
            raise self._error(path, f"{json.dumps(schema)[:40]} is not a schema")
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.read(kind, path, within)
        logical = schema.get("logicalType")
        if logical == "decimal" and kind in ("bytes", "fixed"):
            if kind == "fixed":
                self._remember(schema, path)
            return self._decimal(schema, path), False
        if (kind, logical) in LOGICAL:
            return LOGICAL[kind, str(logical)](), False
        if kind in CONTAINERS:
            return self._container(kind, schema, path, within), False
        return self.read(kind, path, within)

    def _container(
        self, kind: str, schema: Mapping[str, Any], path: str, within: tuple[str, ...]
    ) -> DataType:
        if kind == "array":
            return ArrayType(self.read(schema.get("items"), f"{path}[]", within)[0])
        if kind == "map":
            return MapType(StringType(), self.read(schema.get("values"), f"{path}[]", within)[0])
        name = self._remember(schema, path)
        if kind != "record":
            return StringType() if kind == "enum" else BinaryType()
        if name in within:
            raise self._error(path, f"the record {name} contains itself; a table's columns have an end")
        outer, self._namespace = self._namespace, name.rpartition(".")[0]
        fields = [self._field(field, path, (*within, name)) for field in schema.get("fields", [])]
        self._namespace = outer
        if not fields:
            raise self._error(path, f"the record {name} has no fields")
        return StructType(fields)

    def _field(self, field: Any, path: str, within: tuple[str, ...]) -> StructField:
        if not isinstance(field, Mapping) or not isinstance(field.get("name"), str):
            raise self._error(path, f"{json.dumps(field)[:40]} is not a field: it has no name")
        kind, nullable = self.read(
            field.get("type"), f"{path}.{field['name']}" if path else field["name"], within
        )
        return StructField(field["name"], kind, nullable or "default" in field)

    def _remember(self, schema: Mapping[str, Any], path: str) -> str:
        """The full name of a type, by which it can be referenced."""
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise self._error(path, f"a type {schema['type']} needs a name")
        full = f"{schema['namespace']}.{name}" if schema.get("namespace") and "." not in name else name
        full = self._full_name(full)
        self._named[full] = {**schema, "name": full}
        return full

    def _full_name(self, name: str) -> str:
        return name if "." in name or not self._namespace else f"{self._namespace}.{name}"

    def _union(self, schema: list[Any], path: str, within: tuple[str, ...]) -> tuple[DataType, bool]:
        kinds = [kind for kind in schema if kind != "null"]
        if len(kinds) != 1:
            names = ", ".join(
                str(kind.get("name", kind["type"]) if isinstance(kind, dict) else kind) for kind in kinds
            )
            raise self._error(path, f"a column has one type, or one type and null, not {names or 'null'}")
        return self.read(kinds[0], path, within)[0], len(kinds) < len(schema)

    def _decimal(self, schema: Mapping[str, Any], path: str) -> DecimalType:
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision:
            raise self._error(path, f"there is no decimal({precision}, {scale})")
        if not 1 <= precision <= MAX_DECIMAL_DIGITS:
            raise self._error(path, f"a DECIMAL has at most {MAX_DECIMAL_DIGITS} digits, not {precision}")
        return DecimalType(precision, scale)

    def _error(self, path: str, message: str, hint: str = "") -> UsageError:
        return UsageError(f"{self._name}: {f'{path}: ' if path else ''}{message}", hint=hint)

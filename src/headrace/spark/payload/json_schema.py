"""A Spark schema from a JSON Schema, as far as a table can say the same.

`required` becomes NOT NULL unless null is allowed; `date-time` and `date` become TIMESTAMP and DATE; an
object without known properties becomes a MAP, or text if nothing is said about its values; a choice of
several types is refused, because a column has one.
"""

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
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.errors import UsageError

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
TEXT_FORMATS: dict[str, type[DataType]] = {"date-time": TimestampType, "date": DateType}
MAX_LONG = 2**63 - 1
BIG_INTEGER = DecimalType(38, 0)


def read_json_schema(text: str, name: str) -> StructType:
    """Raises UsageError with the file's name and the place in it."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{name}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
    reader = _Reader(document, name)
    kind, _ = reader.read(document, "#", ())
    if not isinstance(kind, StructType):
        raise UsageError(f"{name}: the schema must describe an object with properties")
    return kind


class _Reader:
    def __init__(self, document: Any, name: str) -> None:
        self._document = document
        self._name = name

    def read(self, schema: Any, place: str, within: tuple[str, ...]) -> tuple[DataType, bool]:
        """The type, and whether it may be null. `within` are the references that led here."""
        if schema is True or schema == {}:
            return StringType(), True
        if not isinstance(schema, Mapping):
            raise self._error(place, "a schema is an object, not " + json.dumps(schema)[:40])
        if "$ref" in schema:
            return self._reference(schema["$ref"], place, within)
        for word in ("anyOf", "oneOf", "allOf"):
            if word in schema:
                return self._choice(schema, word, place, within)
        names = self._type_names(schema, place)
        nullable = "null" in names or schema.get("nullable") is True
        kinds = [name for name in names if name != "null"]
        if "number" in kinds:
            kinds = [name for name in kinds if name != "integer"]
        if len(kinds) != 1:
            found = " or ".join(kinds) if kinds else "nothing but null"
            raise self._error(place, f"a column has one type, not {found}", "let it be a string, or one type")
        return self._one(kinds[0], schema, place, within), nullable

    def _one(self, kind: str, schema: Mapping[str, Any], place: str, within: tuple[str, ...]) -> DataType:
        if kind == "object":
            return self._object(schema, place, within)
        if kind == "array":
            if "prefixItems" in schema or isinstance(schema.get("items"), list):
                raise self._error(place, "an array whose items have different types cannot be a column")
            return ArrayType(self.read(schema.get("items", True), f"{place}/items", within)[0])
        if kind == "integer":
            limits = (schema.get("minimum", 0), schema.get("maximum", 0))
            if any(isinstance(limit, int | float) and abs(limit) > MAX_LONG for limit in limits):
                return BIG_INTEGER
            return IntegerType() if schema.get("format") == "int32" else LongType()
        if kind == "string":
            if schema.get("contentEncoding") == "base64" or schema.get("format") == "byte":
                return BinaryType()
            return TEXT_FORMATS.get(str(schema.get("format")), StringType)()
        return BooleanType() if kind == "boolean" else DoubleType()

    def _object(self, schema: Mapping[str, Any], place: str, within: tuple[str, ...]) -> DataType:
        properties = schema.get("properties")
        if not properties:
            values = schema.get("additionalProperties", True)
            if values is True or values == {}:
                return StringType()  # any object, as JSON text
            return MapType(StringType(), self.read(values, f"{place}/additionalProperties", within)[0])
        if not isinstance(properties, Mapping):
            raise self._error(f"{place}/properties", "properties are an object")
        required = schema.get("required", [])
        if not isinstance(required, list):
            raise self._error(f"{place}/required", "required is a list of names")
        for name in required:
            if name not in properties:
                close = difflib.get_close_matches(str(name), properties, n=1)
                hint = f"did you mean {close[0]}?" if close else ""
                raise self._error(f"{place}/required", f"there is no property {name!r}", hint)
        fields = []
        for name, inner in properties.items():
            kind, nullable = self.read(inner, f"{place}/properties/{_escaped(name)}", within)
            fields.append(StructField(name, kind, nullable or name not in required))
        return StructType(fields)

    def _type_names(self, schema: Mapping[str, Any], place: str) -> list[str]:
        given = schema.get("type")
        if given is None:
            return self._implied(schema, place)
        names = given if isinstance(given, list) else [given]
        for name in names:
            if name not in TYPES:
                close = difflib.get_close_matches(str(name), TYPES, n=1)
                hint = f"did you mean {close[0]}?" if close else f"types are {', '.join(TYPES)}"
                raise self._error(place, f"{json.dumps(name)} is not a type of JSON Schema", hint)
        return names

    def _implied(self, schema: Mapping[str, Any], place: str) -> list[str]:
        """The type that follows from `enum`, `const`, `properties` or `items`."""
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if values:
            kinds = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
            return sorted({kinds.get(type(value), "object") for value in values})
        if "properties" in schema or "additionalProperties" in schema:
            return ["object"]
        if "items" in schema:
            return ["array"]
        raise self._error(place, "no type is given", f"types are {', '.join(TYPES)}")

    def _choice(
        self, schema: Mapping[str, Any], word: str, place: str, within: tuple[str, ...]
    ) -> tuple[DataType, bool]:
        """A choice of one type and null; anything else is refused."""
        options = schema[word]
        if not isinstance(options, list) or not options:
            raise self._error(f"{place}/{word}", "must be a list of schemas")
        others = [(i, option) for i, option in enumerate(options) if option != {"type": "null"}]
        found = [self.read(option, f"{place}/{word}/{i}", within) for i, option in others]
        if not found or any(kind != found[0][0] for kind, _ in found):
            raise self._error(f"{place}/{word}", "a column has one type, or one type and null")
        nullable = len(others) < len(options) or any(null for _, null in found)
        return found[0][0], nullable

    def _reference(self, reference: Any, place: str, within: tuple[str, ...]) -> tuple[DataType, bool]:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise self._error(place, f"{reference} is not in this document", "copy it into $defs")
        if reference in within:
            raise self._error(place, f"{reference} contains itself", "a table's columns have an end")
        target = self._document
        for part in reference[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or key not in target:
                raise self._error(place, f"there is no {reference}")
            target = target[key]
        return self.read(target, reference, (*within, reference))

    def _error(self, place: str, message: str, hint: str = "") -> UsageError:
        return UsageError(f"{self._name}: {place}: {message}", hint=hint)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")

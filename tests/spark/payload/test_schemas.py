"""Schemas in four languages become the same columns, and a mistake in one is found before Spark starts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import UsageError
from headrace.spark.payload.ddl import ddl, parse_ddl
from headrace.spark.payload.decoding import Decoding
from headrace.spark.payload.schema import read_schema
from tests.spark.payload.descriptors import ORDERS_DDL, descriptor_set

DDL = [
    "id BIGINT NOT NULL, price DECIMAL(10, 2), tags ARRAY<STRING>",
    "a STRUCT<b: INT NOT NULL, c: MAP<STRING, ARRAY<DATE>>>, `odd name` TIMESTAMP, `tick``s` BINARY",
    "a TINYINT, b SMALLINT, c FLOAT, d DOUBLE, e BOOLEAN, f TIMESTAMP_NTZ, g DECIMAL(38, 38)",
]


@pytest.mark.parametrize("text", DDL)
def test_ddl_is_read_as_it_was_written(text: str) -> None:
    assert ddl(parse_ddl(text)) == text


def test_ddl_may_be_written_in_other_ways() -> None:
    text = "a: long,\n b string not null comment 'it''s', c dec, d struct<x int>"
    assert ddl(parse_ddl(text.replace("''", ""))) == (
        "a BIGINT, b STRING NOT NULL, c DECIMAL(10, 0), d STRUCT<x: INT>"
    )


def test_spark_reads_our_ddl_as_we_do(spark: Any) -> None:
    from pyspark.sql.types import StructType

    for text in DDL:
        assert StructType.fromDDL(text) == parse_ddl(text)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("a BIGNT", "schema, column a: BIGNT is not a type", "did you mean BIGINT?"),
        ("a VARCHAR(10)", "schema, column a: VARCHAR is not a type", "did you mean STRING?"),
        ("a STRUCT<b: ARRAY<INTT>>", "schema, column a.b: INTT is not a type", "did you mean INT?"),
        ("a", "schema, column a: expected a type, found the end", "write it like"),
        ("a INT b INT", "schema: expected a comma or the end, found 'b' at character 7", "write it like"),
        ("a INT,", "schema: expected a column name, found the end", "write it like"),
        ("a ARRAY<INT", "schema, column a: expected '>', found the end", "write it like"),
        ("a DECIMAL(39, 2)", "schema, column a: there is no DECIMAL(39, 2)", "it has 1 to 38 digits"),
        ("a DECIMAL(3, 4)", "schema, column a: there is no DECIMAL(3, 4)", "it has 1 to 38 digits"),
        ("a INT, A INT", "the schema has the column A twice", "upper and lower case"),
        ("a INT; b INT", "the schema has an unexpected ';' at character 6", "write it like"),
        ("a INT NOT", "schema: expected a comma or the end, found 'NOT' at character 7", "write it like"),
    ],
)
def test_a_mistake_in_ddl_is_named(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_ddl(text)
    assert refused.value.message == message
    assert refused.value.hint.startswith(hint)


JSON_SCHEMA = {
    "$defs": {"money": {"type": "number"}, "a/b": {"type": ["string", "null"]}},
    "type": "object",
    "required": ["id", "note", "at"],
    "properties": {
        "id": {"type": "integer"},
        "small": {"type": "integer", "format": "int32"},
        "large": {"type": "integer", "maximum": 10**20},
        "price": {"$ref": "#/$defs/money"},
        "note": {"$ref": "#/$defs/a~1b"},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "kind": {"enum": ["new", "old"]},
        "ok": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {"type": "object"},
        "who": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "x": {"type": ["integer", "number"]}},
        },
        "blob": {"type": "string", "contentEncoding": "base64"},
    },
}


def schema_file(directory: Path, name: str, content: object) -> str:
    path = directory / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_a_json_schema_becomes_columns(tmp_path: Path) -> None:
    found = read_schema(schema_file(tmp_path, "orders.json", JSON_SCHEMA))
    assert found.payload == "json"
    assert ddl(found.schema) == (
        "id BIGINT NOT NULL, small INT, large DECIMAL(38, 0), price DOUBLE, note STRING, "
        "at TIMESTAMP NOT NULL, day DATE, kind STRING, ok BOOLEAN, tags ARRAY<STRING>, "
        "counts MAP<STRING, BIGINT>, any STRING, who STRUCT<name: STRING NOT NULL, x: DOUBLE>, blob BINARY"
    )


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"x": {"type": "strng"}}, '#/properties/x: "strng" is not a type of JSON Schema'),
        (
            {"x": {"type": ["string", "integer"]}},
            "#/properties/x: a column has one type, not string or integer",
        ),
        ({"x": {}, "y": {"$ref": "#/nowhere"}}, "#/properties/y: there is no #/nowhere"),
        ({"x": {"$ref": "other.json"}}, "#/properties/x: other.json is not in this document"),
        ({"x": {"type": "array", "items": {"$ref": "#"}}}, "#/properties/x/items: # contains itself"),
        ({"x": {"description": "?"}}, "#/properties/x: no type is given"),
    ],
)
def test_a_mistake_in_a_json_schema_is_named(tmp_path: Path, schema: dict[str, Any], message: str) -> None:
    name = schema_file(tmp_path, "s.json", {"type": "object", "properties": schema})
    with pytest.raises(UsageError) as refused:
        read_schema(name)
    assert refused.value.message == f"{name}: {message}"


def test_a_json_schema_that_is_not_json_is_refused_with_its_line(tmp_path: Path) -> None:
    name = schema_file(tmp_path, "s.json", '{"type": "object",\n "properties": }')
    with pytest.raises(UsageError, match=r"s\.json:2:16: not JSON: Expecting value"):
        read_schema(name)


AVRO_SCHEMA = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "n", "type": ["null", "int"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "again", "type": "shop.Hash", "default": "\0\0\0\0"},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {
            "name": "who",
            "type": ["null", {"type": "record", "name": "Who", "fields": [{"name": "f", "type": "float"}]}],
        },
        {"name": "ok", "type": "boolean"},
        {"name": "d", "type": "double"},
    ],
}
AVRO_DDL = (
    "id BIGINT NOT NULL, n INT, price DECIMAL(10, 2) NOT NULL, at TIMESTAMP NOT NULL, day DATE NOT NULL, "
    "time STRING NOT NULL, uid STRING NOT NULL, kind STRING NOT NULL, hash BINARY NOT NULL, again BINARY, "
    "tags ARRAY<STRING> NOT NULL, counts MAP<STRING, BIGINT> NOT NULL, who STRUCT<f: FLOAT NOT NULL>, "
    "ok BOOLEAN NOT NULL, d DOUBLE NOT NULL"
)


def test_an_avro_schema_becomes_columns(tmp_path: Path) -> None:
    found = read_schema(schema_file(tmp_path, "order.avsc", AVRO_SCHEMA))
    assert found.payload == "avro"
    assert json.loads(found.document) == AVRO_SCHEMA
    assert ddl(found.schema) == AVRO_DDL


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("strng", "x: there is no type 'strng'"),
        (["int", "string"], "x: a column has one type, or one type and null, not int, string"),
        ({"type": "array", "items": "R"}, "x[]: the record R contains itself; a table's columns have an end"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 50},
            "x: a DECIMAL has at most 38 digits, not 50",
        ),
    ],
)
def test_a_mistake_in_an_avro_schema_is_named(tmp_path: Path, kind: object, message: str) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}
    name = schema_file(tmp_path, "r.avsc", schema)
    with pytest.raises(UsageError) as refused:
        read_schema(name)
    assert refused.value.message == f"{name}: {message}"
    assert refused.value.hint == ("did you mean string?" if kind == "strng" else "")


def test_a_descriptor_set_becomes_columns(tmp_path: Path) -> None:
    path = tmp_path / "orders.desc"
    path.write_bytes(descriptor_set())
    found = read_schema(str(path), message="Order")
    assert (found.payload, found.message) == ("protobuf", "shop.Order")
    assert ddl(found.schema) == ORDERS_DDL


@pytest.mark.parametrize(
    ("message", "error", "hint"),
    [
        ("Ordr", "has no message Ordr", "choose of shop.Order"),
        (None, "has 3 messages", "choose one with --message: shop.Order, shop.Order.Item, shop.Tree"),
        ("Tree", "children: the message shop.Tree contains itself", "a table's columns have an end"),
    ],
)
def test_a_wrong_message_is_refused(tmp_path: Path, message: str | None, error: str, hint: str) -> None:
    path = tmp_path / "orders.desc"
    path.write_bytes(descriptor_set())
    with pytest.raises(UsageError) as refused:
        read_schema(str(path), "protobuf", message)
    assert error in refused.value.message
    assert refused.value.hint.startswith(hint)


def test_files_that_are_no_schema_are_refused(tmp_path: Path) -> None:
    source = schema_file(tmp_path, "orders.proto", 'syntax = "proto3";')
    (tmp_path / "noise.desc").write_bytes(b"\xff\0\x01")
    for text, payload, message in [
        ("nowhere.json", None, "there is no file nowhere.json"),
        (source, None, f"{source} is Protobuf source"),
        (str(tmp_path / "noise.desc"), None, f"{tmp_path / 'noise.desc'} is not a Protobuf descriptor set"),
        (str(tmp_path), None, f"{tmp_path} cannot be read: Is a directory"),
        ("a INT", "avro", "avro payloads need an Avro schema (.avsc)"),
        ("a INT", "xml", "there is no payload format xml"),
        (None, "json", "json payloads need a schema"),
        ("a INT, b INT", "text", "a table of text payloads has one column, a STRING"),
        ("a MAP<INT, INT>", "json", "a: the keys of a JSON object are STRING, not INT"),
        ("a ARRAY<INT>", "csv", "a: CSV has no ARRAY<INT>"),
    ]:
        with pytest.raises(UsageError) as refused:
            read_schema(text, payload)
        assert refused.value.message == message


def test_a_payload_without_fields_is_one_column() -> None:
    assert ddl(read_schema(None, "text").schema) == "data STRING"
    assert ddl(read_schema(None, "raw").schema) == "data BINARY"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subject": "orders.{id}"}, "the column id comes from the subject and from the payload"),
        ({"subject": "orders.{SEQ}"}, "the column SEQ comes from the metadata and from the subject"),
        ({"metadata": ("seq", "seq")}, "the metadata has the column seq twice"),
        ({"metadata": ("sequence",)}, "a message has no column sequence"),
        ({"key": ("nothing",)}, "the key nothing is not a column"),
        (
            {"schema": parse_ddl("timestamp STRING")},
            "the column timestamp comes from the metadata and from the payload",
        ),
    ],
)
def test_columns_that_contradict_each_other_are_refused(change: dict[str, Any], message: str) -> None:
    decoding = replace(read_schema("id BIGINT, name STRING"), **change)
    with pytest.raises(UsageError) as refused:
        decoding.checked()
    assert refused.value.message == message


def test_a_decoding_survives_its_description() -> None:
    decoding = Decoding(
        "json", parse_ddl(DDL[1]), subject="orders.{kind}", metadata=("seq", "headers"), key=("kind",)
    )
    assert Decoding.from_json(json.loads(json.dumps(decoding.to_json()))) == decoding

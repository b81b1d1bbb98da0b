"""`--schema`: a DDL string, or a file with a JSON Schema, an Avro schema or a Protobuf descriptor set."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql.types import StructField, StructType

from headrace.errors import UsageError
from headrace.spark.payload.avro_schema import read_avro_schema
from headrace.spark.payload.ddl import parse_ddl
from headrace.spark.payload.decode import SINGLE, check_schema
from headrace.spark.payload.decoding import PAYLOADS, Decoding
from headrace.spark.payload.json_schema import read_json_schema
from headrace.spark.payload.protobuf_schema import document_of, read_descriptor_set

SINGLE_COLUMN = "data"
"""The column of a text or raw payload."""

NO_FILE = "write columns like `id BIGINT, price DECIMAL(10, 2)`, or the name of a file"


def read_schema(
    text: str | None, payload: str | None = None, message: str | None = None, *, confluent: bool = False
) -> Decoding:
    """What `--schema`, `--payload` and `--message` say about payloads.

    The caller adds subject, metadata and key with `dataclasses.replace`, then calls `checked()`. Without
    `payload`, the schema decides the format. Raises UsageError in one line. It needs no Spark session.
    """
    if payload is not None and payload not in PAYLOADS:
        raise UsageError(f"there is no payload format {payload}", hint=f"formats are {', '.join(PAYLOADS)}")
    if not text:
        if payload not in SINGLE:
            raise UsageError(
                f"{payload or 'json'} payloads need a schema",
                hint="give one with --schema, or let --infer propose one",
            )
        return Decoding(payload, StructType([StructField(SINGLE_COLUMN, SINGLE[payload])]))
    found = _from_file(Path(text), payload, message or "") if _is_file(text) else _from_ddl(text, payload)
    if payload is not None and payload != found.payload:
        raise UsageError(f"{text} is a schema for {found.payload} payloads, not {payload}")
    if message and found.payload != "protobuf":
        raise UsageError(f"--message is for protobuf payloads, not {found.payload}")
    if confluent and found.payload != "avro":
        raise UsageError(f"Confluent's format is for avro payloads, not {found.payload}")
    check_schema(found)
    return Decoding(found.payload, found.schema, found.document, found.message, confluent=confluent)


def _is_file(text: str) -> bool:
    if any(character in text for character in " \t\n<(,`"):
        return Path(text).is_file() if len(text) < 4096 and "\n" not in text else False
    return True


def _from_ddl(text: str, payload: str | None) -> Decoding:
    if payload in ("avro", "protobuf"):
        kind = "an Avro schema (.avsc)" if payload == "avro" else "a Protobuf descriptor set"
        raise UsageError(f"{payload} payloads need {kind}", hint="give the name of the file with --schema")
    return Decoding(payload or "json", parse_ddl(text))


def _from_file(path: Path, payload: str | None, message: str) -> Decoding:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}", hint=NO_FILE) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=NO_FILE) from None
    text = _text(data)
    if payload == "protobuf" or text is None or (message and payload is None):
        schema, name = read_descriptor_set(data, str(path), message)
        return Decoding("protobuf", schema, document_of(data), name)
    if payload == "avro" or path.suffix == ".avsc" or _looks_like_avro(text):
        return Decoding("avro", read_avro_schema(text, str(path)), text)
    if text.lstrip().startswith("{"):
        return Decoding("json", read_json_schema(text, str(path)))
    if text.strip().startswith(("syntax", "package", "message", "//", "import")):
        raise UsageError(
            f"{path} is Protobuf source",
            hint=f"compile it: `protoc --include_imports --descriptor_set_out=FILE {path.name}`",
        )
    return Decoding(payload or "json", parse_ddl(text))


def _text(data: bytes) -> str | None:
    """None if it is binary: a descriptor set has bytes that text cannot have."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if any(character < " " and character not in "\t\r\n" for character in text) else text


def _looks_like_avro(text: str) -> bool:
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        return False
    return isinstance(document, dict) and document.get("type") == "record" and "fields" in document

"""A Spark schema from a Protobuf descriptor set: `protoc --include_imports --descriptor_set_out` writes it.

| Protobuf | column |
|---|---|
| uint32; uint64 | BIGINT; DECIMAL(20, 0), for numbers that a BIGINT cannot hold |
| enum | STRING, its name; a number that has no name stays a number |
| repeated, map, message | ARRAY, MAP, STRUCT |
| Timestamp; Duration | TIMESTAMP; DECIMAL(21, 9), its seconds |
| wrappers such as StringValue | their value, or null |
| Struct, Value, ListValue | STRING, as JSON |

Every column may be null, except `required` ones: a message of an older program lacks newer fields.
"""

from __future__ import annotations

import base64
import difflib
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.errors import UsageError

UNSIGNED_LONG = DecimalType(20, 0)
DURATION = DecimalType(21, 9)

# By the numbers of FieldDescriptorProto.Type.
SCALARS: dict[int, DataType] = {
    1: DoubleType(),
    2: FloatType(),
    3: LongType(),
    4: UNSIGNED_LONG,
    5: IntegerType(),
    6: UNSIGNED_LONG,
    7: LongType(),
    8: BooleanType(),
    9: StringType(),
    12: BinaryType(),
    13: LongType(),
    14: StringType(),
    15: IntegerType(),
    16: LongType(),
    17: IntegerType(),
    18: LongType(),
}
KNOWN: dict[str, DataType] = {
    "google.protobuf.Timestamp": TimestampType(),
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Struct": StringType(),
    "google.protobuf.Value": StringType(),
    "google.protobuf.ListValue": StringType(),
    "google.protobuf.BoolValue": BooleanType(),
    "google.protobuf.BytesValue": BinaryType(),
    "google.protobuf.DoubleValue": DoubleType(),
    "google.protobuf.FloatValue": FloatType(),
    "google.protobuf.Int32Value": IntegerType(),
    "google.protobuf.Int64Value": LongType(),
    "google.protobuf.StringValue": StringType(),
    "google.protobuf.UInt32Value": LongType(),
    "google.protobuf.UInt64Value": UNSIGNED_LONG,
}


def read_descriptor_set(data: bytes, name: str, message: str) -> tuple[StructType, str]:
    """The schema of a message, and the message's full name. Raises UsageError."""
    pool = descriptor_pool(data, name)
    names = _message_names(data)
    if not message:
        if len(names) != 1:
            raise UsageError(
                f"{name} has {len(names)} messages",
                hint=f"choose one with --message: {', '.join(names[:10])}",
            )
        message = names[0]
    full = [known for known in names if known == message or known.rpartition(".")[2] == message]
    if len(full) != 1:
        close = full or difflib.get_close_matches(message, names, n=3) or names[:10]
        state = "has several messages" if full else "has no message"
        raise UsageError(f"{name} {state} {message}", hint=f"choose of {', '.join(close)}")
    return _struct(pool.FindMessageTypeByName(full[0]), "", (), name), full[0]


def descriptor_pool(data: bytes, name: str) -> Any:
    """A pool with the files of a descriptor set. Raises UsageError if it is not one, or lacks files."""
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf.message import DecodeError

    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(data)
    except DecodeError:
        files = descriptor_pb2.FileDescriptorSet()
    if not any(file.name for file in files.file):
        raise UsageError(
            f"{name} is not a Protobuf descriptor set",
            hint="make one with `protoc --include_imports --descriptor_set_out=FILE orders.proto`",
        )
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files.file:
            pool.AddSerializedFile(file.SerializeToString())
    except TypeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise UsageError(f"{name}: {reason}", hint="use `protoc --include_imports`") from None
    return pool


def document_of(data: bytes) -> str:
    """As a text that executors get."""
    return base64.b64encode(data).decode()


def is_repeated(field: Any) -> bool:
    """Older versions of protobuf have labels instead."""
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _is_required(field: Any) -> bool:
    return bool(field.is_required if hasattr(field, "is_required") else field.label == field.LABEL_REQUIRED)


def is_map(field: Any) -> bool:
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def _message_names(data: bytes) -> list[str]:
    """The messages of the set, without those generated for maps and those of Google's own files."""
    from google.protobuf import descriptor_pb2

    names: list[str] = []

    def add(message: Any, prefix: str) -> None:
        if message.options.map_entry:
            return
        full = f"{prefix}.{message.name}" if prefix else message.name
        names.append(full)
        for nested in message.nested_type:
            add(nested, full)

    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        if not file.name.startswith("google/protobuf/"):
            for message in file.message_type:
                add(message, file.package)
    return names


def _struct(message: Any, path: str, within: tuple[str, ...], name: str) -> StructType:
    if message.full_name in within:
        raise UsageError(
            f"{name}: {path}: the message {message.full_name} contains itself",
            hint="a table's columns have an end",
        )
    fields = []
    for field in message.fields:
        inner = f"{path}.{field.name}" if path else field.name
        kind = _type(field, inner, (*within, message.full_name), name)
        fields.append(StructField(field.name, kind, not _is_required(field)))
    if not fields:
        raise UsageError(f"{name}: {path or message.full_name}: the message has no fields")
    return StructType(fields)


def _type(field: Any, path: str, within: tuple[str, ...], name: str) -> DataType:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[part] for part in ("key", "value"))
        return MapType(SCALARS[key.type], _one(value, path, within, name))
    kind = _one(field, path, within, name)
    return ArrayType(kind) if is_repeated(field) else kind


def _one(field: Any, path: str, within: tuple[str, ...], name: str) -> DataType:
    if field.message_type is None:
        return SCALARS[field.type]
    known = KNOWN.get(field.message_type.full_name)
    return known if known is not None else _struct(field.message_type, path, within, name)

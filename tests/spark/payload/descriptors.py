"""A Protobuf descriptor set as `protoc --include_imports --descriptor_set_out` writes it."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

ORDERS_DDL = (
    "id BIGINT, count INT, total DECIMAL(20, 0), small BIGINT, price DOUBLE, ok BOOLEAN, name STRING, "
    "hash BINARY, kind STRING, at TIMESTAMP, took DECIMAL(21, 9), note STRING, extra STRING, "
    "items ARRAY<STRUCT<sku: STRING, n: INT>>, counts MAP<STRING, BIGINT>, maybe INT, tags ARRAY<STRING>, "
    "card STRING, iban STRING, by_id MAP<INT, STRUCT<sku: STRING, n: INT>>, ratio FLOAT"
)

SCALARS = [
    ("id", Field.TYPE_INT64),
    ("count", Field.TYPE_SINT32),
    ("total", Field.TYPE_UINT64),
    ("small", Field.TYPE_FIXED32),
    ("price", Field.TYPE_DOUBLE),
    ("ok", Field.TYPE_BOOL),
    ("name", Field.TYPE_STRING),
    ("hash", Field.TYPE_BYTES),
]


def descriptor_set() -> bytes:
    """The package shop, with what it imports before it."""
    files = descriptor_pb2.FileDescriptorSet()
    for module in (timestamp_pb2, duration_pb2, wrappers_pb2, struct_pb2):
        module.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name="orders.proto", package="shop", syntax="proto3")
    file.dependency.extend(
        f"google/protobuf/{name}.proto" for name in ("timestamp", "duration", "wrappers", "struct")
    )
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="NEW", number=0)
    kind.value.add(name="OLD", number=3)
    _order(file.message_type.add(name="Order"))
    tree = file.message_type.add(name="Tree")
    _add(tree, "children", Field.TYPE_MESSAGE, ".shop.Tree", repeated=True)
    data: bytes = files.SerializeToString()
    return data


def _order(order: Any) -> None:
    for name, kind in SCALARS:
        _add(order, name, kind)
    _add(order, "kind", Field.TYPE_ENUM, ".shop.Kind")
    _add(order, "at", Field.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    _add(order, "took", Field.TYPE_MESSAGE, ".google.protobuf.Duration")
    _add(order, "note", Field.TYPE_MESSAGE, ".google.protobuf.StringValue")
    _add(order, "extra", Field.TYPE_MESSAGE, ".google.protobuf.Struct")
    item = order.nested_type.add(name="Item")
    _add(item, "sku", Field.TYPE_STRING)
    _add(item, "n", Field.TYPE_INT32)
    _add(order, "items", Field.TYPE_MESSAGE, ".shop.Order.Item", repeated=True)
    _map(order, "counts", Field.TYPE_STRING, Field.TYPE_INT64)
    maybe = _add(order, "maybe", Field.TYPE_INT32)
    maybe.proto3_optional = True
    _add(order, "tags", Field.TYPE_STRING, repeated=True)
    order.oneof_decl.add(name="paid")
    for name in ("card", "iban"):
        _add(order, name, Field.TYPE_STRING).oneof_index = 0
    order.oneof_decl.add(name="_maybe")
    maybe.oneof_index = 1
    _map(order, "by_id", Field.TYPE_INT32, Field.TYPE_MESSAGE, ".shop.Order.Item")
    _add(order, "ratio", Field.TYPE_FLOAT)


def _add(message: Any, name: str, kind: Any, type_name: str = "", *, repeated: bool = False) -> Any:
    label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    field = message.field.add(name=name, number=len(message.field) + 1, type=kind, label=label)
    if type_name:
        field.type_name = type_name
    return field


def _map(message: Any, name: str, key: Any, value: Any, type_name: str = "") -> None:
    entry = message.nested_type.add(name=name.title().replace("_", "") + "Entry")
    entry.options.map_entry = True
    _add(entry, "key", key)
    _add(entry, "value", value, type_name)
    _add(message, name, Field.TYPE_MESSAGE, f".{'shop.Order'}.{entry.name}", repeated=True)

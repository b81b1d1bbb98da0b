"""Protobuf payloads, decoded with the descriptors that came with the schema.

For every message type a function is built once, so that decoding does not need the descriptors.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from headrace.spark.payload.protobuf_schema import KNOWN, descriptor_pool, is_map, is_repeated
from headrace.spark.payload.python_columns import Decoder

Convert = Callable[[Any], Any]

ENUM, MESSAGE_TYPES = 14, (10, 11)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
NANOSECONDS = Decimal("1e-9")


class NotProtobuf(ValueError):
    """The payload is not such a message."""


def protobuf_decoder(document: str, message: str) -> Decoder:
    """`document` is a descriptor set in base64."""
    from google.protobuf import message_factory
    from google.protobuf.message import DecodeError

    pool = descriptor_pool(base64.b64decode(document), "the descriptor set")
    descriptor = pool.FindMessageTypeByName(message)
    kind = message_factory.GetMessageClass(descriptor)
    convert = _message(descriptor)

    def decode(payload: bytes) -> dict[str, Any]:
        try:
            found = kind.FromString(payload)
        except DecodeError as error:
            raise NotProtobuf(f"the payload is not the message {message}: {error}") from None
        if not found.IsInitialized():
            missing = ", ".join(found.FindInitializationErrors())
            raise NotProtobuf(f"{missing} is missing, but required")
        return convert(found)  # type: ignore[no-any-return]

    return decode


def _message(descriptor: Any) -> Convert:
    """From a message to a dict; a missing field is null, if it can be known to be missing."""
    always: list[tuple[str, Convert | None]] = []
    when_present: list[tuple[str, Convert | None]] = []
    for field in descriptor.fields:
        (when_present if field.has_presence else always).append((field.name, _field(field)))

    def convert(message: Any) -> dict[str, Any]:
        values = {}
        for name, inner in always:
            value = getattr(message, name)
            values[name] = inner(value) if inner else value
        for name, inner in when_present:
            if message.HasField(name):
                value = getattr(message, name)
                values[name] = inner(value) if inner else value
            else:
                values[name] = None
        return values

    return convert


def _field(field: Any) -> Convert | None:
    """None if Arrow accepts the value as it is."""
    if is_map(field):
        inner = _one(field.message_type.fields_by_name["value"]) or _same
        # Square brackets would create missing entries in a map of messages; items() does not.
        return lambda value: [(key, inner(item)) for key, item in value.items()]
    one = _one(field)
    if is_repeated(field):
        each = one or _same
        return lambda value: [each(item) for item in value]
    return one


def _one(field: Any) -> Convert | None:
    if field.type == ENUM:
        names = {value.number: value.name for value in field.enum_type.values}
        return lambda number: names.get(number) or str(number)
    if field.type not in MESSAGE_TYPES:
        return None
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return _timestamp
    if name == "google.protobuf.Duration":
        return lambda value: Decimal(value.seconds) + value.nanos * NANOSECONDS
    if name in ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"):
        return _json
    if name in KNOWN:
        return lambda value: value.value
    return _message(field.message_type)


def _same(value: Any) -> Any:
    return value


def _timestamp(value: Any) -> datetime.datetime:
    """Cut to microseconds. Raises OverflowError outside of the years 1 to 9999."""
    return EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)


def _json(value: Any) -> str:
    from google.protobuf import json_format

    text: str = json_format.MessageToJson(value, indent=None)
    return text

"""Avro payloads, one datum each, without a file header; in Confluent's format after five bytes.

fastavro gives days, times and decimals as Python's own, which have no year beyond 9999: such a value is a
problem of the row, not a wrong date.
"""

from __future__ import annotations

import datetime
import io
import json
import uuid
from typing import Any

from headrace.spark.payload.python_columns import Decoder

CONFLUENT_HEADER_BYTES = 5


class NotAvro(ValueError):
    """The payload is not a datum of the schema."""


def avro_decoder(document: str, *, confluent: bool) -> Decoder:
    """`document` is the text of the schema, which must have been the writer's."""
    import fastavro

    schema = fastavro.parse_schema(json.loads(document))
    has_others = "time-mi" in document or "uuid" in document

    def decode(payload: bytes) -> dict[str, Any]:
        start = 0
        if confluent:
            if len(payload) < CONFLUENT_HEADER_BYTES or payload[0] != 0:
                raise NotAvro("the payload does not start with the zero byte of Confluent's format")
            start = CONFLUENT_HEADER_BYTES
        source = io.BytesIO(payload)
        source.seek(start)
        try:
            value: Any = fastavro.schemaless_reader(source, schema, None)
        except Exception as error:  # for bytes that are not a datum, fastavro may raise anything
            reason = str(error) or type(error).__name__
            raise NotAvro(f"the payload is not Avro of this schema: {reason}") from None
        left = len(payload) - source.tell()
        if left:
            raise NotAvro(f"the payload is not Avro of this schema: {left} bytes are left over")
        record: dict[str, Any] = _plain(value) if has_others else value
        return record

    return decode


def _plain(value: Any) -> Any:
    """Times of day and UUIDs, for which tables have no type, as text."""
    if isinstance(value, datetime.time):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value

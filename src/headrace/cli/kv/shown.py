"""An entry of a bucket, for programs."""

from __future__ import annotations

from typing import Any

from headrace.cli.jetstream.shown import data_fields
from headrace.cli.kv.bucket import Entry
from headrace.go_formats import format_time


def json_entry(entry: Entry, *, value: bool = True) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "bucket": entry.bucket,
        "key": entry.key,
        "revision": entry.revision,
        "operation": entry.operation,
        "created": format_time(entry.created),
        "length": entry.size,
    }
    return fields | (data_fields(entry.value) if value and not entry.is_removal else {})

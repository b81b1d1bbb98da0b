"""`_headrace/table.json`: what a table is, for the query that continues it and for the view with its stream.

It holds no secret.

    {"version": 2, "format": "delta", "origin": "the stream ORDERS", "partition_by": ["date"],
     "streams": ["ORDERS"], "subject": "", "key": [], "decoding": {...}, "catalog": "", "table": ""}

Version 1 had only the format (Parquet), the origin and the partitioning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from headrace.errors import UsageError
from headrace.spark.table.files import Files
from headrace.spark.table.layout import DESCRIPTION

VERSION = 2
# What the table was created with. The rest may change from run to run, as a schema does.
FIXED = ("format", "origin", "partition_by", "key", "catalog", "table")


@dataclass(frozen=True)
class Description:
    format: str
    origin: str
    """Where the rows come from, in words: a table that has another origin is refused."""
    partition_by: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    subject: str = ""
    """The filter that the streams are read with."""
    lands_messages: bool = True
    """Each row is a message of the streams, so later messages complete the table; otherwise the rows are the
    result of a query."""
    key: tuple[str, ...] = ()
    decoding: Mapping[str, Any] = field(default_factory=dict)
    """How payloads become columns; empty if they stay as they are."""
    catalog: str = ""
    table: str = ""


def read_description(files: Files) -> Description | None:
    """None if there is none. Raises UsageError if it is of a later version or not ours."""
    if not files.exists(DESCRIPTION):
        return None
    try:
        found = json.loads(files.read(DESCRIPTION))
        version = found.get("version", 1)
        known = {item.name for item in fields(Description)}
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in found.items()
            if name in known
        }
        if version <= VERSION:
            return Description(**values)
    except (ValueError, TypeError, AttributeError):
        raise UsageError(
            f"{files.at(DESCRIPTION)} does not describe a table", hint="choose another directory"
        ) from None
    raise UsageError(
        f"the table in {files.root} was written by a later version of headrace",
        hint="update headrace, or choose another directory",
    )


def write_description(files: Files, description: Description) -> None:
    files.write(DESCRIPTION, json.dumps({"version": VERSION, **asdict(description)}, indent=1))


def check_same(files: Files, found: Description, wanted: Description) -> None:
    """Raises UsageError if a table cannot be continued with other settings than it was created with."""
    for name in FIXED:
        before, now = getattr(found, name), getattr(wanted, name)
        if before != now:
            raise UsageError(
                f"the table in {files.root} has {name} {_shown(before)}, not {_shown(now)}",
                hint="choose another directory, or the settings it was created with",
            )


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value) or "none"

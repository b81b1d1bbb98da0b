"""The rows of a batch as they are published: subjects, payloads, headers and ids."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow
import pyarrow.compute as compute

from headrace.spark.failure import DataSourceError
from headrace.spark.writing.sink_columns import Columns

# Instructions of the original publisher to its stream, which do not apply to another stream.
# A stream with sources removes the same headers.
NOT_COPIED = r"^(Nats-Msg-Id$|Nats-Expected-|Nats-Batch-)"
HEADERS = pyarrow.list_(
    pyarrow.field(
        "element",
        pyarrow.struct([pyarrow.field("key", pyarrow.string()), pyarrow.field("value", pyarrow.string())]),
    )
)


@dataclass(frozen=True)
class Messages:
    """A batch, ready to be published."""

    subjects: Any
    """An array, or one subject for all."""
    data: Any
    headers: Any | None
    message_ids: Any | None
    identities: tuple[Any, Any] | None
    """Stream and sequence of the message that each row was made from."""


def messages_of(batch: pyarrow.RecordBatch, columns: Columns, subject: str) -> Messages:
    """The columns of a batch as they are published. Raises DataSourceError for a NULL subject or no id."""
    data = batch.column(columns.data)
    data = data.cast(pyarrow.binary()) if data.type != pyarrow.binary() else data
    return Messages(
        subjects=subject or _whole(batch.column(columns.subject), "subject"),
        data=compute.fill_null(data, b"") if data.null_count else data,
        headers=_headers(batch.column(columns.headers)) if columns.headers >= 0 else None,
        message_ids=_ids(batch.column(columns.message_id)) if columns.message_id >= 0 else None,
        identities=_identities(batch, columns) if columns.have_identity else None,
    )


def _identities(batch: pyarrow.RecordBatch, columns: Columns) -> tuple[Any, Any]:
    return batch.column(columns.stream).cast(pyarrow.string()), batch.column(columns.seq)


def _ids(column: Any) -> Any:
    """An empty id does not count: the message would be duplicated if it is written again."""
    ids = _whole(column, "msgId")
    row = compute.index(ids, "").as_py()
    if row >= 0:
        raise DataSourceError(
            f"the column `msgId` is empty in row {row} of a batch",
            hint="give every row an id, or leave it out",
        )
    return ids


def _whole(column: Any, name: str) -> Any:
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise DataSourceError(
            f"the column `{name}` is NULL in row {row} of a batch",
            hint=f"drop such rows: WHERE {name} IS NOT NULL",
        )
    return column.cast(pyarrow.string()) if column.type != pyarrow.string() else column


def _headers(column: Any) -> Any | None:
    """As a list of structs without NULLs; None if no message has any."""
    if isinstance(column, pyarrow.MapArray):
        pairs = pyarrow.StructArray.from_arrays(
            [column.keys.cast(pyarrow.string()), column.items.cast(pyarrow.string())], names=["key", "value"]
        )
        lists = pyarrow.ListArray.from_arrays(
            column.offsets, pairs, mask=column.is_null() if column.null_count else None
        )
    else:
        lists = column
    if lists.null_count:
        lists = compute.fill_null(lists.cast(HEADERS), pyarrow.scalar([], HEADERS))
    lists = lists.cast(HEADERS)
    pairs = lists.flatten()
    if not len(pairs):
        return None
    if compute.any(compute.match_substring_regex(pairs.field("key"), NOT_COPIED)).as_py():
        return _without_instructions(lists)
    return lists


def _without_instructions(lists: Any) -> Any:
    """Messages copied from a stream still have their old ids; here they get new ones."""
    left_out = re.compile(NOT_COPIED)
    kept = [[pair for pair in pairs if not left_out.match(pair["key"] or "")] for pairs in lists.to_pylist()]
    return pyarrow.array(kept, HEADERS)

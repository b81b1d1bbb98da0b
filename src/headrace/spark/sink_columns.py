"""The columns of a DataFrame that the sink uses, their types, and how they are published.

| column | type | |
|---|---|---|
| `data` | binary or string | the payload; NULL is an empty one |
| `subject` | string | the subject, unless the option `subject` sets it for all |
| `headers` | array of structs (key, value), or map, of strings | optional |
| `msgId` | string | optional: identifies the message, see `message_ids` |

The other columns of a stream read (`stream`, `seq`, `timestamp`) are ignored; any other column is an error,
because it may be a misspelled one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow
import pyarrow.compute as compute
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from headrace.spark.failure import DataSourceError

# Instructions of the original publisher to its stream, which do not apply to another stream.
# A stream with sources removes the same headers.
NOT_COPIED = r"^(Nats-Msg-Id$|Nats-Expected-|Nats-Batch-)"
IGNORED = {"stream", "seq", "timestamp"}
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


@dataclass(frozen=True)
class Columns:
    """The indexes of the columns in a batch; -1 for none."""

    data: int
    subject: int
    headers: int
    message_id: int


def find_columns(schema: StructType, subject: str) -> Columns:
    """Raises DataSourceError if a column is missing, has the wrong type, or is unknown."""
    indexes = {field.name.lower(): index for index, field in enumerate(schema.fields)}
    known = {"data", "subject", "headers", "msgid"}
    for name in indexes:
        if name not in known | IGNORED:
            raise DataSourceError(
                f"the sink cannot use the column `{name}`",
                hint="it takes data, subject, headers and msgId: choose them with select()",
            )
    if "data" not in indexes:
        raise DataSourceError("the sink needs a column `data`", hint='for example select("data")')
    if "subject" not in indexes and not subject:
        raise DataSourceError(
            "the sink needs subjects", hint='add a column `subject`, or .option("subject", "orders.copy")'
        )
    for name, wanted, fits in (
        ("data", "binary or string", (BinaryType, StringType)),
        ("subject", "string", (StringType,)),
        ("msgid", "string", (StringType,)),
    ):
        if name in indexes and not isinstance(schema[indexes[name]].dataType, fits):
            raise DataSourceError(
                f"the column `{name}` is {schema[indexes[name]].dataType.simpleString()}, not {wanted}",
                hint=f"cast it: CAST({name} AS STRING)",
            )
    if "headers" in indexes and not _fits_headers(schema[indexes["headers"]].dataType):
        raise DataSourceError(
            f"the column `headers` is {schema[indexes['headers']].dataType.simpleString()}",
            hint="it must be map<string,string> or array<struct<key:string,value:string>>",
        )
    # The option overrides the column, as `topic` does in Spark's Kafka sink.
    return Columns(
        data=indexes["data"],
        subject=-1 if subject else indexes["subject"],
        headers=indexes.get("headers", -1),
        message_id=indexes.get("msgid", -1),
    )


def _fits_headers(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)
    element = kind.elementType if isinstance(kind, ArrayType) else None
    return (
        isinstance(element, StructType)
        and element.fieldNames() == ["key", "value"]
        and all(isinstance(field.dataType, StringType) for field in element.fields)
    )


def messages_of(batch: pyarrow.RecordBatch, columns: Columns, subject: str) -> Messages:
    """The columns of a batch as they are published. Raises DataSourceError for a NULL subject or no id."""
    data = batch.column(columns.data)
    data = data.cast(pyarrow.binary()) if data.type != pyarrow.binary() else data
    return Messages(
        subjects=subject or _whole(batch.column(columns.subject), "subject"),
        data=compute.fill_null(data, b"") if data.null_count else data,
        headers=_headers(batch.column(columns.headers)) if columns.headers >= 0 else None,
        message_ids=_ids(batch.column(columns.message_id)) if columns.message_id >= 0 else None,
    )


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

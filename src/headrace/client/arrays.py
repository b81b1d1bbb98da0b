"""Between the engine's buffers and Arrow. The only module here that imports pyarrow; it is imported late."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.client.columns import Columns
from headrace.client.errors import UsageError
from headrace.client.outgoing import Offsets, Outgoing, TextColumn

_PAIR = pa.struct([("key", pa.string()), ("value", pa.string())])
HEADERS = pa.list_(pa.field("element", _PAIR))

SCHEMA = pa.schema(
    [
        ("subject", pa.string()),
        ("data", pa.binary()),
        ("headers", HEADERS),
        ("stream", pa.string()),
        ("seq", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)


class Batches:
    """Makes record batches from columns. The column with the stream's name is the same in all of them."""

    def __init__(self, stream: str, batch_rows: int) -> None:
        self._stream = pa.repeat(pa.scalar(stream, pa.string()), 0)
        self._name = stream
        self._batch_rows = batch_rows

    def take(self, columns: Columns) -> pa.RecordBatch:
        """The rows that the columns have; they are empty afterwards. Nothing is copied."""
        rows, header_count, buffers = columns.take()
        (
            subject_offsets,
            subjects,
            data_offsets,
            data,
            header_offsets,
            key_offsets,
            keys,
            value_offsets,
            values,
            seqs,
            times,
        ) = map(pa.py_buffer, buffers)
        pairs = pa.StructArray.from_arrays(
            [
                pa.StringArray.from_buffers(header_count, key_offsets, keys),
                pa.StringArray.from_buffers(header_count, value_offsets, values),
            ],
            fields=list(_PAIR),
        )
        if len(self._stream) < rows:
            self._stream = pa.repeat(pa.scalar(self._name, pa.string()), min(2 * rows, self._batch_rows))
        return pa.RecordBatch.from_arrays(
            [
                pa.StringArray.from_buffers(rows, subject_offsets, subjects),
                pa.Array.from_buffers(pa.binary(), rows, [None, data_offsets, data]),
                pa.Array.from_buffers(HEADERS, rows, [None, header_offsets], children=[pairs]),
                self._stream.slice(0, rows),
                pa.Array.from_buffers(pa.int64(), rows, [None, seqs]),
                pa.Array.from_buffers(SCHEMA.field("timestamp").type, rows, [None, times]),
            ],
            schema=SCHEMA,
        )


def outgoing(subjects: Any, data: Any, headers: Any | None = None, msg_ids: Any | None = None) -> Outgoing:
    """Rows for the engine. Raises UsageError when a column has another type or length."""
    payloads = _texts(data, "data")
    lists = keys = values = None
    if headers is not None:
        lists, keys, values = _headers(headers)
    try:
        return Outgoing(
            payloads.length,
            subjects.encode() if isinstance(subjects, str) else _texts(subjects, "subject"),
            payloads,
            header_lists=lists,
            keys=keys,
            values=values,
            msg_ids=None if msg_ids is None else _texts(msg_ids, "msg id"),
        )
    except ValueError as error:
        raise UsageError(f"these columns do not fit together: {error}") from None


def _texts(column: Any, what: str) -> TextColumn:
    array = _whole(column, what)
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
        kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
        if not any(is_kind(kind) for is_kind in _TEXT_KINDS):
            raise UsageError(f"the column {what} has the type {array.type}; it must be string or binary")
        array = array.cast(pa.binary())
    validity, offsets, text = array.buffers()
    return TextColumn(len(array), array.offset, validity if array.null_count else None, offsets, text)


_TEXT_KINDS = [
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_large_string,
    pa.types.is_large_binary,
    pa.types.is_string_view,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
    pa.types.is_null,
]


def _headers(column: Any) -> tuple[Offsets, TextColumn, TextColumn]:
    """From a list of structs with a key and a value, or from a map."""
    array = _whole(column, "headers")
    kind = array.type
    if pa.types.is_large_list(kind):
        array = array.cast(pa.list_(kind.value_field))
    if pa.types.is_map(kind):
        keys, values = array.keys, array.items
    elif (
        pa.types.is_list(array.type)
        and pa.types.is_struct(kind.value_type)
        and kind.value_type.num_fields == 2
    ):
        keys, values = array.values.field(0), array.values.field(1)
    elif pa.types.is_null(kind):
        array = pa.nulls(len(array), HEADERS)
        keys, values = array.values.field(0), array.values.field(1)
    else:
        raise UsageError(
            f"the column headers has the type {kind}; it must be a list of structs (key, value), or a map"
        )
    validity, offsets = array.buffers()[:2]
    lists = Offsets(len(array), array.offset, validity if array.null_count else None, offsets)
    return lists, _texts(keys, "key of headers"), _texts(values, "value of headers")


def _whole(column: Any, what: str) -> Any:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not isinstance(column, pa.Array):
        raise UsageError(f"the column {what} must be an Arrow array, not {type(column).__name__}")
    return column

"""Reads one partition: the columns that the client fills from the wire.

A reader that returns too few rows has silently lost data, so anything but a complete range raises. Gaps are
the exception, because deleted messages leave them. One kind of gap is data loss: messages that the stream's
limits, or a purge, removed between planning and reading. The client distinguishes it from the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.client import MessagesMissing
from headrace.spark.connection import Streams
from headrace.spark.failure import DataLossError
from headrace.spark.reading.offsets import LOSS_HINT
from headrace.spark.reading.partitions import StreamPartition

if TYPE_CHECKING:
    import pyarrow

TYPES = {
    "subject": "string",
    "data": "binary",
    "headers": "array<struct<key:string,value:string>>",
    "stream": "string",
    "seq": "bigint",
    "timestamp": "timestamp",
}
"""The columns of a message, as Spark writes them; client/arrays.py has them for Arrow."""

BATCH_ROWS = 32_768


def columns(*, include_headers: bool) -> list[str]:
    """Each with its type, as in a schema."""
    return [f"{name} {kind}" for name, kind in TYPES.items() if include_headers or name != "headers"]


def read_rows(
    streams: Streams,
    partition: StreamPartition,
    *,
    subjects: tuple[str, ...],
    include_headers: bool,
    fail_on_data_loss: bool,
) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a partition, in order. Raises what the client raises, and DataLossError."""
    try:
        batches = streams.server.ask(
            lambda client: client.fetch_range(
                partition.stream,
                partition.first,
                partition.last,
                subjects=subjects,
                batch_rows=BATCH_ROWS,
                headers=include_headers,
                fail_on_loss=fail_on_data_loss,
            )
        )
        for batch in batches:
            yield batch if include_headers else batch.drop_columns(["headers"])
    except MessagesMissing as error:
        raise DataLossError(f"messages were removed before they were read: {error}", hint=LOSS_HINT) from None

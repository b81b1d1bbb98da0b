"""Reads one partition: the columns that the client fills from the wire, or from the files of a store.

A reader that returns too few rows has silently lost data, so anything but a complete range raises. Gaps are
the exception, because deleted messages leave them. One kind of gap is data loss: messages that the stream's
limits, or a purge, removed between planning and reading. The client distinguishes it from the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace.client import MessagesMissing
from headrace.spark.connection import Streams
from headrace.spark.failure import DataLossError
from headrace.spark.options import ReadOptions
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


def columns(options: ReadOptions) -> list[str]:
    """Each with its type, as in a schema."""
    found = [f"{name} {kind}" for name, kind in TYPES.items() if options.include_headers or name != "headers"]
    if options.json_schema:
        from headrace.spark.reading.early import early_column

        found.append(early_column(options.json_schema))
    return found


def read_rows(
    streams: Streams,
    partition: StreamPartition,
    options: ReadOptions,
    subjects: tuple[str, ...],
) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a partition, in order. Raises what the client raises, and DataLossError."""
    early = None
    if options.json_schema:
        from headrace.spark.reading.early import EarlyColumns

        early = EarlyColumns(options.json_schema)
    how: dict[str, Any] = {
        "subjects": subjects,
        "batch_rows": BATCH_ROWS,
        "headers": options.include_headers,
        "fail_on_loss": options.fail_on_data_loss,
    }

    def ask(first: int) -> Iterator[pyarrow.RecordBatch]:
        return streams.server.ask(
            lambda source: source.fetch_range(partition.stream, first, partition.last, **how)
        )

    try:
        if options.store and not options.is_offline:
            from headrace.spark.reading.stored import read_store

            batches = read_store(streams, partition, options.store, how, ask)
        else:
            batches = ask(partition.first)
        for batch in batches:
            if not options.include_headers:
                batch = batch.drop_columns(["headers"])
            yield early.added_to(batch) if early else batch
    except MessagesMissing as error:
        raise DataLossError(f"messages were removed before they were read: {error}", hint=LOSS_HINT) from None

"""`format("nats")` as a sink: rows become messages, all of which are acknowledged before Spark continues.

Spark records a batch when all its tasks have ended, so a recorded batch is in the stream. Messages that are
published again are dropped there by their id (see `message_ids`): together, every row is in the stream
exactly once.

Spark makes a writer for every batch, in a separate process on the driver, and another one when the batch is
done; tasks get a copy. What only tasks need is in `publishing`, which is imported late: it needs pyarrow.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from headrace.client.errors import ConnectionFailed
from headrace.spark.connection import connect
from headrace.spark.failure import DataSourceError, readable_errors
from headrace.spark.notice import warn
from headrace.spark.options import WriteOptions
from headrace.spark.patience import Contact
from headrace.spark.travel import Traveller
from headrace.spark.writing.older_version import batch_of_older_version
from headrace.spark.writing.sink_columns import Columns, find_columns

if TYPE_CHECKING:
    import pyarrow

BY_PLACE = (
    "rows without a column `msgId`, or `stream` and `seq`, are identified by their place: if Spark repeats a "
    "task or a batch, and it has other rows by then or another order, rows can be lost or duplicated; add a "
    "column `msgId` that identifies the row, or keep the columns `stream` and `seq`"
)


@dataclass
class Written(WriterCommitMessage):
    """The result of a task."""

    rows: int
    duplicates: int


@dataclass(frozen=True)
class Write:
    """What a task has to know. It is sent to the workers."""

    options: WriteOptions
    columns: Columns
    contact: Contact = Contact.ASSUMED
    name: str = ""
    """The unique id of a batch write; empty in a streaming query."""
    old_batch: int | None = None
    """A batch whose ids use the places of rows, because an older version may have begun it."""

    def publish(self, batches: Iterator[pyarrow.RecordBatch]) -> Written:
        from headrace.spark.writing.publishing import publish_rows

        with readable_errors():
            rows, duplicates = publish_rows(self, batches)
            return Written(rows, duplicates)

    def warn_about_ids(self) -> None:
        """The warning if a repeated row may not be recognized."""
        if self.options.acks and self.columns.message_id < 0 and not self.columns.have_identity:
            warn(BY_PLACE)


class BatchWriter(Traveller, DataSourceArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise DataSourceError(
                "messages cannot be overwritten, only added", hint='write with .mode("append")'
            )
        columns = find_columns(schema, options.subject)
        self.task = Write(options, columns, _contact(options), name=uuid.uuid4().hex)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        return self.task.publish(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing is left to do, but Spark does this once per write."""
        self.task.warn_about_ids()


def _contact(options: WriteOptions) -> Contact:
    """How patient the tasks of a write are: not at all if the driver cannot reach the server, either."""
    try:
        with connect(options.connection):
            return Contact.MADE
    except ConnectionFailed:
        return Contact.NONE


class StreamWriter(Traveller, DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType, checkpoint: str = "") -> None:
        columns = find_columns(schema, options.subject)
        self.task = Write(options, columns, old_batch=batch_of_older_version(checkpoint))

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        return self.task.publish(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is left to do, but Spark does this once for the first batch of a query."""
        if batchId == 0:
            self.task.warn_about_ids()

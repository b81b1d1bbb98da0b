"""`format("nats")` as a sink: rows become messages, all of which are acknowledged before Spark continues.

A task publishes its rows with at most `maxInFlight` of them unacknowledged, and ends when the last one is.
Spark records a batch when all its tasks have ended, so a recorded batch is in the stream. Messages that are
published again are dropped there by their id (see `message_ids`): together, every row is in the stream
exactly once.

With `acks` none, for subjects that no stream stores, a task ends when the server has received what it sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from headrace.spark.connection import connect
from headrace.spark.duplicate_window import warn_if_short
from headrace.spark.failure import DataSourceError, readable_errors
from headrace.spark.message_ids import MessageIds, ids_of_batch, ids_of_write, new_write_id
from headrace.spark.options import WriteOptions
from headrace.spark.sink_columns import find_columns, messages_of
from headrace.spark.stream_check import StreamCheck

if TYPE_CHECKING:
    import pyarrow

    from headrace.client import Client


@dataclass
class Written(WriterCommitMessage):
    """The result of a task."""

    rows: int
    duplicates: int


class RowPublisher:
    """Publishes partitions. It is sent to the workers, so everything in it can be pickled."""

    def __init__(self, options: WriteOptions, schema: StructType, write_id: str = "") -> None:
        self.options = options
        self.columns = find_columns(schema, options.subject)
        self.write_id = write_id
        """The name of a batch write; empty in a streaming query."""

    def publish(self, batches: Iterator[pyarrow.RecordBatch]) -> Written:
        """Publish one partition; returns when all of it has been acknowledged."""
        with connect(self.options.connection) as client:
            if self.options.acks:
                return self._publish_with_acks(client, batches)
            return self._publish_without(client, batches)

    def _publish_with_acks(self, client: Client, batches: Iterator[pyarrow.RecordBatch]) -> Written:
        ids = None if self.columns.message_id >= 0 else self._ids()
        check = StreamCheck(client, self.options.stream) if self.options.stream else None
        publisher = client.publisher(stream=self.options.stream, max_in_flight=self.options.max_in_flight)
        rows = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            messages = messages_of(batch, self.columns, self.options.subject)
            if check:
                check(messages.subjects)
            if not rows and not self.write_id:
                warn_if_short(client, messages.subjects)
            message_ids = ids.next(batch.num_rows) if ids else messages.message_ids
            publisher.publish(messages.subjects, messages.data, messages.headers, message_ids)
            rows += batch.num_rows
        return Written(rows, publisher.flush().duplicates)

    def _ids(self) -> MessageIds:
        return ids_of_write(self.write_id) if self.write_id else ids_of_batch()

    def _publish_without(self, client: Client, batches: Iterator[pyarrow.RecordBatch]) -> Written:
        rows = 0
        for batch in batches:
            messages = messages_of(batch, self.columns, self.options.subject)
            client.publish_many(messages.subjects, messages.data, messages.headers)
            rows += batch.num_rows
        return Written(rows, 0)


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise DataSourceError(
                "messages cannot be overwritten, only added", hint='write with .mode("append")'
            )
        self.publisher = RowPublisher(options, schema, new_write_id())

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        with readable_errors():
            return self.publisher.publish(iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.publisher = RowPublisher(options, schema)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        with readable_errors():
            return self.publisher.publish(iterator)

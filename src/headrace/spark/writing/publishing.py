"""The task of a sink: publishes the rows of one partition.

At most `maxInFlight` of them are unacknowledged at any time, and the task ends when all are acknowledged.
With `acks` none, for subjects that no stream stores, it ends when the server has received what it sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace.spark.connection import Server
from headrace.spark.writing.duplicate_window import warn_if_short
from headrace.spark.writing.message_ids import MessageIds, current_batch, ids_of_batch, ids_of_write
from headrace.spark.writing.messages import Messages, messages_of
from headrace.spark.writing.stream_check import StreamCheck

if TYPE_CHECKING:
    import pyarrow

    from headrace.client import Client
    from headrace.spark.writing.sink import Write


def publish_rows(write: Write, batches: Iterator[pyarrow.RecordBatch]) -> tuple[int, int]:
    """How many rows the partition had, and how many of them the stream already had."""
    server = Server(write.options.connection, write.contact)
    try:
        client = server.ask(lambda client: client)
        if write.options.acks:
            return _publish_with_acks(write, server, client, batches)
        return _publish_without(write, client, batches)
    finally:
        server.close()


def _publish_with_acks(
    write: Write, server: Server, client: Client, batches: Iterator[pyarrow.RecordBatch]
) -> tuple[int, int]:
    ids = RowIds(write)
    stream, most = write.options.stream, write.options.max_in_flight
    check = server.ask(lambda client: StreamCheck(client, stream)) if stream else None
    publisher = server.ask(lambda client: client.publisher(stream=stream, max_in_flight=most))
    rows = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        messages = messages_of(batch, write.columns, write.options.subject)
        if check:
            check(messages.subjects)
        if not rows and not write.name:
            warn_if_short(client, messages.subjects)
        publisher.publish(messages.subjects, messages.data, messages.headers, ids.of(messages))
        rows += batch.num_rows
    return rows, publisher.flush().duplicates


def _publish_without(write: Write, client: Client, batches: Iterator[pyarrow.RecordBatch]) -> tuple[int, int]:
    rows = 0
    for batch in batches:
        messages = messages_of(batch, write.columns, write.options.subject)
        client.publish_many(messages.subjects, messages.data, messages.headers)
        rows += batch.num_rows
    return rows, 0


class RowIds:
    """Chooses the kind of ids: the user's own, by identity, or by place."""

    def __init__(self, write: Write) -> None:
        self._made: MessageIds | None = None
        self._by_identity = write.columns.have_identity
        if write.columns.message_id < 0:
            self._made = ids_of_write(write.name) if write.name else ids_of_batch()
            if not write.name and current_batch() == write.old_batch:
                self._by_identity = False

    def of(self, messages: Messages) -> Any:
        if self._made is None:
            return messages.message_ids
        if messages.identities and self._by_identity:
            return self._made.of_identities(*messages.identities)
        return self._made.of_places(len(messages.data))

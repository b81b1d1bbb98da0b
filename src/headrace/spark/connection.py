"""The data source's questions to the server or its files: what streams have, and the sequence of a time.

A `Streams` is sent to Spark's workers inside readers and writers, so it must be picklable: the connection is
opened on first use, in whichever process that is, and is not pickled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import TaskContext

from headrace.client import Client
from headrace.spark.connection_options import ConnectionOptions
from headrace.spark.notice import warn
from headrace.spark.patience import Contact, patiently
from headrace.spark.reading.offsets import Extent

if TYPE_CHECKING:
    from headrace.client.store_directory import StoreDirectory

NAME = "headrace-spark"

Answer = TypeVar("Answer")

# Spark asks an idle query for its latest offset about 87 times a second.
KEEP_SECONDS = 0.1


def connect(connection: ConnectionOptions) -> Client:
    """Raises ConnectionFailed, with one line about each server that was tried."""
    # On the driver: with the files themselves, which a reconnect reads again. There `patiently` does the
    # waiting, because it reports it. In a task, operations in progress wait: a fetch continues where it was.
    on_driver = TaskContext.get() is None
    credentials, tls = connection.files if on_driver else (connection.credentials, connection.tls)
    return Client.connect(
        list(connection.servers),
        **vars(credentials),
        tls=tls,
        name=NAME,
        connect_timeout=connection.connect_timeout,
        request_timeout=connection.request_timeout,
        reconnect_timeout=0.0 if on_driver else connection.reconnect_timeout,
    )


class Server:
    """A server to ask, and to wait for while it is away. The connection is opened on first use."""

    def __init__(self, connection: ConnectionOptions, contact: Contact) -> None:
        self._connection = connection
        self._client: Client | None = None
        self.contact = contact

    def ask(self, work: Callable[[Client], Answer]) -> Answer:
        """Raises what `work` raises, and ConnectionFailed: at once if waiting would not help."""

        def attempt() -> Answer:
            answer = work(self._open())
            self.contact = Contact.MADE
            return answer

        return patiently(attempt, lambda: self.contact, self._connection.reconnect_timeout)

    def _open(self) -> Client:
        if self._client is None:
            self._client = connect(self._connection)
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


class Files:
    """Used instead of a server: its storage directory, which answers the same questions."""

    contact = Contact.MADE

    def __init__(self, store: str) -> None:
        from headrace.client.store_directory import StoreDirectory

        self._directory = StoreDirectory(store, warn)

    def ask(self, work: Callable[[StoreDirectory], Answer]) -> Answer:
        return work(self._directory)

    def close(self) -> None:
        """Does nothing: nothing is open."""


class Streams:
    """Asks the server about streams, and caches responses for a moment. With `store`, its files instead."""

    def __init__(
        self, connection: ConnectionOptions, contact: Contact = Contact.NONE, *, store: str = ""
    ) -> None:
        self._connection = connection
        self._store = store
        self.server: Server | Files = Files(store) if store else Server(connection, contact)
        self._extents: dict[str, Extent] = {}
        self._asked_at = float("-inf")

    def __getstate__(self) -> dict[str, Any]:
        return {"_connection": self._connection, "_store": self._store}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In a task: the driver that sent it has already talked to the server."""
        self.__init__(state["_connection"], Contact.MADE, store=state["_store"])  # type: ignore[misc]

    def extent(self, stream: str) -> Extent:
        """What this stream has now. Raises StreamNotFound."""
        info = self.server.ask(lambda client: client.stream_info(stream))
        first = info.first_seq if info.messages else info.last_seq + 1
        return Extent(
            max(1, first),
            info.last_seq,
            info.messages,
            info.bytes,
            info.created,
            is_compacted=info.max_msgs_per_subject > 0,
        )

    def extents(self, streams: Iterable[str]) -> dict[str, Extent]:
        """The same for several streams; may be a tenth of a second old."""
        if time.monotonic() - self._asked_at > KEEP_SECONDS or set(streams) != set(self._extents):
            self._extents = {stream: self.extent(stream) for stream in streams}
            self._asked_at = time.monotonic()
        return self._extents

    def deleted(self, stream: str) -> list[int]:
        """The sequences in the stream whose messages are gone, in order."""
        return self.server.ask(lambda client: client.deleted_sequences(stream))

    def sequence_at(self, stream: str, time_ns: int) -> int:
        """The first sequence that was stored at this time or later; the next one if there is none."""
        return self.server.ask(lambda client: client.seq_at_time(stream, time_ns))

    def close(self) -> None:
        self.server.close()

"""What the data source asks the server: which messages streams have, and the sequence of a time.

A `Streams` is sent to Spark's workers inside readers and writers, so it must be picklable: the connection is
opened on first use, in whichever process that is, and is not pickled.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from headrace.client import Client
from headrace.spark.offsets import Extent
from headrace.spark.options import ConnectionOptions

NAME = "headrace-spark"

# Spark asks an idle query for its latest offset about 87 times a second.
KEEP_SECONDS = 0.1


def connect(connection: ConnectionOptions) -> Client:
    """Raises ConnectionFailed, with one line about each server that was tried."""
    return Client.connect(
        list(connection.servers),
        user=connection.user,
        password=connection.password,
        token=connection.token,
        name=NAME,
        connect_timeout=connection.connect_timeout,
        request_timeout=connection.request_timeout,
    )


class Streams:
    """Asks the server about streams, and caches responses for a moment."""

    def __init__(self, connection: ConnectionOptions) -> None:
        self._connection = connection
        self._client: Client | None = None
        self._extents: dict[str, Extent] = {}
        self._asked_at = float("-inf")

    def __getstate__(self) -> dict[str, Any]:
        return {"_connection": self._connection}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_connection"])  # type: ignore[misc]

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = connect(self._connection)
        return self._client

    def extent(self, stream: str) -> Extent:
        """What this stream has now. Raises StreamNotFound."""
        info = self.client.stream_info(stream)
        first = info.first_seq if info.messages else info.last_seq + 1
        return Extent(max(1, first), info.last_seq, info.messages, info.bytes, info.created)

    def extents(self, streams: Iterable[str]) -> dict[str, Extent]:
        """The same for several streams; may be a tenth of a second old."""
        if time.monotonic() - self._asked_at > KEEP_SECONDS or set(streams) != set(self._extents):
            self._extents = {stream: self.extent(stream) for stream in streams}
            self._asked_at = time.monotonic()
        return self._extents

    def sequence_at(self, stream: str, time_ns: int) -> int:
        """The first sequence that was stored at this time or later; the next one if there is none."""
        return self.client.seq_at_time(stream, time_ns)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

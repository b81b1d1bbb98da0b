"""Streams for tests: made, filled and cut by the plain JetStream API."""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.client import Client
from headrace.client.arrays import HEADERS

Header = tuple[str, str]

_numbers = itertools.count(1)


class Streams:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.made: list[str] = []

    def api(self, subject: str, **body: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            self.client.request(f"$JS.API.{subject}", json.dumps(body).encode())
        )
        assert "error" not in answer, answer
        return answer

    def create(self, name: str = "", subjects: Sequence[str] = ("s.>",), **config: Any) -> str:
        """A new stream. Its name is new, too, unless one is given: a nats-server that is told to delete a
        file stream, and to make it again at once, finds old messages in it now and then."""
        name = name or f"S{next(_numbers)}"
        config = {"storage": "file", **config}
        self.api(f"STREAM.CREATE.{name}", name=name, subjects=list(subjects), **config)
        self.made.append(name)
        return name

    def fill(self, name: str, rows: int, subject: str = "s.a", size: int = 8) -> None:
        """Messages whose payload is their number."""
        publisher = self.client.publisher(stream=name)
        publisher.publish(subject, pa.array([str(number).zfill(size) for number in range(1, rows + 1)]))
        publisher.flush()

    def await_messages(self, name: str, count: int) -> None:
        """For those that were sent without asking for an acknowledgement."""
        deadline = time.monotonic() + 30
        while self.client.stream_info(name).messages < count:
            assert time.monotonic() < deadline, f"{count} messages did not arrive"
            time.sleep(0.01)

    def delete_message(self, name: str, seq: int) -> None:
        self.api(f"STREAM.MSG.DELETE.{name}", seq=seq)

    def purge(self, name: str, **body: Any) -> None:
        self.api(f"STREAM.PURGE.{name}", **body)

    def consumers(self, name: str) -> int:
        count: int = self.api(f"STREAM.INFO.{name}")["state"]["consumer_count"]
        return count

    def await_consumers(self, name: str, count: int) -> None:
        """A fetch deletes its consumer without waiting for it, and nats-server does that at its leisure."""
        deadline = time.monotonic() + 30
        while (found := self.consumers(name)) != count:
            assert time.monotonic() < deadline, f"{found} consumers, and not {count}"
            time.sleep(0.01)

    def delete_all(self) -> None:
        for name in self.made:
            self.api(f"STREAM.DELETE.{name}")
        self.made.clear()


def header_array(rows: Sequence[Sequence[Header] | None]) -> pa.Array:
    return pa.array(
        [
            None if headers is None else [{"key": key, "value": value} for key, value in headers]
            for headers in rows
        ],
        HEADERS,
    )


def read(client: Client, stream: str, first: int = 1, last: int = 0, **options: Any) -> pa.Table:
    """The range as a table, to the end of the stream unless `last` says otherwise. Batches are validated."""
    from headrace.client import SCHEMA

    last = last or client.stream_info(stream).last_seq
    batches = list(client.fetch_range(stream, first, last, **options))
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches, SCHEMA)


def send_raw(host: str, port: int, frames: bytes) -> None:
    """Frames that no careful client would send; back when the server has read them."""
    with socket.create_connection((host, port), 30) as connection:
        connection.sendall(b'CONNECT {"verbose":false,"headers":true}\r\n' + frames + b"PING\r\n")
        received = b""
        while b"PONG\r\n" not in received:
            piece = connection.recv(65536)
            assert piece, received
            received += piece

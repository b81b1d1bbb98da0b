"""The client that asks for something big: it fills streams, makes consumers and sends requests."""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from headrace.bench.failure import BenchError

SUBJECTS = 100_000
PAYLOAD = b"x" * 16
BLOCK_MESSAGES = 1000
REQUEST_SECONDS = 120.0

Fields = dict[str, Any]


class Asker:
    """One connection that publishes blocks and sends requests, one at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        connection.settimeout(REQUEST_SECONDS)
        self._numbers = itertools.count()
        self._reply = b""  # of the last message
        self._received = connection.makefile("rb", buffering=1 << 20)
        connection.sendall(b"SUB _INBOX.stalls.* 1\r\n")

    def ask(self, subject: str, fields: Fields | None = None) -> Fields:
        """An answer of the API, which must not be an error."""
        body = json.dumps(fields).encode() if fields is not None else b""
        answer: Fields = json.loads(self.request(f"$JS.API.{subject}".encode(), body, deliveries=False))
        if "error" in answer:
            raise BenchError(f"{subject}: {answer['error']}")
        return answer

    def request(
        self, subject: bytes, body: bytes = b"", *, until: bytes = b"", deliveries: bool = True
    ) -> bytes:
        """The body of the first answer or, with `until`, of the first one whose headers contain it.

        Deliveries of a consumer have their own subjects, and count as answers, too, unless told otherwise.
        """
        inbox = b"_INBOX.stalls.%d" % next(self._numbers)
        self.connection.sendall(b"PUB %b %b %d\r\n%b\r\n" % (subject, inbox, len(body), body))
        while True:
            answered, headers, payload = self._message()
            is_delivery = deliveries and not answered.startswith(b"_INBOX.")
            if until in headers and (answered == inbox or is_delivery):
                return payload

    def pipeline(
        self, requests: list[tuple[bytes, bytes]], is_last: Callable[[bytes], bool] = lambda headers: True
    ) -> None:
        """All requests in one write; wait for the last answer to each, which is known by its headers."""
        waiting, frames = set(), []
        for subject, body in requests:
            inbox = b"_INBOX.stalls.%d" % next(self._numbers)
            waiting.add(inbox)
            frames.append(b"PUB %b %b %d\r\n%b\r\n" % (subject, inbox, len(body), body))
        self.connection.sendall(b"".join(frames))
        while waiting:
            answered, headers, payload = self._message()
            if b'"error"' in payload[:200] and b"no message found" not in payload:
                raise BenchError(payload.decode())
            if is_last(headers):
                waiting.discard(answered)

    def replies(self, count: int) -> list[bytes]:
        """The subjects with which the next messages that a consumer delivers are acknowledged."""
        found: list[bytes] = []
        while len(found) < count:
            self._message()
            if self._reply.startswith(b"$JS.ACK."):
                found.append(self._reply)
        return found

    def _message(self) -> tuple[bytes, bytes, bytes]:
        while True:
            line = self._received.readline()
            if not line:
                raise BenchError("the server closed the connection")
            words = line.rstrip().split(b" ")
            self._reply = words[3] if len(words) == (5 if words[0] == b"MSG" else 6) else b""
            if words[0] == b"MSG":
                return words[1], b"", self._received.read(int(words[-1]) + 2)[:-2]
            if words[0] == b"HMSG":
                data = self._received.read(int(words[-1]) + 2)[:-2]
                return words[1], data[: int(words[-2])], data[int(words[-2]) :]
            if words[0] == b"PING":
                self.connection.sendall(b"PONG\r\n")
            elif words[0] == b"-ERR":
                raise BenchError(line.decode().strip())


def create(asker: Asker, name: str, **config: Any) -> None:
    with suppress(BenchError):
        asker.ask(f"STREAM.DELETE.{name}")
    asker.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], "storage": "file", **config})


def update(asker: Asker, name: str, **config: Any) -> None:
    old = asker.ask(f"STREAM.INFO.{name}")["config"]
    asker.ask(f"STREAM.UPDATE.{name}", {**old, **config})


def fill(asker: Asker, name: str, messages: int, *, ttl: str = "") -> None:
    """Publish without waiting, then wait until all is stored."""
    before = asker.ask(f"STREAM.INFO.{name}")["state"]["last_seq"]
    block = b"NATS/1.0\r\nNats-TTL: %b\r\n\r\n" % ttl.encode()
    for start in range(0, messages, BLOCK_MESSAGES):
        frames = []
        for number in range(start, min(start + BLOCK_MESSAGES, messages)):
            subject = b"%b.%d.%d" % (name.encode(), number // 100 % (SUBJECTS // 100), number % 100)
            if ttl:
                size = len(block) + len(PAYLOAD)
                frames.append(b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, len(block), size, block, PAYLOAD))
            else:
                frames.append(b"PUB %b %d\r\n%b\r\n" % (subject, len(PAYLOAD), PAYLOAD))
        asker.connection.sendall(b"".join(frames))
        if start % (5 * BLOCK_MESSAGES) == 0:  # nats-server drops messages that it cannot store in time
            asker.ask(f"STREAM.INFO.{name}")
    deadline = time.monotonic() + REQUEST_SECONDS
    while asker.ask(f"STREAM.INFO.{name}")["state"]["last_seq"] < before + messages:
        if time.monotonic() > deadline:
            raise BenchError("not all messages were stored")
        time.sleep(0.1)


def consume(asker: Asker, name: str, consumer: str, **config: Any) -> None:
    config = {"durable_name": consumer, "ack_policy": "explicit", **config}
    asker.ask(f"CONSUMER.DURABLE.CREATE.{name}.{consumer}", {"stream_name": name, "config": config})


def await_count(asker: Asker, name: str, count: int) -> None:
    deadline = time.monotonic() + REQUEST_SECONDS
    while asker.ask(f"STREAM.INFO.{name}")["state"]["messages"] != count:
        if time.monotonic() > deadline:
            raise BenchError(f"{name} has not {count} messages")
        time.sleep(0.02)

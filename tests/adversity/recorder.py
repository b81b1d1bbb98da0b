"""A publisher that writes down what was acknowledged, and a reader that checks it against what is stored.

Both talk the protocol over a plain blocking socket: what the test believes must not depend on the retries
and buffers of a client library.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Any

CONNECT = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nPING\r\n'
PATIENCE_SECONDS = 60.0


def payload_of(number: int) -> bytes:
    """A message that proves by itself that it is whole; sizes differ."""
    filler = blake2b(b"%d" % number, digest_size=16).hexdigest().encode() * (number % 7)
    return b"%d %b" % (number, filler)


def is_whole(payload: bytes) -> bool:
    number, _, _ = payload.partition(b" ")
    if not number.isdigit():
        return False
    whole = payload_of(int(number))
    return payload.startswith(whole) and not payload[len(whole) :].strip(b" ")


def publication(subject: bytes, reply: bytes, payload: bytes, headers: str = "") -> bytes:
    """PUB, or HPUB where there are header lines."""
    if not headers:
        return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload)
    block = b"NATS/1.0\r\n%b\r\n\r\n" % headers.encode()
    sizes = len(block), len(block) + len(payload)
    return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject, reply, *sizes, block, payload)


class Connection:
    """Frames in, frames out. Any failure of the network is a ConnectionError."""

    def __init__(self, port: int, connect: bytes = CONNECT) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        # A request is several small writes, which would wait for each other's acknowledgement by the kernel.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self.socket.makefile("rb")
        try:
            self.socket.sendall(connect)
            while (line := self._stream.readline().strip()) != b"PONG":
                if not line:
                    raise ConnectionResetError("the server is gone")
        except OSError:
            self.close()
            raise

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ping(self) -> None:
        """Return when the server has answered; nothing else may come meanwhile."""
        self.send(b"PING\r\n")
        while (line := self._stream.readline()) != b"PONG\r\n":
            if line == b"PING\r\n":
                self.send(b"PONG\r\n")
            elif not line.startswith(b"INFO "):
                raise ConnectionError(f"instead of PONG: {line!r}")

    def messages(self) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
        """(subject, headers, payload, reply) of each message that comes."""
        while True:
            line = self._stream.readline()
            if not line:
                raise ConnectionResetError("the server is gone")
            words = line.split()
            if words[0] == b"MSG":
                payload = self._read(int(words[-1]))
                yield words[1], b"", payload, words[3] if len(words) == 5 else b""
            elif words[0] == b"HMSG":
                body, header = self._read(int(words[-1])), int(words[-2])
                yield words[1], body[:header], body[header:], words[3] if len(words) == 6 else b""
            elif words[0] == b"PING":
                self.send(b"PONG\r\n")
            elif words[0] == b"-ERR":
                raise ConnectionError(line.decode())

    def _read(self, size: int) -> bytes:
        body = self._stream.read(size + 2)
        if len(body) < size + 2:
            raise ConnectionResetError("the server is gone")
        return body[:size]

    def request(self, subject: str, body: dict[str, Any] | bytes = b"", headers: str = "") -> dict[str, Any]:
        """One JetStream API request, or a publish with headers; the answer as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        inbox = b"_INBOX.ask.%d" % time.monotonic_ns()
        self.send(b"SUB %b 9\r\n%b" % (inbox, publication(subject.encode(), inbox, data, headers)))
        for answered, block, payload, _ in self.messages():
            if answered == inbox:
                self.send(b"UNSUB 9\r\n")
                if b" 503" in block[:16]:
                    raise ConnectionError(f"nobody answers {subject}")
                answer: dict[str, Any] = json.loads(payload)
                return answer
        raise AssertionError

    def request_batch(self, subject: str, body: dict[str, Any]) -> list[tuple[str, int, bytes]]:
        """A direct get of several messages: (subject, sequence, payload) of each."""
        data, inbox = json.dumps(body).encode(), b"_INBOX.batch.%d" % time.monotonic_ns()
        self.send(b"SUB %b 8\r\n%b" % (inbox, publication(subject.encode(), inbox, data)))
        found: list[tuple[str, int, bytes]] = []
        for answered, headers, payload, _ in self.messages():
            if answered != inbox:
                continue
            if headers.split(None, 2)[1:2] in ([b"204"], [b"404"]) and not payload:
                break
            fields = dict(line.split(": ", 1) for line in headers.decode().splitlines()[1:] if line)
            found.append((fields["Nats-Subject"], int(fields["Nats-Sequence"]), payload))
        self.send(b"UNSUB 8\r\n")
        return found

    def publish_burst(
        self, messages: list[tuple[str, bytes, str]], first_number: int
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Send (subject, payload, headers) all at once; (number, acknowledgement) of each as they come."""
        inbox = b"_INBOX.burst.%d" % time.monotonic_ns()
        frames = [
            publication(subject.encode(), b"%b.%d" % (inbox, first_number + place), payload, headers)
            for place, (subject, payload, headers) in enumerate(messages)
        ]
        self.send(b"SUB %b.* 7\r\n%b" % (inbox, b"".join(frames)))
        left = len(messages)
        for answered, _, payload, _ in self.messages():
            if answered.startswith(inbox):
                answer = json.loads(payload) if payload else {"error": {"code": 503}}  # nobody is there
                yield int(answered.rpartition(b".")[2]), answer
                left -= 1
                if not left:
                    break
        self.send(b"UNSUB 7\r\n")

    def fetch(self, stream: str, consumer: str, batch: int) -> list[tuple[bytes, bytes, bytes]]:
        """(subject, payload, reply) of the consumer's messages at present, up to this many."""
        inbox = b"_INBOX.fetch.%d" % time.monotonic_ns()
        body = json.dumps({"batch": batch, "no_wait": True}).encode()
        ask = publication(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}".encode(), inbox, body)
        self.send(b"SUB %b 6\r\n%b" % (inbox, ask))
        found: list[tuple[bytes, bytes, bytes]] = []
        for answered, headers, payload, reply in self.messages():
            if answered == inbox or reply.startswith(b"$JS.ACK."):
                if not reply:
                    break  # a status: there is no more
                found.append((answered, payload, reply))
                if len(found) == batch:
                    break
            assert headers is not None
        self.send(b"UNSUB 6\r\n")
        return found

    def close(self) -> None:
        self._stream.close()
        self.socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


NO_RESPONDERS = b'{"error": {"description": "no responders"}}'
"""For the answer without a body, which a publisher gets when the stream is already closed."""


@dataclass
class Record:
    """What a publisher knows: the number of every message that was acknowledged, by its sequence."""

    acknowledged: dict[int, int] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)
    next_number: int = 1

    def publish(
        self, port: int, *, until: float = 0.0, count: int = 1 << 62, in_flight: int = 256, size: int = 0
    ) -> None:
        """Publish with a bounded flight until the time, the count or the server ends (which is no error)."""
        with suppress(OSError), Connection(port) as connection:
            self._publish(connection, until or float("inf"), count, in_flight, size)

    def _publish(self, connection: Connection, until: float, count: int, in_flight: int, size: int) -> None:
        # An inbox of its own: answers to an earlier connection, which broke, may come at any time.
        inbox = b"_INBOX.acks.%d" % time.monotonic_ns()
        connection.send(b"SUB %b.* 1\r\n" % inbox)
        flying = 0
        answers = connection.messages()
        while True:
            burst = []
            while flying < in_flight and count and time.monotonic() < until:
                payload = (
                    payload_of(self.next_number).ljust(size, b" ") if size else payload_of(self.next_number)
                )
                burst.append(b"PUB crash.%d %b.%d %d\r\n%b\r\n" % (
                    self.next_number % 5, inbox, self.next_number, len(payload), payload))  # fmt: skip
                self.next_number += 1
                count -= 1
                flying += 1
            if burst:
                connection.send(b"".join(burst))
            if not flying:
                return
            subject, _, body, _ = next(answers)
            flying -= 1
            answer = json.loads(body or NO_RESPONDERS)
            if "error" in answer:
                self.errors.append(answer["error"])
            else:
                number = int(subject.rpartition(b".")[2])
                assert answer["seq"] not in self.acknowledged, "a sequence was given twice"
                self.acknowledged[answer["seq"]] = number


def create_stream(port: int, **config: Any) -> None:
    config = {"name": "CRASH", "subjects": ["crash.*"], "storage": "file", **config}
    with Connection(port) as connection:
        answer = connection.request("$JS.API.STREAM.CREATE.CRASH", config)
    assert "error" not in answer, answer


def stored_messages(port: int, first: int = 1) -> dict[int, bytes]:
    """Everything in the stream from a sequence on, by sequence, read with a pull consumer without acks."""
    config = {"deliver_policy": "by_start_sequence", "opt_start_seq": first, "ack_policy": "none"}
    with Connection(port) as connection:
        created = connection.request(
            "$JS.API.CONSUMER.CREATE.CRASH", {"stream_name": "CRASH", "config": config}
        )
        assert "error" not in created, created
        pending = created["num_pending"]
        body = json.dumps({"batch": max(pending, 1), "no_wait": True}).encode()
        connection.send(
            b"SUB _INBOX.read 2\r\nPUB $JS.API.CONSUMER.MSG.NEXT.CRASH.%b _INBOX.read %d\r\n%b\r\n"
            % (created["name"].encode(), len(body), body)
        )
        return _read_batch(connection, pending)


def _read_batch(connection: Connection, pending: int) -> dict[int, bytes]:
    stored: dict[int, bytes] = {}
    last = 0
    for _, headers, payload, reply in islice(connection.messages(), pending):
        assert not headers, headers
        seq = int(reply.split(b".")[5])
        assert seq > last, "out of order"
        stored[seq] = payload
        last = seq
    return stored


def check(record: Record, stored: dict[int, bytes], *, first: int = 1) -> None:
    """Every acknowledged message from `first` on is stored under its sequence, whole and unaltered."""
    assert all(is_whole(payload) for payload in stored.values())
    missing = [seq for seq in record.acknowledged if seq >= first and seq not in stored]
    assert not missing, f"{len(missing)} acknowledged messages are missing, the first is {min(missing)}"
    for seq, number in record.acknowledged.items():
        if seq >= first:
            assert int(stored[seq].partition(b" ")[0]) == number, f"sequence {seq} holds another message"

"""A publisher that writes down what was acknowledged, and a reader that checks it against what is stored.

Both talk the protocol over a plain blocking socket: what the test believes must not depend on a client library's
retries and buffers.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"lang":"test"}\r\nPING\r\n'
PATIENCE_SECONDS = 20.0


def payload_of(number: int) -> bytes:
    """A message that proves by itself that it is whole; sizes differ."""
    filler = blake2b(b"%d" % number, digest_size=16).hexdigest().encode() * (number % 7)
    return b"%d %b" % (number, filler)


def is_whole(payload: bytes) -> bool:
    number, _, _ = payload.partition(b" ")
    return number.isdigit() and payload == payload_of(int(number))


class Connection:
    """Frames in, frames out. Any failure of the network is a ConnectionError."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        self._stream = self.socket.makefile("rb")
        self.socket.sendall(CONNECT)
        while self._stream.readline().strip() != b"PONG":
            pass

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def messages(self) -> Iterator[tuple[bytes, bytes, bytes]]:
        """(subject, headers, payload) of each message that comes."""
        while True:
            line = self._stream.readline()
            if not line:
                raise ConnectionResetError("the server is gone")
            words = line.split()
            if words[0] == b"MSG":
                payload = self._read(int(words[-1]))
                yield words[1], b"", payload
            elif words[0] == b"HMSG":
                body, header = self._read(int(words[-1])), int(words[-2])
                yield words[1], body[:header], body[header:]
            elif words[0] == b"PING":
                self.send(b"PONG\r\n")
            elif words[0] == b"-ERR":
                raise ConnectionError(line.decode())

    def _read(self, size: int) -> bytes:
        body = self._stream.read(size + 2)
        if len(body) < size + 2:
            raise ConnectionResetError("the server is gone")
        return body[:size]

    def request(self, subject: str, body: dict[str, Any] | bytes = b"") -> dict[str, Any]:
        """One JetStream API request; the answer as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        inbox = b"_INBOX.ask.%d" % time.monotonic_ns()
        self.send(b"SUB %b 9\r\nPUB %b %b %d\r\n%b\r\n" % (inbox, subject.encode(), inbox, len(data), data))
        for answered, headers, payload in self.messages():
            if answered == inbox:
                self.send(b"UNSUB 9\r\n")
                if b" 503" in headers[:16]:
                    raise ConnectionError(f"nobody answers {subject}")
                answer: dict[str, Any] = json.loads(payload)
                return answer
        raise AssertionError

    def close(self) -> None:
        self._stream.close()
        self.socket.close()


@dataclass
class Record:
    """What a publisher knows: the number of every message that was acknowledged, by its sequence."""

    acknowledged: dict[int, int] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)
    next_number: int = 1

    def publish(
        self, port: int, *, until: float = 0.0, count: int = 1 << 62, in_flight: int = 256, size: int = 0
    ) -> None:
        """Publish with a bounded flight until the time, the count, or the server's end (which is no error)."""
        try:
            connection = Connection(port)
        except ConnectionError:
            return
        try:
            self._publish(connection, until or float("inf"), count, in_flight, size)
        except (ConnectionError, OSError):
            pass
        finally:
            connection.close()

    def _publish(self, connection: Connection, until: float, count: int, in_flight: int, size: int) -> None:
        connection.send(b"SUB _INBOX.acks.* 1\r\n")
        flying = 0
        answers = connection.messages()
        while True:
            burst = []
            while flying < in_flight and count and time.monotonic() < until:
                payload = (
                    payload_of(self.next_number).ljust(size, b" ") if size else payload_of(self.next_number)
                )
                burst.append(b"PUB crash.%d _INBOX.acks.%d %d\r\n%b\r\n" % (
                    self.next_number % 5, self.next_number, len(payload), payload))  # fmt: skip
                self.next_number += 1
                count -= 1
                flying += 1
            if burst:
                connection.send(b"".join(burst))
            if not flying:
                return
            subject, _, body = next(answers)
            flying -= 1
            answer = json.loads(body)
            if "error" in answer:
                self.errors.append(answer["error"])
            else:
                number = int(subject.rpartition(b".")[2])
                assert answer["seq"] not in self.acknowledged, "a sequence was given twice"
                self.acknowledged[answer["seq"]] = number


def create_stream(port: int, **config: Any) -> None:
    connection = Connection(port)
    answer = connection.request(
        "$JS.API.STREAM.CREATE.CRASH", {"name": "CRASH", "subjects": ["crash.*"], "storage": "file", **config}
    )
    assert "error" not in answer, answer
    connection.close()


def stored_messages(port: int, first: int = 1) -> dict[int, bytes]:
    """Everything in the stream from a sequence on, by sequence, read with a pull consumer without acks."""
    connection = Connection(port)
    state = connection.request("$JS.API.STREAM.INFO.CRASH")["state"]
    wanted = [seq for seq in (state["last_seq"],) if state["messages"] and seq >= first]
    stored: dict[int, bytes] = {}
    if wanted:
        config = {"deliver_policy": "by_start_sequence", "opt_start_seq": first, "ack_policy": "none"}
        created = connection.request(
            "$JS.API.CONSUMER.CREATE.CRASH", {"stream_name": "CRASH", "config": config}
        )
        assert "error" not in created, created
        pending = created["num_pending"]
        connection.send(b"SUB _INBOX.read 2\r\n")
        body = json.dumps({"batch": pending, "expires": int(PATIENCE_SECONDS * 1e9)}).encode()
        connection.send(
            b"PUB $JS.API.CONSUMER.MSG.NEXT.CRASH.%b _INBOX.read %d\r\n%b\r\n"
            % (created["name"].encode(), len(body), body)
        )
        stored = _read_batch(connection, pending)
    connection.close()
    return stored


def _read_batch(connection: Connection, pending: int) -> dict[int, bytes]:
    stored: dict[int, bytes] = {}
    while pending:
        line = connection._stream.readline().split()
        if not line or line[0] not in (b"MSG", b"HMSG"):
            assert line and line[0] == b"PING", line
            continue
        payload = connection._read(int(line[-1]))
        assert line[0] == b"MSG", payload
        seq = int(line[3].split(b".")[5])
        assert not stored or seq > max(stored, default=0) or seq > next(reversed(stored)), "out of order"
        stored[seq] = payload
        pending -= 1
    return stored


def check(record: Record, stored: dict[int, bytes], *, first: int = 1) -> None:
    """Every acknowledged message from `first` on is stored under its sequence, whole, and nothing is altered."""
    assert all(is_whole(payload.rstrip(b" ")) or is_whole(payload) for payload in stored.values())
    missing = [seq for seq in record.acknowledged if seq >= first and seq not in stored]
    assert not missing, f"{len(missing)} acknowledged messages are missing, the first is {min(missing)}"
    for seq, number in record.acknowledged.items():
        if seq >= first:
            assert int(stored[seq].partition(b" ")[0]) == number, f"sequence {seq} holds another message"

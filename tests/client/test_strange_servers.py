"""Servers that no test could make of a real one: they fall silent, hang up in the middle, or want TLS."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
import pytest

from headrace.client import Client
from headrace.client.api import parse_time
from headrace.client.errors import ConnectionFailed, PublishFailed
from headrace.errors import ProtocolError

INFO = b'INFO {"server_id":"S","version":"2.15.1","max_payload":100,"headers":true}\r\n'
ABOUT_A_STREAM = b'{"config":{"name":"S"},"state":{"messages":7,"bytes":1,"first_seq":3,"last_seq":9}}'

Answer = Callable[[int, bytes], bytes | None]
"""What to send for a line of the client, by the number of its connection. None: hang up."""


@contextmanager
def strange_server(answer: Answer, info: bytes = INFO) -> Iterator[str]:
    """Its URL. It answers each PING itself, and every other line with `answer`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, answer, info))
        thread.start()
        try:
            yield f"nats://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(listener: socket.socket, answer: Answer, info: bytes) -> None:
    number = 0
    with suppress(OSError):  # which is how the test ends it
        while True:
            connection, _ = listener.accept()
            number += 1
            with connection, connection.makefile("rb") as lines, suppress(ConnectionError):
                connection.sendall(info)
                for line in lines:
                    said = b"PONG\r\n" if line == b"PING\r\n" else answer(number, line)
                    if said is None:
                        break
                    connection.sendall(said)


def reply_of(request: bytes) -> bytes:
    """PUB subject reply 0"""
    return request.split()[2]


def answered(request: bytes, payload: bytes) -> bytes:
    return b"MSG %s 1 %d\r\n%s\r\n" % (reply_of(request), len(payload), payload)


def test_a_server_that_wants_tls_and_does_not_speak_it() -> None:
    info = b'INFO {"server_id":"S","version":"2.15.1","max_payload":100,"tls_required":true}\r\n'
    with (
        strange_server(lambda number, line: b"", info) as url,
        pytest.raises(ConnectionFailed, match="did not answer in time"),
    ):
        Client.connect(url, connect_timeout=0.2)


def test_a_connection_that_ends_in_a_request_is_an_error_and_the_next_request_has_a_new_one() -> None:
    def answer(number: int, line: bytes) -> bytes | None:
        if not line.startswith(b"PUB "):
            return b""
        return None if number == 1 else answered(line, b"here")

    with strange_server(answer) as url, Client.connect(url) as client:
        with pytest.raises(ConnectionFailed, match="lost the connection"):
            client.request("a.subject")
        assert client.request("a.subject") == b"here"


def test_a_broken_frame_in_an_answer_is_an_error_and_the_next_request_has_a_new_connection() -> None:
    def answer(number: int, line: bytes) -> bytes | None:
        if not line.startswith(b"PUB "):
            return b""
        return b"MSG too few\r\n" if number == 1 else answered(line, b"here")

    with strange_server(answer) as url, Client.connect(url) as client:
        with pytest.raises(ProtocolError, match="does not speak the NATS protocol"):
            client.request("a.subject")
        assert client.request("a.subject") == b"here"


def test_a_question_that_changes_nothing_is_asked_again_after_the_connection_ended() -> None:
    def answer(number: int, line: bytes) -> bytes | None:
        if not line.startswith(b"PUB "):
            return b""
        return None if number == 1 else answered(line, ABOUT_A_STREAM)

    with strange_server(answer) as url, Client.connect(url) as client:
        assert client.stream_info("S").messages == 7


def test_messages_that_are_never_acknowledged_are_sent_some_times_and_then_an_error() -> None:
    sent: list[int] = []

    def answer(number: int, line: bytes) -> bytes:
        if line.startswith(b"HPUB "):
            sent.append(number)
        return b""

    with strange_server(answer) as url, Client.connect(url) as client:
        publisher = client.publisher(ack_timeout=0.05)
        publisher.publish("s", pa.array([b"x"]), msg_ids=pa.array(["1"]))
        with pytest.raises(PublishFailed, match="were not acknowledged"):
            publisher.flush()
    assert sorted(set(sent)) == sent, "once for each connection"
    assert len(sent) == 3


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-01T00:00:00-00:30", 1800 * 1_000_000_000),
        ("0001-01-01T00:00:00Z", 0),
        ("yesterday", 0),
    ],
)
def test_a_time_may_have_any_zone(text: str, nanoseconds: int) -> None:
    assert parse_time(text) == nanoseconds

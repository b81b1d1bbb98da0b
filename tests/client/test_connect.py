"""Connecting: to one of several servers, with credentials or without, and one line when it does not work."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from contextlib import suppress

import pyarrow as pa
import pytest

from headrace.client import Client, ConnectionFailed, NoResponders, RequestTimeout
from headrace.errors import ProtocolError, UsageError
from tests.client.streams import Streams
from tests.servers import Server, ServerKind, reserved_port, running_server


def test_no_server() -> None:
    with (
        reserved_port() as unused,
        pytest.raises(ConnectionFailed, match=r"no server listens at 127.0.0.1:\d+$") as caught,
    ):
        Client.connect(f"nats://127.0.0.1:{unused}")
    assert "headrace serve" in caught.value.hint


def test_the_first_server_that_is_there_is_used(server: Server) -> None:
    with reserved_port() as unused:
        servers = [f"127.0.0.1:{unused}", f"nats://127.0.0.1:{server.port}"]
        for given in (servers, ",".join(servers)):
            with Client.connect(given) as client:
                assert client.stream_names() == []


def test_none_of_several_servers() -> None:
    with (
        reserved_port() as one,
        reserved_port() as other,
        pytest.raises(ConnectionFailed, match=r"no server listens at .*; no server listens at "),
    ):
        Client.connect([f"127.0.0.1:{one}", f"127.0.0.1:{other}"])


def test_an_unknown_host() -> None:
    with pytest.raises(ConnectionFailed, match=r"the server at no.such.host.invalid:4222 cannot be reached"):
        Client.connect("nats://no.such.host.invalid")


@pytest.mark.parametrize(
    "servers", ["", [], "http://host", "ws://host", "tls://", "nats://", "nats://host:x", "nats://h:99999"]
)
def test_urls_that_make_no_sense(servers: str | list[str]) -> None:
    with pytest.raises(UsageError):
        Client.connect(servers)


@pytest.mark.parametrize(
    "greeting",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"INFO no json\r\n", b"PING\r\n", b"INFO []\r\n", b"INFO {}\r\n"],
)
def test_something_that_is_no_nats_server(greeting: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answers = threading.Thread(target=_greet, args=(listener, greeting))
        answers.start()
        try:
            with pytest.raises(ConnectionFailed, match="is not a NATS server"):
                Client.connect(f"127.0.0.1:{listener.getsockname()[1]}", connect_timeout=30)
        finally:
            answers.join()


def _greet(listener: socket.socket, greeting: bytes) -> None:
    connection, _ = listener.accept()
    with connection, suppress(ConnectionError):
        connection.sendall(greeting)
        connection.settimeout(60)
        connection.recv(1)


def test_a_server_that_says_nothing() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(ConnectionFailed, match="did not answer in time"),
    ):
        Client.connect(f"127.0.0.1:{listener.getsockname()[1]}", connect_timeout=0.2)


def test_a_server_that_speaks_another_protocol_while_nobody_reads() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        garbled = threading.Event()
        server = threading.Thread(target=_garble, args=(listener, garbled))
        server.start()
        with Client.connect(f"nats://127.0.0.1:{listener.getsockname()[1]}") as client:
            assert garbled.wait(30)
            with pytest.raises(ProtocolError, match="does not speak the NATS protocol"):
                client.request("a.subject")
        server.join()


def _garble(listener: socket.socket, garbled: threading.Event) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b'INFO {"server_id":"S","version":"2.15.1","max_payload":100,"headers":true}\r\n')
        received = b""
        while not received.endswith(b"PING\r\n"):
            received += connection.recv(4096)
        connection.sendall(b"PONG\r\nHTTP/1.1 400\r\n")
        garbled.set()
        with suppress(ConnectionError):
            while connection.recv(4096):
                pass


def test_user_and_password(kind: ServerKind) -> None:
    config = "authorization { users = [{user: alice, password: wonder}] }"
    with running_server(kind, config) as server:
        address = f"{server.host}:{server.port}"
        Client.connect(address, user="alice", password="wonder").close()
        Client.connect(f"nats://alice:wonder@{address}").close()
        for wrong in ({}, {"user": "alice", "password": "x"}, {"token": "wonder"}):
            with pytest.raises(ConnectionFailed, match=r"does not accept these credentials$") as caught:
                Client.connect(address, **wrong)
            assert "wonder" not in str(caught.value)


def test_token(kind: ServerKind) -> None:
    with running_server(kind, "authorization { token: sesame }") as server:
        address = f"{server.host}:{server.port}"
        Client.connect(address, token="sesame").close()
        Client.connect(f"nats://sesame@{address}").close()
        with pytest.raises(ConnectionFailed, match="does not accept these credentials"):
            Client.connect(address, token="open")


def test_a_server_without_jetstream(kind: ServerKind) -> None:
    with running_server(kind) as server, Client.connect(f"{server.host}:{server.port}") as client:
        for call in (
            client.stream_names,
            lambda: client.stream_info("S"),
            lambda: client.fetch_range("S", 1, 2),
        ):
            with pytest.raises(NoResponders, match="the server has no JetStream"):
                call()


def test_a_subject_that_nobody_listens_to(client: Client) -> None:
    with pytest.raises(NoResponders, match=r"nobody listens to a\.b"):
        client.request("a.b")


def test_a_listener_that_does_not_answer(client: Client, server: Server) -> None:
    with socket.create_connection((server.host, server.port)) as silent:
        silent.sendall(b"CONNECT {}\r\nSUB a.b 1\r\nPING\r\n")
        received = b""
        while b"PONG" not in received:
            received += silent.recv(65536)
        with pytest.raises(RequestTimeout, match=r"no answer from a.b in 0.1 s"):
            client.request("a.b", timeout=0.1)


@pytest.mark.parametrize("subject", ["", "a b", "a\r\nPING"])
def test_a_request_to_what_is_no_subject(client: Client, subject: str) -> None:
    with pytest.raises(UsageError, match="is not a valid subject"):
        client.request(subject)


def test_a_subject_that_we_may_not_use() -> None:
    config = 'authorization { users = [{user: u, password: p, permissions: {publish: {deny: ["secret"]}}}] }'
    with (
        running_server("nats-server", config) as server,  # headrace has no permissions so far
        Client.connect(f"nats://u:p@{server.host}:{server.port}") as client,
        pytest.raises(ConnectionFailed, match="Permissions Violation for Publish to"),
    ):
        client.publish_many("secret", pa.array(["x"]))


def test_a_closed_client(url: str) -> None:
    client = Client.connect(url)
    client.close()
    with pytest.raises(UsageError, match="closed"):
        client.stream_names()


def test_names_of_streams(client: Client, streams: Streams) -> None:
    assert client.stream_names() == []
    for number in range(300):  # more than a page
        streams.create(f"S{number:03}", [f"s.{number}"], storage="memory")
    assert client.stream_names() == [f"S{number:03}" for number in range(300)]
    assert client.stream_names("s.7") == ["S007"]
    assert client.stream_names("nothing") == []


def test_what_a_stream_says_about_itself(client: Client, streams: Streams) -> None:
    name = streams.create(subjects=["a", "b.>"], duplicate_window=30_000_000_000, max_age=60_000_000_000)
    empty = client.stream_info(name)
    assert (empty.messages, empty.first_time, empty.last_time) == (0, 0, 0)
    streams.fill(name, 10, "a")
    streams.delete_message(name, 1)
    info = client.stream_info(name)
    assert (info.name, info.subjects, info.retention) == (name, ("a", "b.>"), "limits")
    assert (info.messages, info.first_seq, info.last_seq) == (9, 2, 10)
    assert info.created < info.first_time < info.last_time
    assert (info.duplicate_window, info.max_age) == (30_000_000_000, 60_000_000_000)


def test_the_sequence_at_a_time(client: Client, streams: Streams) -> None:
    name = streams.create()
    assert client.seq_at_time(name, 0) == 1
    for _ in range(5):
        streams.fill(name, 1)
    streams.delete_message(name, 3)
    times = dict(zip([1, 2, 4, 5], _nanoseconds(streams, name, [1, 2, 4, 5]), strict=True))
    assert client.seq_at_time(name, 0) == 1
    for seq, time in times.items():
        assert client.seq_at_time(name, time) == seq
    assert client.seq_at_time(name, times[2] + 1) == 4
    assert client.seq_at_time(name, times[5] + 1) == 6
    streams.purge(name)
    assert client.seq_at_time(name, 0) == 6


def _nanoseconds(streams: Streams, name: str, seqs: list[int]) -> list[int]:
    from headrace.client.api import parse_time

    return [parse_time(streams.api(f"STREAM.MSG.GET.{name}", seq=seq)["message"]["time"]) for seq in seqs]


def test_the_client_is_imported_without_pyarrow() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None; import headrace.client as c; c.Client; "
        "assert not [m for m in sys.modules if m.startswith('pyarrow.')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

"""Very many connections: idle, coming and going, silent, too many for the descriptors (FAULTS 19-21, 27)."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.adversity.recorder import Record, check, create_stream, stored_messages
from tests.adversity.watch import KIB, Bystander, descriptors, many_descriptors, memory
from tests.servers import Server, running_server

PATIENCE_SECONDS = 60.0
CONNECT = b'CONNECT {"verbose":false}\r\nPING\r\n'
SPARE_DESCRIPTORS = 500
FORGETFUL = "max_closed_clients: 100\n"  # /connz shows the last ones: what they take is not a leak


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)


@contextmanager
def sockets_to(port: int, count: int) -> Iterator[list[socket.socket]]:
    with many_descriptors(count + SPARE_DESCRIPTORS), ExitStack() as stack:
        yield [stack.enter_context(connect(port)) for _ in range(count)]


def read_until(client: socket.socket, text: bytes) -> bytes:
    """What came up to this text; or up to the end, if it does not come."""
    received = b""
    while text not in received and (piece := client.recv(65536)):
        received += piece
    return received


def serve_idle_connections(count: int) -> None:
    with running_server("headrace") as server:
        before = memory(server.process.pid)
        with sockets_to(server.port, count) as clients:
            for client in clients:
                client.sendall(CONNECT)
            for client in clients:
                assert b"PONG" in read_until(client, b"PONG")
            growth = memory(server.process.pid) - before
            for client in clients:
                client.sendall(b"PING\r\n")
            for client in clients:
                assert b"PONG" in read_until(client, b"PONG")
        print(f"{count} idle connections: all served, {growth / count / KIB:.1f} KB per connection")
    assert growth / count < 45 * KIB, "more than nats-server needs"


def test_idle_connections_are_served() -> None:
    serve_idle_connections(500)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_ten_thousand_idle_connections_are_served() -> None:
    serve_idle_connections(10_000)


def come_and_go(server: Server, count: int, per_second: float = 0.0) -> None:
    began = time.monotonic()
    for number in range(count):
        with connect(server.port) as client:
            client.sendall(CONNECT)
            assert b"PONG" in read_until(client, b"PONG")
        if per_second:
            time.sleep(max(began + number / per_second - time.monotonic(), 0))


def leave_nothing_behind(count: int, per_second: float = 0.0) -> None:
    with running_server("headrace", FORGETFUL) as server, Bystander(server.port) as bystander:
        pid = server.process.pid
        come_and_go(server, max(1000, count // 10), per_second)  # what is allocated once
        open_before, before, began = descriptors(pid), memory(pid), time.monotonic()
        come_and_go(server, count, per_second)
        rate = count / (time.monotonic() - began)
        while descriptors(pid) > open_before:  # the last one is on its way
            time.sleep(0.01)
        growth = memory(pid) / before - 1
    print(
        f"{count} connects, {rate:.0f} per second: descriptors +0, RSS {growth:+.1%}; {bystander.describe()}"
    )
    assert growth <= 0.05


def test_connections_that_come_and_go_leave_nothing_behind() -> None:
    leave_nothing_behind(2000)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_thousand_connects_per_second_for_ten_minutes_leave_nothing_behind() -> None:
    leave_nothing_behind(600_000, 1000.0)


def limit_descriptors(server: Server, limit: int) -> None:
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, hard))


def test_clients_cannot_take_the_descriptors_of_streams(tmp_path: Path) -> None:
    record = Record()
    with (
        running_server("headrace", flags=["-js", "-sd", str(tmp_path)]) as server,
        Bystander(server.port) as bystander,
    ):
        create_stream(server.port)
        record.publish(server.port, count=1000)
        limit_descriptors(server, 256)
        with sockets_to(server.port, 300) as clients:
            answers = [read_until(client, b"connections exceeded") if number >= 250 else client.recv(5)
                       for number, client in enumerate(clients)]  # fmt: skip
            refused = [answer for answer in answers if b"maximum connections exceeded" in answer]
            assert len(refused) == 50
            end = time.monotonic() + PATIENCE_SECONDS
            while (used := descriptors(server.process.pid)) > 256 - 256 // 4 + 1:
                assert time.monotonic() < end, used  # those who were refused are closed a moment later
                time.sleep(0.01)
        while descriptors(server.process.pid) > 100:
            time.sleep(0.01)
        record.publish(server.port, count=1000)
        check(record, stored_messages(server.port))
        assert len(record.acknowledged) == 2000
        server.wait_for_log("Clients are refused: the process may open 256 files")
    print(f"256 descriptors, 300 clients: {used} used, served again at once; {bystander.describe()}")


def test_a_server_without_descriptors_backs_off_and_recovers() -> None:
    with running_server("headrace") as server, Bystander(server.port) as bystander:
        limit, _ = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        limit_descriptors(server, descriptors(server.process.pid))
        with sockets_to(server.port, 50) as clients:  # the kernel accepts them
            server.wait_for_log("Cannot accept connections for now: too many open files")
            limit_descriptors(server, limit)
            freed_at = time.monotonic()
            for client in clients:
                assert client.recv(5) == b"INFO "
            took = time.monotonic() - freed_at
        assert server.log().count("Cannot accept") <= 2
    print(f"descriptors exhausted: all 50 clients served {took:.2f} s after; {bystander.describe()}")


def time_out_silent_sockets(count: int) -> None:
    config = "authorization { token: secret, timeout: 2 }\n"
    hello = b'CONNECT {"verbose":false,"auth_token":"secret"}\r\nPING\r\n'
    with (
        running_server("headrace", config) as server,
        Bystander(server.port, hello) as bystander,
        sockets_to(server.port, count) as clients,
    ):
        last_at = time.monotonic()
        for client in clients:
            assert read_until(client, b"-ERR").endswith(b"-ERR 'Authentication Timeout'\r\n")
            assert client.recv(100) == b""
        took = time.monotonic() - last_at
        while descriptors(server.process.pid) > 50:
            time.sleep(0.01)
    print(f"{count} silent sockets: all closed {took:.1f} s after the last connect; {bystander.describe()}")


def test_silent_sockets_are_timed_out() -> None:
    time_out_silent_sockets(300)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_five_thousand_silent_sockets_are_timed_out() -> None:
    time_out_silent_sockets(5000)

"""Operations on connections: very many subscriptions, and credentials that take long to check."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.stalls.asker import BLOCK_MESSAGES, Asker
from benchmarks.stalls.operations import Ports, operation
from headrace.bench.wire import open_connections
from headrace.client.addresses import Address

SUBSCRIPTIONS = 1_000_000


@contextmanager
def subscribed(address: Address, count: int) -> Iterator[socket.socket]:
    """A connection with this many subscriptions."""
    with open_connections(address, [b""]) as (connection,):
        send_lines(connection, subscribe_line, count)
        yield connection


def send_lines(connection: socket.socket, line: Callable[[int], bytes], count: int) -> None:
    for start in range(0, count, BLOCK_MESSAGES):
        connection.sendall(b"".join(line(number) for number in range(start, start + BLOCK_MESSAGES)))
    connection.sendall(b"PING\r\n")
    received = b""
    while b"PONG" not in received:
        received = received[-8:] + connection.recv(65536)


def subscribe_line(number: int) -> bytes:
    return b"SUB a.%d.%d %d\r\n" % (number % 1000, number // 1000, number)


@operation("subscriptions")
def subscriptions(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """A connection with a million subscriptions closes."""
    with subscribed(ports.client, SUBSCRIPTIONS) as connection:
        time.sleep(0.5)
        yield
        connection.shutdown(socket.SHUT_RDWR)  # the bystander's process has the socket, too
    time.sleep(1)


# -- credentials

HASH = "$2a$11$fC44NJfdnMgBmKkOWdoxEeavelHiuCIPMwgEVwh/rlrExfbMYLyNK"
CONFIG = f"""
http: "127.0.0.1:-1"
authorization: {{
  timeout: 60  # on a busy machine a client may take seconds to say who it is
  users: [ {{user: anybody, password: anything}}, {{user: hashed, password: "{HASH}"}} ]
}}
no_auth_user: anybody
"""
CONNECTS = 20


@operation("connect-bcrypt")
def connect_bcrypt(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """Clients whose password is compared with a hash, which takes a tenth of a second, all at once."""
    yield
    hello = b'CONNECT {"verbose":false,"user":"hashed","pass":"wrong"}\r\nPING\r\n'
    sockets = [
        socket.create_connection((ports.client.host, ports.client.port), timeout=60) for _ in range(CONNECTS)
    ]
    for connection in sockets:
        connection.sendall(hello)
    for connection in sockets:
        while connection.recv(4096):
            pass
        connection.close()


# -- subscriptions


def _subscribing(
    name: str, line: Callable[[int], bytes], *, after: Callable[[int], bytes] | None = None
) -> None:
    """Lines as fast as one connection can send them; with `after`, those are the operation."""

    @operation(name)
    def run(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
        with open_connections(ports.client, [b""]) as (connection,):
            if after is not None:
                send_lines(connection, line, messages)
            yield
            send_lines(connection, after or line, messages)


_subscribing("subscribe", subscribe_line)
_subscribing("subscribe-queue", lambda number: b"SUB q.%d workers %d\r\n" % (number, number))
_subscribing("subscribe-one-subject", lambda number: b"SUB one %d\r\n" % number)
_subscribing("unsubscribe", subscribe_line, after=lambda number: b"UNSUB %d\r\n" % number)

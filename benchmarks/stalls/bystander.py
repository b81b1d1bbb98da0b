"""A bystander pings the server every few milliseconds, from another process, and records its waits."""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from headrace.bench.servers import Process
from headrace.client.addresses import Address

PING_SECONDS = 0.003

Wait = tuple[float, float, float]
"""When it began, how long it lasted, and the server's CPU time within it, in seconds."""


def stand_by(address: Address, pid: int, orders: Connection) -> None:
    """Ping until stopped; then return when each ping was sent and how long its answer took."""
    waits: list[Wait] = []
    used = Path(f"/proc/{pid}/task/{pid}/schedstat")
    with socket.create_connection((address.host, address.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
        while b"PONG" not in connection.recv(4096):
            pass
        orders.send(True)
        while not orders.poll():
            before, started = int(used.read_text().split()[0]), time.monotonic()
            connection.sendall(b"PING\r\n")
            while b"PONG" not in connection.recv(4096):
                pass
            lasted = time.monotonic() - started
            waits.append((started, lasted, (int(used.read_text().split()[0]) - before) / 1e9))
            time.sleep(PING_SECONDS)
    orders.send(waits)


@contextmanager
def bystander(server: Process, result: list[Wait]) -> Iterator[None]:
    """The waits of the pings that were sent within the block."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=stand_by, args=(server.address, server.pid, theirs)
    )
    process.start()
    ours.recv()
    started = time.monotonic()
    try:
        yield
    finally:
        ended = time.monotonic()
        ours.send(None)
        waits = ours.recv()
        process.join()
        result += [wait for wait in waits if wait[0] + wait[1] >= started and wait[0] <= ended]

"""Peers that abuse WebSocket: bombs, lengths, endless fragments, before anybody is known (FAULTS 40)."""

from __future__ import annotations

import os
import socket
import zlib
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache

import pytest

from tests import websockets as ws
from tests.adversity.watch import KIB, MIB, Bystander, memory, reset_peak
from tests.servers import Server, running_server

PATIENCE_SECONDS = 60.0
MAX_PAYLOAD = MIB
CONNECT = b'CONNECT {"verbose":false}\r\n'
OPEN = 'websocket { listen: "127.0.0.1:-1", no_tls: true, compression: true }\n'
CLOSED = OPEN.replace("}", ', authorization { user: derek, password: "word", timeout: 60 } }')
COMPRESSED = f"Sec-WebSocket-Extensions: {ws.DEFLATE}"
ZEROS = 64 * MIB


def connect(server: Server, *headers: str) -> socket.socket:
    port = server.websocket_port
    client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ws.handshake(client, port, *headers)
    return client


@cache
def zeros() -> bytes:
    """A thousandth of what it holds."""
    compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
    pieces = [compressor.compress(bytes(MIB)) for _ in range(ZEROS // MIB)]
    return b"".join(pieces) + compressor.flush(zlib.Z_SYNC_FLUSH)


@cache
def lines() -> bytes:
    """The parser could go on with these."""
    return ws.deflate(CONNECT + b"+OK\r\n" * (4 * MIB))


def in_one_frame(bomb: bytes) -> bytes:
    return ws.frame(bomb, rsv=ws.RSV1)


def in_fragments(bomb: bytes) -> bytes:
    return ws.fragments((bomb[at : at + 1000] for at in range(0, len(bomb), 1000)), rsv=ws.RSV1)


def is_closed(client: socket.socket) -> bool:
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


def send_what_is_taken(client: socket.socket, data: bytes) -> None:
    with suppress(ConnectionError):
        client.sendall(data)


@pytest.mark.parametrize("settings", [OPEN, CLOSED], ids=["anybody", "before authentication"])
@pytest.mark.parametrize("shape", [in_one_frame, in_fragments])
@pytest.mark.parametrize("make", [zeros, lines])
def test_a_deflate_bomb_is_closed_and_takes_little_memory(
    settings: str, shape: Callable[[bytes], bytes], make: Callable[[], bytes]
) -> None:
    bomb = make()
    with running_server("headrace", settings) as server, Bystander(server.port) as bystander:
        with connect(server, COMPRESSED) as first:  # what is needed once is there from now on
            send_what_is_taken(first, in_one_frame(ws.deflate(b"PING\r\n" * 100)))
            first.shutdown(socket.SHUT_WR)
            assert is_closed(first)
        reset_peak(server.process.pid)
        before = memory(server.process.pid)
        with ExitStack() as stack:
            clients = [stack.enter_context(connect(server, COMPRESSED)) for _ in range(5)]
            for client in clients:
                send_what_is_taken(client, shape(bomb))
            assert all(map(is_closed, clients))
        growth = memory(server.process.pid, "VmHWM") - before
        assert server.process.poll() is None
    print(f"5 bombs of {len(bomb) // KIB} KiB: peak RSS +{growth // KIB} KiB; {bystander.describe()}")
    assert growth <= 2 * MAX_PAYLOAD


def test_a_length_of_2_to_the_63_is_refused_and_one_below_costs_nothing() -> None:
    with running_server("headrace", OPEN) as server:
        with connect(server) as client:
            client.sendall(ws.frame(b"x", length=1 << 63, length_bytes=8))
            assert is_closed(client)
        before = memory(server.process.pid)
        with ExitStack() as stack:
            clients = [stack.enter_context(connect(server)) for _ in range(200)]
            for client in clients:
                client.sendall(ws.frame(CONNECT + b"PING\r\n", length=(1 << 63) - 1, length_bytes=8))
            for client in clients:
                answer = b""
                while b"PONG\r\n" not in answer:
                    answer += client.recv(65536)
            growth = (memory(server.process.pid) - before) / len(clients)
    print(f"frames of 2^63 - 1 bytes: {growth / KIB:.1f} KiB per connection")
    assert growth <= 16 * KIB


@pytest.mark.parametrize("size", [0, 1, 100])
def test_endless_fragments_cost_no_memory(size: int) -> None:
    with running_server("headrace", CLOSED) as server, connect(server) as client:
        before = memory(server.process.pid)
        client.sendall(ws.frame(b"", fin=False))
        fragment = ws.frame(b"x" * size, ws.CONTINUATION, fin=False)
        for _ in range(20):
            send_what_is_taken(client, fragment * 10_000)
        if size:
            assert is_closed(client)  # the control line is too long, in however many frames it comes
        else:
            client.sendall(ws.frame(b"?", ws.PING))
            answer = b""
            while b"\x8a\x01?" not in answer:
                answer += client.recv(65536)
        growth = memory(server.process.pid) - before
    print(f"200,000 fragments of {size} bytes: +{growth // KIB} KiB")
    assert growth <= MAX_PAYLOAD


def test_messages_that_never_end_cost_little_before_authentication() -> None:
    """nats-server keeps up to eight times max_payload for each of them."""
    piece = os.urandom(4 * KIB)
    unfinished = ws.frame(ws.deflate(CONNECT[:5] + b"x" * 100), rsv=ws.RSV1, fin=False)
    stored = b"\0" + len(piece).to_bytes(2, "little") + (len(piece) ^ 0xFFFF).to_bytes(2, "little") + piece
    with running_server("headrace", CLOSED) as server, ExitStack() as stack:
        clients = [stack.enter_context(connect(server, COMPRESSED)) for _ in range(200)]
        before = memory(server.process.pid)
        for client in clients:
            client.sendall(unfinished)
        for _ in range(20):
            for client in clients:
                send_what_is_taken(client, ws.frame(stored, ws.CONTINUATION, fin=False))
        growth = (memory(server.process.pid) - before) / len(clients)
        assert server.process.poll() is None
    print(f"messages that never end: {growth / KIB:.1f} KiB per connection")
    assert growth <= 64 * KIB


def test_heads_of_requests_that_never_end_are_limited_in_all() -> None:
    with running_server("headrace", CLOSED) as server, ExitStack() as stack:
        before = memory(server.process.pid)
        for _ in range(1500):
            client = socket.create_connection(("127.0.0.1", server.websocket_port), PATIENCE_SECONDS)
            stack.enter_context(client)
            send_what_is_taken(client, b"GET / HTTP/1.1\r\nX: " + b"x" * 31 * KIB)
        with connect(server) as patient:
            patient.sendall(ws.frame(CONNECT))
        growth = memory(server.process.pid) - before
    print(f"1,500 heads that never end: +{growth // MIB} MiB")
    assert growth <= 64 * MIB


def test_a_flood_of_pings_without_reading_costs_little() -> None:
    with running_server("headrace", CLOSED) as server, connect(server) as client:
        before = memory(server.process.pid)
        client.settimeout(0.5)
        with suppress(TimeoutError, ConnectionError):
            for _ in range(100):
                client.sendall(ws.frame(b"x" * 125, ws.PING) * 1000)
        growth = memory(server.process.pid) - before
    print(f"100,000 pings: +{growth // KIB} KiB")
    assert growth <= MAX_PAYLOAD

"""WebSocket for the load generator: the handshake, and frames that are masked before the run."""

from __future__ import annotations

import base64
import os
import socket

from headrace.bench.failure import BenchError
from headrace.client.addresses import Address

LONGEST_HEAD_BYTES = 16 * 1024
FINAL_BINARY = 0x82
MASKED = 0x80


def upgrade(connection: socket.socket, address: Address) -> None:
    """Ask for WebSocket, and read the answer to its end. Raises BenchError."""
    key = base64.b64encode(os.urandom(16)).decode()
    connection.sendall(
        f"GET / HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < LONGEST_HEAD_BYTES:
        piece = connection.recv(1)  # what follows is not HTTP
        if not piece:
            break
        head += piece
    if not head.startswith(b"HTTP/1.1 101 "):
        raise BenchError(f"{address} does not speak WebSocket: {head.splitlines()[:1]}")


def mask_frame(payload: bytes) -> bytes:
    """One message of a client."""
    size, key = len(payload), os.urandom(4)
    if size < 126:
        head = bytes([FINAL_BINARY, MASKED | size])
    elif size < 1 << 16:
        head = bytes([FINAL_BINARY, MASKED | 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([FINAL_BINARY, MASKED | 127]) + size.to_bytes(8, "big")
    repeated = (key * (size // 4 + 1))[:size]
    masked = (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
    return head + key + masked


def payloads(data: bytes) -> bytes:
    """What the whole frames of a server carry."""
    found = b""
    while len(data) >= 2:
        size, start = data[1], 2
        if size >= 126:
            start = 4 if size == 126 else 10
            size = int.from_bytes(data[2:start], "big")
        if len(data) < start + size:
            break
        found += data[start : start + size]
        data = data[start + size :]
    return found

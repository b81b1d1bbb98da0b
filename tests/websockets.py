"""The client's side of WebSocket, byte for byte: frames are made by hand, so that they can also be wrong."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
FIN, RSV1, RSV2, RSV3, MASKED = 0x80, 0x40, 0x20, 0x10, 0x80
MASK = b"\x37\xfa\x21\x3d"  # that of the examples in RFC 6455
KEY = "dGhlIHNhbXBsZSBub25jZQ=="  # and so is this one
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
DEFLATE = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"


def mask(data: bytes, key: bytes = MASK) -> bytes:
    """Masking twice gives the data again."""
    repeated = (key * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(len(data), "big")


def frame(
    payload: bytes = b"",
    opcode: int = BINARY,
    *,
    fin: bool = True,
    rsv: int = 0,
    key: bytes | None = MASK,
    length: int | None = None,
    length_bytes: int | None = None,
) -> bytes:
    """One frame of a client. `length` announces another one than that of the payload."""
    size = len(payload) if length is None else length
    first = opcode | (FIN if fin else 0) | rsv
    masked = MASKED if key is not None else 0
    if length_bytes is None:
        length_bytes = 1 if size < 126 else 2 if size < 1 << 16 else 8
    if length_bytes == 1:
        head = bytes([first, masked | size])
    else:
        code, form = (126, ">H") if length_bytes == 2 else (127, ">Q")
        head = bytes([first, masked | code]) + struct.pack(form, size)
    if key is None:
        return head + payload
    return head + key + mask(payload, key)


def fragments(payloads: Iterable[bytes], opcode: int = BINARY, rsv: int = 0) -> bytes:
    """One message in several frames."""
    pieces = list(payloads)
    last = len(pieces) - 1
    return b"".join(
        frame(piece, CONTINUATION if place else opcode, fin=place == last, rsv=0 if place else rsv)
        for place, piece in enumerate(pieces)
    )


def close_frame(status: int | None = 1000, text: bytes = b"") -> bytes:
    return frame(b"" if status is None else struct.pack(">H", status) + text, CLOSE)


def deflate(data: bytes, level: int = 6) -> bytes:
    """As permessage-deflate has it: without the four bytes that end every flush."""
    compressor = zlib.compressobj(level, zlib.DEFLATED, -15)
    return (compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH))[:-4]


def inflate(data: bytes) -> bytes:
    return zlib.decompressobj(-15).decompress(data + b"\0\0\xff\xff")


@dataclass(frozen=True)
class Frame:
    opcode: int
    payload: bytes
    fin: bool = True
    rsv: int = 0
    masked: bool = False

    @property
    def status(self) -> int:
        """Of a close frame; 0 if it has none."""
        return int.from_bytes(self.payload[:2], "big")


def split_frames(data: bytes) -> tuple[list[Frame], bytes]:
    """The frames of a server, and what is left over."""
    frames = []
    while len(data) >= 2:
        head, size = 2, data[1] & 127
        if size == 126:
            head, size = 4, int.from_bytes(data[2:4], "big")
        elif size == 127:
            head, size = 10, int.from_bytes(data[2:10], "big")
        if len(data) < head + size:
            break
        frames.append(
            Frame(
                data[0] & 15,
                data[head : head + size],
                bool(data[0] & FIN),
                data[0] & 0x70,
                bool(data[1] & MASKED),
            )
        )
        data = data[head + size :]
    return frames, data


class Decoder:
    """From the bytes that a server sends to those of the NATS protocol, and the control frames in between."""

    def __init__(self) -> None:
        self.control: list[Frame] = []
        self._rest = b""
        self._compressed = b""
        self._is_compressed = False

    def decode(self, data: bytes) -> bytes:
        frames, self._rest = split_frames(self._rest + data)
        return b"".join(self._payloads(frames))

    def _payloads(self, frames: list[Frame]) -> Iterator[bytes]:
        for received in frames:
            if received.opcode >= CLOSE:
                self.control.append(received)
                continue
            if received.opcode != CONTINUATION:
                self._is_compressed = bool(received.rsv & RSV1)
            if not self._is_compressed:
                yield received.payload
                continue
            self._compressed += received.payload
            if received.fin:
                yield inflate(self._compressed)
                self._compressed = b""


def request(
    port: int, *headers: str, target: str = "/", method: str = "GET", left_out: Iterable[str] = ()
) -> bytes:
    """A handshake. A header that is given replaces the usual one of that name."""
    usual = {
        "Host": f"127.0.0.1:{port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": KEY,
        "Sec-WebSocket-Version": "13",
    }
    given = {header.partition(":")[0].lower() for header in headers} | {name.lower() for name in left_out}
    lines = [f"{name}: {value}" for name, value in usual.items() if name.lower() not in given]
    return "\r\n".join([f"{method} {target} HTTP/1.1", *lines, *headers, "", ""]).encode()


def accept_key(key: str = KEY) -> str:
    return base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()


def handshake(connection: socket.socket, port: int, *headers: str, target: str = "/") -> bytes:
    """Upgrade a connection. Returns what came after the head of the answer, which is read whole."""
    connection.sendall(request(port, *headers, target=target))
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError(f"the server hung up after {answer!r}")
        answer += piece
    head, _, rest = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 101 "):
        raise ConnectionError(head.decode())
    return rest


def random_mask() -> bytes:
    return os.urandom(4)

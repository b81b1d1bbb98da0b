"""A client on a plain socket: it says exactly what a test wants it to say, and keeps what it hears."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

from tests.frames import Frame, read_frames
from tests.servers import Server

PATIENCE_SECONDS = 30.0
QUIET = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "protocol": 1}


class Peer:
    """Connected, and past its INFO. `options` are the fields of its CONNECT; none: it sends no CONNECT."""

    def __init__(self, server: Server, **options: Any) -> None:
        self.socket = socket.create_connection((server.host, server.port), PATIENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self.info = json.loads(self._until(lambda frames: bool(frames))[0].argument)
        if options:
            self.send(b"CONNECT " + json.dumps(QUIET | options).encode() + b"\r\n")

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def publish(self, subject: str, payload: bytes = b"", reply: str = "", **headers: str) -> None:
        """Underscores in the names of headers stand for dashes."""
        block = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"NATS/1.0\r\n{block}\r\n".encode() if headers else b""
        sizes = f"{len(head)} {len(head + payload)}" if headers else str(len(payload))
        words = " ".join(filter(None, (subject, reply, sizes)))
        self.send(f"{'HPUB' if headers else 'PUB'} {words}\r\n".encode() + head + payload + b"\r\n")

    def sync(self) -> list[Frame]:
        """Everything that came until the server had carried out what was sent so far."""
        self.send(b"PING\r\nPING\r\n")
        return self._until(lambda frames: sum(frame.operation == "PONG" for frame in frames) >= 2)

    def messages(self, count: int) -> list[Frame]:
        """The next ones, this many at least."""
        return [frame for frame in self._until(lambda found: _messages(found) >= count) if frame.sid]

    def heard(self) -> list[Frame]:
        """All messages up to now."""
        return [frame for frame in self.sync() if frame.sid]

    def last_words(self) -> list[Frame]:
        """Everything until the server closes the connection."""
        frames: list[Frame] = []
        while data := self._receive():
            found, self._rest = read_frames(self._rest + data)
            frames += found
        return frames

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(65536)
        except ConnectionResetError:
            return b""

    def _until(self, is_enough: Callable[[list[Frame]], bool]) -> list[Frame]:
        frames, self._rest = read_frames(self._rest)
        while not is_enough(frames):
            data = self._receive()
            assert data, f"the server has closed the connection after {frames}"
            found, self._rest = read_frames(self._rest + data)
            frames += found
        return frames


def _messages(frames: list[Frame]) -> int:
    return sum(bool(frame.sid) for frame in frames)

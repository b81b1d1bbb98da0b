"""A socket with TLS, for what the benchmark says in Python: the start of a run, and the API of streams."""

from __future__ import annotations

import io
import select
import socket
import ssl
from typing import TYPE_CHECKING, Any

from headrace.client.tls import BLOCKED, TlsChannel

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class SecureConnection(socket.socket):
    """`recv`, `sendall` and `makefile` go through TLS; `channel` is for the compiled loop."""

    def __init__(self, connected: socket.socket, context: ssl.SSLContext, name: str) -> None:
        """Begins the handshake, which `shake_hands` ends."""
        super().__init__(connected.family, connected.type, connected.proto, connected.detach())
        self._seconds: float | None = None
        self.channel = TlsChannel(self, context, name)
        try:
            self.channel.begin_handshake()
        except BaseException:
            self.close()
            raise

    def shake_hands(self, timeout: float) -> None:
        """Raises ssl.SSLError, OSError and TimeoutError. The timeout remains."""
        self._seconds = timeout
        self.channel.shake_hands(timeout)

    def settimeout(self, value: float | None, /) -> None:
        self._seconds = value

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        self.channel.send_all(data, self._seconds or 0.0)

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        buffer = memoryview(bytearray(bufsize))
        return bytes(buffer[: self.read_into(buffer)])

    def read_into(self, buffer: memoryview) -> int:
        """Wait for bytes; 0 at the end."""
        while (count := self.channel.read_into(buffer)) == BLOCKED:
            poll = select.poll()
            poll.register(self, select.POLLIN)
            if not poll.poll(None if self._seconds is None else self._seconds * 1000):
                raise TimeoutError("timed out")
        return count

    def makefile(self, *how: Any, **more: Any) -> Any:
        return io.BufferedReader(_Reader(self))


class _Reader(io.RawIOBase):
    def __init__(self, connection: SecureConnection) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        return self._connection.read_into(memoryview(buffer))

"""Connections to the WebSocket port: one that is upgraded, and one whose requests are HTTP.

On an upgraded one whatever is written becomes one masked frame, unless the step says that it has frames
already. What is received is the NATS protocol again, with a line such as `<close 1008 reason>` for each
control frame. How the server cuts its bytes into frames is its own business, and not compared.
"""

from __future__ import annotations

import re
import ssl

from tests.certificates import shared
from tests.interop.session import WireKind
from tests.interop.wire import Wire
from tests.servers import Server
from tests.websockets import CLOSE, Decoder, frame, request, split_frames

NAMES = {8: b"close", 9: b"ping", 10: b"pong"}
_DATE = re.compile(rb"(?m)^Date: .*\r$")
_LENGTH = re.compile(rb"Content-Length: (\d+)")


def open_wire(kind: WireKind, server: Server, headers: tuple[str, ...]) -> Wire:
    if kind == "plain":
        return Wire(server.host, server.port)
    if kind == "http":
        return HttpWire(server.host, server.websocket_port)
    is_secure = kind == "websocket over TLS"
    return WebSocketWire(server.host, server.websocket_port, headers, is_secure=is_secure)


class WebSocketWire(Wire):
    def __init__(self, host: str, port: int, headers: tuple[str, ...], *, is_secure: bool = False) -> None:
        super().__init__(host, port)
        if is_secure:
            context = ssl.create_default_context(cafile=shared().ca)
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        self._decoder = Decoder()
        self._socket.sendall(request(port, *(header.format(port=port) for header in headers)))
        self._head = b""
        while b"\r\n\r\n" not in self._head and not self.is_closed:
            self._head += self._receive_bytes(1)

    def hang_up(self, last_word: bytes = b"") -> None:
        """Python cannot shut one direction of TLS and go on reading the other."""
        if isinstance(self._socket, ssl.SSLSocket):
            self._write(last_word)
            self._socket.close()
        else:
            super().hang_up(last_word)

    def _receive_bytes(self, size: int) -> bytes:
        piece = self._socket.recv(size)
        self.is_closed = not piece
        return piece

    def _write(self, data: bytes) -> None:
        super()._write(data if self.is_raw or not data else frame(data))

    def _receive(self, seconds: float) -> bool:
        before = bytes(self._received)
        self._received.clear()
        happened = super()._receive(seconds)
        self._received[:] = before + self._decoder.decode(bytes(self._received))
        return happened

    def take(self) -> bytes:
        """Pongs first: whether one overtakes a message is a matter of buffers. A close frame is the last."""
        if self._ahead:  # which came before them
            return super().take()
        control = [self._tell(frame.opcode, frame.payload) for frame in self._decoder.control]
        self._decoder.control.clear()
        if control and control[-1].startswith(b"<close"):
            return b"".join(control[:-1]) + super().take() + control[-1]
        return b"".join(control) + super().take()

    def _tell(self, opcode: int, payload: bytes) -> bytes:
        if opcode == CLOSE and payload:
            payload = b"%d %b" % (int.from_bytes(payload[:2], "big"), payload[2:])
        return b"<%b>\r\n" % b" ".join(filter(None, (NAMES[opcode], payload)))


class HttpWire(Wire):
    """Nothing is said before the first request. A step ends with its whole answer."""

    def _write(self, data: bytes) -> None:
        self._has_no_body = data.startswith(b"HEAD ")
        super()._write(data)

    def read_line(self) -> None:
        pass

    def synchronise(self, pings_written: int = 0) -> None:
        self._read_while(lambda: not self._is_answered())

    def _is_answered(self) -> bool:
        head, end, body = bytes(self._received).partition(b"\r\n\r\n")
        if not end:
            return False
        if self._has_no_body:
            return True
        if length := _LENGTH.search(head):
            return len(body) >= int(length.group(1))
        return bool(split_frames(body)[0]) if b" 101 " in head else False

    def take(self) -> bytes:
        head, end, body = super().take().partition(b"\r\n\r\n")
        if b" 101 " in head and body:
            body = b"<frames>"
        return _DATE.sub(b"Date: <date>\r", head) + end + body

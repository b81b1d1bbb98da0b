"""One raw connection to a server on this machine, with ways to know when the server is done with what it was
sent.

Nothing here sleeps and hopes: `drain` asks the kernel whether the server has read everything, and
`synchronise` reads up to the answer to a PING. Only `read_until_quiet` needs a pause, because it waits for
something that may never come.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable

from tests.interop.kernel import unread_bytes
from tests.interop.normalise import count_messages

ANSWER_SECONDS = 30.0
QUIET_SECONDS = 0.12
NO_ANSWER_SECONDS = 2.0
MESSAGES_SECONDS = 60.0

_STATUS = re.compile(rb"NATS/1\.0 \d{3}")
_PONG = re.compile(rb"(?m)^PONG\r$")


class Wire:
    """A connection that keeps everything it receives; `take` hands out what came since the last call."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), ANSWER_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ports = (port, self._socket.getsockname()[1])
        self.port = port
        self._received = bytearray()
        self._ahead = b""  # what has come after the line that was asked for
        self.is_closed = False
        self.is_silent = False
        self.is_left_alone = False
        self.is_raw = False  # what is written next is not to be framed, where there are frames

    @property
    def received(self) -> bytes:
        """What `take` would hand out."""
        return bytes(self._received)

    def take(self) -> bytes:
        received = bytes(self._received)
        self._received.clear()
        return received

    def read_line(self) -> None:
        """Read a line, or until the end: what follows it belongs to the step that waits for it."""
        self._read_while(lambda: b"\r\n" not in self._received)
        line, end, self._ahead = bytes(self._received).partition(b"\r\n")
        self._received[:] = line + end

    def write(self, data: bytes, chunks: tuple[int, ...] = ()) -> None:
        """Write the data, at once or in pieces of these sizes, each after the server has read the last."""
        if not chunks:
            self._write(data)
            return
        position = turn = 0
        while position < len(data):
            size = chunks[turn % len(chunks)]
            self._write(data[position : position + size])
            self.drain()
            position += size
            turn += 1

    def drain(self) -> None:
        """Wait until the server has read every byte that was written."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            unread = unread_bytes(*self._ports)
            if unread is None:
                time.sleep(QUIET_SECONDS / 4)
            if not unread:
                return
            time.sleep(0.0002)

    def synchronise(self, pings_written: int = 0) -> None:
        """Read all that was caused so far: up to the answers of two PINGs, or to the end of the connection.

        `pings_written` is how many PINGs the step itself may have contained. If some of them turn out to be
        no operations (say, part of a payload), their missing answers are given up after a quiet while.
        """
        if self.is_silent:
            return  # one wait for an answer that never comes is enough
        self._write(b"PING\r\nPING\r\n")
        wanted = pings_written + 2
        started = time.monotonic()
        while not self.is_closed and (seen := len(_PONG.findall(self._received))) < wanted:
            if not self._read(NO_ANSWER_SECONDS):
                if seen >= 2:
                    return
                if time.monotonic() - started > ANSWER_SECONDS:
                    self.is_silent = True
                    return

    def read_until_quiet(self, lines: int = 0) -> None:
        """`lines` is how many come for certain, however busy the server is."""
        self.drain()
        self._read_while(lambda: self._received.count(b"\r\n") < lines)
        while not self.is_closed and self._read(QUIET_SECONDS):
            pass

    def read_messages(self, count: int) -> None:
        """Read until there are this many messages; if some do not arrive, the transcript shows it."""
        deadline = time.monotonic() + MESSAGES_SECONDS
        while not self.is_closed and count_messages(bytes(self._received)) < count:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not self._read(remaining):
                return

    def read_status(self) -> None:
        """Read until a message with a status in its headers is there, for as long as for other messages."""
        deadline = time.monotonic() + MESSAGES_SECONDS
        while not self.is_closed and not _STATUS.search(self._received):
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not self._read(remaining):
                return

    def read_until_closed(self) -> None:
        self._read_while(lambda: True)

    def hang_up(self, last_word: bytes = b"") -> None:
        """Say goodbye and wait for the server's end of it, so that the next session finds it gone."""
        if not self.is_closed:
            self._write(last_word)
            try:
                self._socket.shutdown(socket.SHUT_WR)
            except OSError:
                self.is_closed = True
            if not self.is_silent:
                self.read_until_closed()
        self._socket.close()

    def _write(self, data: bytes) -> None:
        try:
            self._socket.settimeout(ANSWER_SECONDS)
            self._socket.sendall(data)
        except TimeoutError:
            self.is_silent = True
        except OSError:
            pass  # the server has closed; reading finds out, after what it said before

    def _read_while(self, wanting: Callable[[], bool]) -> None:
        deadline = time.monotonic() + ANSWER_SECONDS
        while not self.is_closed and wanting():
            if not self._read(max(0.01, deadline - time.monotonic())):
                self.is_silent = True
                return

    def _read(self, seconds: float) -> bool:
        """Read once; whether anything happened within that time."""
        if self._ahead:
            self._received += self._ahead
            self._ahead = b""
            return True
        return self._receive(seconds)

    def _receive(self, seconds: float) -> bool:
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(1 << 20)
        except TimeoutError:
            return False
        except OSError:
            data = b""
        self._received += data
        self.is_closed = self.is_closed or not data
        return True

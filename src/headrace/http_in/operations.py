"""From the bytes that a server sends to its operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

LINE_END = b"\r\n"


class Operation(NamedTuple):
    """A message with headers is a MSG, too."""

    name: bytes
    text: str = ""
    subject: bytes = b""
    headers: bytes = b""
    payload: bytes = b""


class OperationReader:
    """Keeps what is not complete yet. The bytes come from our own broker, so nothing in them is checked."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Operation]:
        self._buffer += data
        begin = 0
        while (end := self._buffer.find(LINE_END, begin)) >= 0:
            line = bytes(self._buffer[begin:end])
            name, _, rest = line.partition(b" ")
            after = end + len(LINE_END)
            if name in (b"MSG", b"HMSG"):
                words = rest.split(b" ")
                size = int(words[-1])
                head = int(words[-2]) if name == b"HMSG" else 0
                if len(self._buffer) < after + size + len(LINE_END):
                    break
                body = bytes(self._buffer[after : after + size])
                begin = after + size + len(LINE_END)
                yield Operation(b"MSG", subject=words[0], headers=body[:head], payload=body[head:])
            else:
                begin = after
                yield Operation(name, text=rest.decode("utf-8", "replace").strip("'"))
        del self._buffer[:begin]

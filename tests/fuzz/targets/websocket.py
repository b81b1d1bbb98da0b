"""What a client sends after the handshake of WebSocket: frames, or what it takes for frames.

    byte 0    bits: what was agreed on (compression, no masks, short frames); frames are made here
    byte 1    how the bytes are cut on their way
    rest      what the client sends; if frames are made here, each starts with two bytes of its own:
              the first byte of its head (or one for the usual head) and its length

Right is: no bug is reported; what the client gets are frames of a server, whose content is what a server may
send; a close frame is the last; and a link that ends leaves nothing behind. One input in four is sent in one
piece and in several, which makes no difference. Where no rule of WebSocket is broken and nothing is
compressed, the link sees what a plain one would see.
"""

from __future__ import annotations

import socket
from _socket import socketpair
from typing import Any
from zlib import crc32

from headrace.engine.core.link import Link
from headrace.engine.core.transport import SocketTransport
from headrace.engine.transports.websocket import WebSocketTransport
from tests import websockets as ws
from tests.engine.core.harness import RecordingOwner
from tests.fuzz.cuts import cut
from tests.fuzz.targets.protocol import CONNECTS, Room, Transcript, check_frames, compare

COMPARED_EVERY = 4
MAX_PAYLOAD = 2000
DEFLATES, UNMASKED, SHORT_FRAMES, FRAMES_MADE_HERE, COMPRESSED_HERE = 1, 2, 4, 8, 16
USUAL_HEADS = (0x82, 0x81, 0x02, 0x80, 0x00, 0x89, 0x8A, 0xC2, 0x42)


class WebSocketRoom(Room):
    """A room whose next clients speak WebSocket."""

    def __init__(self) -> None:
        self.options: dict[str, Any] | None = None  # the neighbour is plain
        self.failures: list[str] = []
        super().__init__()

    def attach(self) -> tuple[socket.socket, RecordingOwner, Link]:
        if self.options is None:
            return super().attach()
        ours, theirs = socketpair(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        owner = RecordingOwner()
        descriptor = ours.detach()
        transport = WebSocketTransport(
            SocketTransport(descriptor),
            on_failure=self.failures.append,
            max_payload=MAX_PAYLOAD,
            **self.options,
        )
        owner.link = self.hub.attach(descriptor, owner, transport)
        owner.link.join(self.interest)
        return theirs, owner, owner.link

    def play(self, pieces: list[bytes], options: dict[str, Any] | None) -> tuple[Transcript, list[str]]:
        self.options, self.failures = options, []
        transcript = self.transcript(pieces, traced=False)
        return transcript, self.failures


ROOM = WebSocketRoom()


def make_frames(data: bytes, flags: int) -> tuple[bytes, bytes | None]:
    """Frames as the input wants them, and what they carry; None if something is wrong with them."""
    at, frames, content, is_valid, in_message = 0, [], b"", True, False
    key = None if flags & UNMASKED else ws.MASK
    while at + 2 <= len(data):
        head, size = data[at], data[at + 1]
        if head < 128:
            head = USUAL_HEADS[head % len(USUAL_HEADS)]
        payload = data[at + 2 : at + 2 + size]
        at += 2 + size
        opcode, rsv = head & 15, head & 0x70
        is_valid &= not rsv and opcode in (0, 1, 2, 9, 10) and (opcode == 0) == (in_message and opcode < 8)
        if opcode < 8:
            in_message = not head & ws.FIN
            content += payload
        elif not head & ws.FIN or len(payload) > 125:
            is_valid = False
        if rsv & ws.RSV1 and flags & COMPRESSED_HERE:
            payload = ws.deflate(payload, 1)
        frames.append(ws.frame(payload, opcode, fin=bool(head & ws.FIN), rsv=rsv, key=key))
    return b"".join(frames), content if is_valid else None


def check_answer(heard: bytes) -> bytes:
    """The content of what a client got."""
    frames, rest = ws.split_frames(heard)
    assert rest == b"", rest
    for place, frame in enumerate(frames):
        assert not frame.masked
        assert frame.opcode in (ws.CONTINUATION, ws.BINARY, ws.PONG, ws.CLOSE)
        assert frame.opcode != ws.CLOSE or place == len(frames) - 1
    content = ws.Decoder().decode(heard)
    check_frames(content)
    return content


def normal(played: tuple[Transcript, list[str]]) -> tuple[Transcript, list[str]]:
    """Without what depends on how bytes were cut on their way: where frames begin, and pongs in between."""
    (events, heard, closed, neighbour), failures = played
    return (events, check_answer(heard), closed, neighbour), failures


def is_corrupt(failures: list[str]) -> bool:
    """How much of a corrupt message comes out of zlib before it notices depends on how it was cut."""
    return any(failure.startswith("Error -") or failure == "unexpected EOF" for failure in failures)


def check(data: bytes) -> None:
    if len(data) < 2:
        return
    flags = data[0]
    options = {
        "deflates": bool(flags & DEFLATES),
        "masks": not flags & UNMASKED,
        "frame_limit": 40 if flags & SHORT_FRAMES else 0,
    }
    hello = ws.frame(CONNECTS[0b00100], key=None if flags & UNMASKED else ws.MASK)
    sent, content = make_frames(data[2:], flags) if flags & FRAMES_MADE_HERE else (data[2:], None)
    way = crc32(data) % COMPARED_EVERY
    played = normal(ROOM.play(cut(hello + sent, data[1]) if way % 2 else [hello + sent], options))
    check_frames(played[0][3])
    if way == 0:
        again = normal(ROOM.play(cut(hello + sent, data[1]), options))
        if not is_corrupt(played[1] + again[1]):
            compare(played[0], again[0])
            assert played[1] == again[1]
    if way == 2 and content is not None:
        plain, _ = ROOM.play([CONNECTS[0b00100] + content], None)
        compare(plain, played[0])

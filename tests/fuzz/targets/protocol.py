"""What a client sends: in one piece or in several, to one hub, with a neighbour who subscribes to
everything.

    byte 0    bits: CONNECT comes first; its options; the link is traced
    byte 1    how the rest is cut
    rest      what the client sends

Right is: no bug is reported; what client and neighbour get is what a server may send; and a link that ends
leaves nothing behind. One input in eight is sent in both ways: the owner is asked the same, the client hears
the same and the neighbour gets the same however the bytes are cut.
"""

from __future__ import annotations

import select
import socket
from _socket import socketpair  # the ends as they are: the class around them takes longer than the call
from typing import Any
from zlib import crc32

from headrace.engine.core.hub import Hub
from headrace.engine.core.interest import Interest
from headrace.engine.core.link import Link
from tests.engine.core.harness import RecordingOwner
from tests.frames import read_frames
from tests.fuzz.cuts import cut

CONNECTS = [
    b'CONNECT {"verbose":%b,"pedantic":%b,"headers":%b,"no_responders":%b,"echo":%b}\r\n'
    % tuple((b"false", b"true")[bits >> place & 1] for place in range(5))
    for bits in range(32)
]
COMPARED_EVERY = 8
RECEIVED = memoryview(bytearray(1 << 18))
Transcript = tuple[list[tuple[Any, ...]], bytes, str | None, bytes]


class Room:
    """One account of a hub that lives as long as the fuzzer, and the neighbour in it."""

    def __init__(self) -> None:
        self.hub = Hub(max_payload=2000, max_pending=1 << 26, max_control_line=512)
        self.hub.never_waits = True
        self.interest = Interest()
        self.poll = select.poll()
        self.poll.register(self.hub.fileno(), select.POLLIN)
        self.neighbour, owner, _ = self.attach()
        self.neighbour.send(CONNECTS[0b00100] + b"SUB > 1\r\nSUB a.* 2\r\nSUB b q 3\r\n")
        self.settle()
        assert owner.bugs == []
        self.subscriptions = self.interest.count

    def attach(self) -> tuple[socket.socket, RecordingOwner, Link]:
        ours, theirs = socketpair(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        owner = RecordingOwner()
        owner.link = self.hub.attach(ours.detach(), owner)
        owner.link.join(self.interest)
        return theirs, owner, owner.link

    def settle(self) -> None:
        while self.poll.poll(0):
            self.hub.poll()

    def transcript(self, pieces: list[bytes], traced: bool) -> Transcript:
        """What the owner was asked, what the client heard, why it was closed, and what the neighbour got."""
        client, owner, link = self.attach()
        link.trace(traced)
        for piece in pieces:
            try:
                client.send(piece)
            except (BrokenPipeError, ConnectionResetError):
                break
            self.hub.poll()
        self.settle()
        heard = receive(client)
        closed = owner.closed
        client.close()
        self.settle()
        assert owner.bugs == [], owner.bugs
        assert len(self.hub.links) == 1
        assert self.interest.count == self.subscriptions
        # How much of a mistake has arrived when it is noticed depends on the cut: compare only its kind.
        events = [event[:2] if event[0] == "violation" else event for event in owner.events]
        return events, heard, closed, receive(self.neighbour)


def receive(end: socket.socket) -> bytes:
    try:
        return bytes(RECEIVED[: end.recv_into(RECEIVED)])
    except (BlockingIOError, ConnectionResetError):
        return b""


def without_messages(transcript: Transcript) -> Transcript:
    """What does not depend on chance: which member of a queue group gets a message does."""
    events, _, closed, _ = transcript
    return [event for event in events if event[0] != "trace"], b"", closed, b""


def compare(whole: Transcript, split: Transcript) -> None:
    if any(event[0] == "subscribe" and event[2] is not None for event in whole[0]):
        split, whole = without_messages(split), without_messages(whole)
    assert split == whole, (split, whole)


def check_frames(data: bytes) -> None:
    _, rest = read_frames(data)
    assert rest == b"", rest


ROOM = Room()


def check(data: bytes) -> None:
    if len(data) < 2:
        return
    sent = data[2:]
    if data[0] & 1:
        sent = CONNECTS[data[0] >> 1 & 31] + sent
    traced = bool(data[0] & 64)
    way = crc32(data) % COMPARED_EVERY
    transcript = ROOM.transcript(cut(sent, data[1]) if way % 2 else [sent], traced)
    check_frames(transcript[1])
    check_frames(transcript[3])
    if way == 0:
        compare(transcript, ROOM.transcript(cut(sent, data[1]), traced))

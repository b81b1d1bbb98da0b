"""Asks a server about every subject at once: hundreds of operations in one packet, as one user after another.

What a user gets is written down in a form in which two servers can be compared: what was refused, and which
messages arrived.
"""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tests.frames import Frame, read_frames
from tests.permissions import rules
from tests.permissions.model import Permissions
from tests.servers import Server

ADMIN = "admin"
PATIENCE_SECONDS = 30.0
SUBSCRIPTIONS = [(subject, queue) for queue in rules.QUEUES for subject in rules.SUBJECTS]


def configuration(users: Iterable[Permissions]) -> str:
    entries = [
        f"{{ user: u{number}, password: p, permissions: {rules.configured(permissions)} }}"
        for number, permissions in enumerate(users)
    ]
    listed = "\n".join([f"{{ user: {ADMIN}, password: p }}", *entries])
    return f"authorization {{ users: [\n{listed}\n] }}\n"


class Peer:
    """One connection, which reads up to the answer to a PING."""

    def __init__(self, server: Server, user: str) -> None:
        self._socket = socket.create_connection((server.host, server.port), PATIENCE_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        fields = {"verbose": False, "pedantic": False} | ({"user": user, "pass": "p"} if user else {})
        self._received = b""
        self._read_past(b"\r\n")
        self.ask(f"CONNECT {json.dumps(fields)}\r\n".encode())

    def ask(self, operations: bytes = b"") -> list[Frame]:
        self._socket.sendall(operations + b"PING\r\n")
        frames, rest = read_frames(self._read_past(b"PONG\r\n"))
        assert not rest
        # On a busy machine a server may get to its own PING, after two seconds.
        return [frame for frame in frames if frame.operation != "PING"]

    def close(self) -> None:
        """Wait until the server has closed it too: its subscriptions have ended then."""
        self._socket.shutdown(socket.SHUT_WR)
        while self._socket.recv(1 << 16):
            pass
        self._socket.close()

    def _read_past(self, end: bytes) -> bytes:
        """No message has a payload, so that what ends an answer cannot be part of one."""
        while end not in self._received:
            data = self._socket.recv(1 << 20)
            assert data, f"closed after {self._received[-200:]!r}"
            self._received += data
        received, _, self._received = self._received.partition(end)
        return received + end


@dataclass
class Findings:
    """Errors in the order of the operations, and how often (subject, subscription or queue) got a message."""

    publish_errors: list[bytes]
    subscribe_errors: list[bytes]
    deliveries: Counter[tuple[str, str]]


def errors(frames: list[Frame]) -> list[bytes]:
    return [frame.argument for frame in frames if frame.operation == "-ERR"]


def receiver(sid: bytes) -> str:
    """Of a queue group any member may get a message."""
    subject, queue = SUBSCRIPTIONS[int(sid)]
    return f"queue {queue}" if queue else subject


def ask_about_everything(server: Server, admin: Peer, number: int) -> Findings:
    peer = Peer(server, f"u{number}")
    publishes = b"".join(f"PUB {subject} 0\r\n\r\n".encode() for subject in rules.SUBJECTS)
    subscribes = b"".join(
        f"SUB {subject} {queue or ''} {sid}\r\n".encode()
        for sid, (subject, queue) in enumerate(SUBSCRIPTIONS)
    )
    publish_errors = errors(peer.ask(publishes))
    subscribe_errors = errors(peer.ask(subscribes))
    admin.ask(b"".join(f"PUB {subject} 0\r\n\r\n".encode() for subject in rules.LITERAL_SUBJECTS))
    deliveries: Counter[tuple[str, str]] = Counter()
    for frame in peer.ask():
        if frame.operation == "MSG":
            deliveries[frame.subject.decode(), receiver(frame.sid)] += 1
    peer.close()
    return Findings(publish_errors, subscribe_errors, deliveries)

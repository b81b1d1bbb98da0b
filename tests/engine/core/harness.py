"""A hub with clients on socket pairs, and an owner in plain Python that writes down what it is called with.

Everything happens in one thread: bytes sent to one end of a pair are at the other end at once, so after
`Bench.settle()` whatever was to happen has happened.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

from headrace.engine.core.hub import Hub
from headrace.engine.core.interest import Interest
from headrace.engine.core.link import Link
from headrace.engine.core.transport import Transport
from headrace.engine.core.trie import InvalidSubject
from headrace.engine.transports.tls import TlsBuffers
from tests.engine.core.tls_end import TlsEnd, secured
from tests.frames import Frame, read_frames
from tests.sanitizers import PATIENCE

if TYPE_CHECKING:
    from headrace.engine.core.link import Trace

MIB = 1024 * 1024
PATIENCE_SECONDS = 30.0 * PATIENCE
LASTING = frozenset({"subject", "publish_subject", "publish", "reply"})
"""The violations after which a link stays open."""


class RecordingOwner:
    """Decides as a broker without accounts would, and keeps a list of all that it was asked."""

    link: Link

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.bugs: list[Exception] = []
        self.closed: str | None = None
        self.verbose = True
        self.trace: Trace | bytes | bool | None = None  # of messages whose headers ask for one

    def on_connect(self, json_text: bytes) -> None:
        self.events.append(("connect", json_text))
        options = {"verbose": True, "pedantic": True, "echo": True, "headers": False, "no_responders": False}
        try:
            given = dict(json.loads(json_text))
        except (TypeError, ValueError):
            self.link.close("bad CONNECT")
            return
        options |= {name: bool(given[name]) for name in options if name in given}
        self.verbose = options["verbose"]
        self.link.configure(**options)
        if self.verbose:
            self.link.send(b"+OK\r\n")

    def on_subscribe(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        self.events.append(("subscribe", subject, queue, sid))
        try:
            self.link.subscribe(subject, queue, sid)
        except InvalidSubject:
            self.on_violation("subject", subject)
            return
        if self.verbose:
            self.link.send(b"+OK\r\n")

    def on_unsubscribe(self, sid: bytes, maximum: int) -> None:
        self.events.append(("unsubscribe", sid, maximum))
        self.link.unsubscribe(sid, maximum)
        if self.verbose:
            self.link.send(b"+OK\r\n")

    def on_info(self, json_text: bytes) -> None:
        self.events.append(("info", json_text))

    def on_pong(self) -> None:
        self.events.append(("pong",))

    def on_first_ping(self) -> None:
        self.events.append(("first ping",))

    def on_early_operation(self) -> None:
        self.events.append(("early operation",))
        self.link.close("early operation")

    def on_violation(self, kind: str, detail: bytes) -> None:
        self.events.append(("violation", kind, detail))
        self.link.send(b"-ERR '%s'\r\n" % kind.encode())
        if kind not in LASTING:
            self.link.close(kind)

    def on_traced(self, subject: bytes, headers: bytes, size: int) -> Trace | bytes | bool | None:
        self.events.append(("traced", subject, headers, size))
        return self.trace

    def on_oversized(self, subject: bytes, headers: bytes, size: int) -> None:
        self.events.append(("oversized", subject, headers, size))

    def on_trace(self, direction: Literal["in", "out"], operation: bytes, argument: bytes) -> None:
        self.events.append(("trace", direction, operation, argument))

    def on_bug(self, error: Exception) -> None:
        self.bugs.append(error)

    def on_closed(self, reason: str) -> None:
        assert self.closed is None, "on_closed is called once"
        self.closed = reason

    def violations(self) -> list[str]:
        return [event[1] for event in self.events if event[0] == "violation"]


class Peer:
    """A client: its end of the pair, and the link and owner at the other end."""

    def __init__(self, bench: Bench, end: socket.socket | TlsEnd, owner: RecordingOwner, link: Link) -> None:
        self.bench = bench
        self.socket = end
        self.owner = owner
        self.link = link
        self._unread = b""

    def send(self, data: bytes) -> None:
        """Send all of it, polling the hub whenever it has to make room."""
        view = memoryview(data)
        while view:
            view = view[self.send_some(view) :]
            self.bench.settle()

    def send_some(self, data: bytes | memoryview) -> int:
        """As much as the socket takes at once, without a poll; nothing is said if the hub has closed."""
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0
        except (BrokenPipeError, ConnectionResetError):
            return len(data)

    def receive(self, limit: int = 1 << 62) -> bytes:
        """What has arrived so far; the hub is not polled."""
        pieces = []
        while limit > 0:
            try:
                piece = self.socket.recv(min(limit, 1 << 20))
            except (BlockingIOError, ConnectionResetError):
                break
            if not piece:
                break
            pieces.append(piece)
            limit -= len(piece)
        return b"".join(pieces)

    def receive_all(self) -> bytes:
        """Everything that the hub has for this peer, however many polls it takes."""
        pieces = [self.receive()]
        self.bench.settle()
        while piece := self.receive():
            pieces.append(piece)
            self.bench.settle()
        return b"".join(pieces)

    def ask(self, data: bytes) -> bytes:
        """Send, and return all that comes back."""
        self.send(data)
        return self.receive_all()

    def frames(self) -> list[Frame]:
        """What has arrived since the last call, as operations."""
        frames, self._unread = read_frames(self._unread + self.receive_all())
        return frames

    def payloads(self) -> list[bytes]:
        return [frame.payload for frame in self.frames() if frame.operation in ("MSG", "HMSG")]

    def is_at_end(self) -> bool:
        """Whether the hub has closed its end, and nothing is left to read."""
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True


class Bench:
    """A hub, one account and its clients, on plain sockets or over TLS."""

    is_encrypted = False  # see the fixture each_transport

    def __init__(
        self, *, max_payload: int = MIB, max_pending: int = 64 * MIB, max_control_line: int = 4096
    ) -> None:
        self.hub = Hub(max_payload=max_payload, max_pending=max_pending, max_control_line=max_control_line)
        self.interest = Interest()
        self.peers: list[Peer] = []
        self._tls = TlsBuffers()
        self._poll = select.poll()
        self._poll.register(self.hub.fileno(), select.POLLIN)

    def attach(
        self,
        owner: RecordingOwner | None = None,
        buffer_bytes: int = 0,
        wrap: Callable[[int], Transport] | None = None,
    ) -> Peer:
        """A client that has not sent CONNECT, and need not. `wrap` makes the transport of its descriptor."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
            if buffer_bytes:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        owner = owner or RecordingOwner()
        end: socket.socket | TlsEnd = theirs
        if self.is_encrypted:
            descriptor = ours.fileno()
            transport, end = secured(ours, theirs, self._tls)
            owner.link = self.hub.attach(descriptor, owner, transport)
        else:
            descriptor = ours.detach()
            owner.link = self.hub.attach(descriptor, owner, wrap(descriptor) if wrap else None)
        owner.link.join(self.interest)
        peer = Peer(self, end, owner, owner.link)
        self.peers.append(peer)
        return peer

    def connect(self, owner: RecordingOwner | None = None, buffer_bytes: int = 0, **options: bool) -> Peer:
        """A client that has: quiet, not pedantic, with headers, unless told otherwise."""
        peer = self.attach(owner, buffer_bytes)
        fields = {"verbose": False, "pedantic": False, "headers": True, **options}
        peer.send(b"CONNECT " + json.dumps(fields).encode() + b"\r\n")
        peer.receive()
        peer.owner.events.clear()
        return peer

    def subscriber(self, *subjects: bytes, **options: Any) -> Peer:
        """A client with subscriptions; their sids are 1, 2, ..."""
        peer = self.connect(**options)
        for sid, subject in enumerate(subjects, 1):
            peer.send(b"SUB %b %d\r\n" % (subject, sid))
        peer.receive()
        return peer

    def is_ready(self, seconds: float = 0.0) -> bool:
        return bool(self._poll.poll(seconds * 1000))

    def settle(self) -> None:
        """Poll until there is nothing to do (for a hub that waits for its timer: until then)."""
        self._flush_peers()
        while self.is_ready():
            self.hub.poll()
            self._flush_peers()

    def _flush_peers(self) -> None:
        """What a peer has sent may still be waiting for room in its socket."""
        if self.is_encrypted:
            for peer in self.peers:
                assert isinstance(peer.socket, TlsEnd)
                with suppress(BrokenPipeError, ConnectionResetError):
                    peer.socket.flush()

    def settle_until(self, condition: Callable[[], bool]) -> None:
        """Poll, waiting for the hub's timer where needed, until something has come true."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < end, "what was waited for has not come"
            if self.is_ready(0.005):
                self.hub.poll()

    def close(self) -> None:
        for peer in self.peers:
            peer.socket.close()
        self.hub.close()


@contextmanager
def bench(**limits: int) -> Iterator[Bench]:
    made = Bench(**limits)
    try:
        yield made
    finally:
        made.close()


def message(subject: bytes, payload: bytes, reply: bytes = b"") -> bytes:
    """A PUB frame."""
    return b"PUB %b%b %d\r\n%b\r\n" % (subject, b" " + reply if reply else b"", len(payload), payload)

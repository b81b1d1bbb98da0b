"""TLS as a transport: handshakes in pieces and over full sockets, ends of all kinds, what connections share.

Frames, backpressure and closing over TLS are in the other files: see the fixture each_transport.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from headrace.engine.transports.tls import TlsBuffers, TlsTransport
from tests.certificates import shared
from tests.engine.core.harness import Bench, Peer, RecordingOwner, message
from tests.engine.core.tls_end import TlsEnd, server_context

SMALL = 4096
CONNECT = b'CONNECT {"verbose":false,"pedantic":false}\r\n'


class Greeting(RecordingOwner):
    """Shakes hands before anything else."""

    def __init__(self, buffers: TlsBuffers, descriptor: int, context: ssl.SSLContext) -> None:
        super().__init__()
        self.transport = TlsTransport(descriptor, context, buffers)
        self.had_to_wait = False
        self.calls = 0

    def on_greeting(self) -> None:
        self.calls += 1
        try:
            is_complete = self.transport.shake_hands()
        except (EOFError, OSError) as error:
            self.link.close(type(error).__name__)
            return
        self.had_to_wait |= self.transport.wants_write
        if is_complete:
            self.link.end_greeting(self.transport)
        else:
            self.link.await_greeting(self.transport.wants_write)


def greet(
    bench: Bench, buffers: TlsBuffers, context: ssl.SSLContext | None = None, buffer_bytes: int = 0
) -> tuple[Peer, Greeting, socket.socket]:
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
        if buffer_bytes:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
    descriptor = ours.detach()
    owner = Greeting(buffers, descriptor, context or server_context())
    owner.link = bench.hub.attach(descriptor, owner, greets=True)
    owner.link.join(bench.interest)
    peer = Peer(bench, theirs, owner, owner.link)
    bench.peers.append(peer)
    return peer, owner, theirs


def shake_hands(bench: Bench, peer: Peer, theirs: socket.socket) -> None:
    end = TlsEnd(theirs)
    peer.socket = end
    for _ in range(1000):
        if end.shake_hands():
            break
        bench.settle()
    peer.send(CONNECT)


def test_operations_that_arrive_with_the_end_of_the_handshake_are_carried_out(bench: Bench) -> None:
    peer, owner, theirs = greet(bench, TlsBuffers())
    end = TlsEnd(theirs)
    peer.socket = end
    assert not end.shake_hands()
    bench.settle()
    assert end.shake_hands()  # its last message is in the socket, and has not been read
    assert peer.send_some(CONNECT + message(b"foo", b"x") + b"PING\r\n") > 0
    bench.settle()
    assert peer.receive() == b"PONG\r\n"
    assert owner.link.in_msgs == 1


def test_a_handshake_that_does_not_fit_into_the_socket_waits_for_room(bench: Bench, tmp_path: Path) -> None:
    chain = tmp_path / "chain.pem"
    authority = Path(shared().ca).read_text()
    chain.write_text(Path(shared().server.certificate).read_text() + authority * 60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(chain), shared().server.key)
    peer, owner, theirs = greet(bench, TlsBuffers(), context, SMALL)
    shake_hands(bench, peer, theirs)
    assert owner.had_to_wait
    assert owner.calls < 200  # it was called when there was room, and not all the time
    assert peer.ask(b"PING\r\n") == b"PONG\r\n"


@pytest.mark.parametrize(
    "data", [b"PING\r\n" * 10, b"\x16\x03\x01\x00\x05hello", b"\x80\x2e\x01\x00\x02" * 20]
)
def test_what_is_no_handshake_ends_the_connection_and_disturbs_nobody(bench: Bench, data: bytes) -> None:
    """All connections share their buffers: what one has left there must not reach the next."""
    buffers = TlsBuffers()
    good, _, theirs = greet(bench, buffers)
    end = TlsEnd(theirs)
    good.socket = end
    assert not end.shake_hands()
    bad, _, raw = greet(bench, buffers)
    raw.send(data)
    bench.settle()
    assert bad.owner.closed == "SSLError"
    while not end.shake_hands():
        bench.settle()
    bench.settle()
    assert good.ask(b"PING\r\n") == b"PONG\r\n"


def test_a_peer_that_leaves_in_the_handshake_is_noticed(bench: Bench) -> None:
    peer, _, theirs = greet(bench, TlsBuffers())
    theirs.send(b"\x16\x03\x01")
    bench.settle()
    assert peer.owner.closed is None
    theirs.close()
    bench.settle()
    assert peer.owner.closed == "EOFError"


def test_a_goodbye_ends_the_link_though_the_socket_stays_open(bench: Bench) -> None:
    """Also where operations come with it in one piece: epoll would not report the end by itself."""
    peer, owner, theirs = greet(bench, TlsBuffers())
    shake_hands(bench, peer, theirs)
    end = peer.socket
    assert isinstance(end, TlsEnd)
    end._session.write(b"PING\r\n")
    with pytest.raises(ssl.SSLWantReadError):
        end._session.unwrap()
    theirs.send(end._outgoing.read())
    bench.settle()
    assert owner.closed == "Client Closed"
    assert peer.receive() == b"PONG\r\n"
    assert peer.is_at_end()


def test_what_came_before_a_broken_record_is_carried_out(bench: Bench) -> None:
    peer, owner, theirs = greet(bench, TlsBuffers())
    shake_hands(bench, peer, theirs)
    end = peer.socket
    assert isinstance(end, TlsEnd)
    end._session.write(message(b"foo", b"x"))
    whole = end._outgoing.read()
    end._session.write(message(b"foo", b"y"))
    broken = bytearray(end._outgoing.read())
    broken[-1] ^= 1
    theirs.send(whole + bytes(broken) + b"more")
    bench.settle()
    assert owner.link.in_msgs == 1
    assert owner.closed == "Read Error"


def test_records_in_pieces_of_any_size_are_the_same(bench: Bench) -> None:
    peer, owner, theirs = greet(bench, TlsBuffers())
    shake_hands(bench, peer, theirs)
    other = bench.subscriber(b"foo")
    end = peer.socket
    assert isinstance(end, TlsEnd)
    for size in (97, 1000, 4093, 16384, 16389, 16406, 20000):
        end._session.write(message(b"foo", b"x" * 40_000) + message(b"foo", b"y"))
        data = end._outgoing.read()
        for start in range(0, len(data), size):
            theirs.send(data[start : start + size])
            bench.settle()
            assert owner.closed is None, owner.events
        assert [len(payload) for payload in other.payloads()] == [40_000, 1]
    assert owner.closed is None

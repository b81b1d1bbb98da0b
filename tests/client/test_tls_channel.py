"""TLS over a socket that does not accept everything at once: nothing is lost, repeated or reordered."""

from __future__ import annotations

import random
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from headrace.client.tls import BLOCKED, Tls, TlsChannel
from tests.certificates import Authority

LARGE = 3_000_000


class Peer:
    """The server's end. It reads nothing before `may_read`, and sends `to_send` first."""

    def __init__(self, connected: socket.socket, context: ssl.SSLContext, to_send: bytes) -> None:
        self._connected, self._context, self._to_send = connected, context, to_send
        self.may_read = threading.Event()
        self.received = b""
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with self._context.wrap_socket(self._connected, server_side=True) as protected:
            protected.sendall(self._to_send)
            assert self.may_read.wait(60)
            with suppress(ConnectionResetError):  # this is the end, too: session tickets may be unread there
                while piece := protected.recv(65536):
                    self.received += piece


@contextmanager
def connected(directory: Path, to_send: bytes = b"") -> Iterator[tuple[TlsChannel, Peer]]:
    authority = Authority(directory)
    issued = authority.issue("peer")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(issued.certificate, issued.key)
    ours, theirs = socket.socketpair()
    peer = Peer(theirs, context, to_send)
    try:
        with ours:
            channel = TlsChannel(ours, Tls(ca=authority.certificate).context(), "localhost")
            channel.shake_hands(30)
            yield channel, peer
            peer.may_read.set()
    finally:
        peer.may_read.set()
        peer.thread.join()


def test_many_begin_before_the_first_ends(tmp_path: Path) -> None:
    """As a load does: the server has the first message of every connection, and waits for none of us."""
    authority = Authority(tmp_path)
    issued = authority.issue("peer")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(issued.certificate, issued.key)
    pairs = [socket.socketpair() for _ in range(3)]
    channels = [TlsChannel(ours, Tls(ca=authority.certificate).context(), "localhost") for ours, _ in pairs]
    for channel in channels:
        channel.begin_handshake()
    for _, theirs in pairs:
        assert select.select([theirs], [], [], 0)[0]
    peers = [Peer(theirs, context, b"") for _, theirs in pairs]
    for (ours, _), channel, peer in zip(pairs, channels, peers, strict=True):
        with ours:
            channel.shake_hands(30)
            channel.send_all(b"hello", 30)
            peer.may_read.set()
    for peer in peers:
        peer.thread.join()
        assert peer.received == b"hello"


def wait_until_writable(channel: TlsChannel) -> None:
    poll = select.poll()
    poll.register(channel._socket, select.POLLOUT)
    assert poll.poll(60_000)


def test_what_was_not_accepted_is_sent_once(tmp_path: Path) -> None:
    """As a publisher does: the same bytes again, perhaps with more behind them."""
    data = random.Random(1).randbytes(LARGE)
    with connected(tmp_path) as (channel, peer):
        sent, size = 0, 100_000
        while count := channel.write(memoryview(data)[sent : sent + size]):
            sent += count
        assert 0 < sent < LARGE  # the socket is full, because the peer does not read
        peer.may_read.set()
        while sent < LARGE:
            wait_until_writable(channel)
            sent += channel.write(memoryview(data)[sent : sent + 2 * size])
    assert peer.received == data


def test_what_was_submitted_is_sent_before_anything_else(tmp_path: Path) -> None:
    """As a client of a load does: other bytes, while some are waiting."""
    block = random.Random(2).randbytes(100_000)
    with connected(tmp_path) as (channel, peer):
        submitted = 0
        while channel.submit(block):
            submitted += 1
        assert channel.has_unsent
        peer.may_read.set()
        while channel.has_unsent:
            wait_until_writable(channel)
            channel.submit(b"")
        assert channel.submit(b"PING\r\n") == 6
        channel.send_all(b"the end", 30)
    assert peer.received == block * submitted + b"PING\r\nthe end"


@pytest.mark.parametrize("room", [1, 1000, 16384, 300_000])
def test_everything_is_read_before_it_is_blocked(tmp_path: Path, room: int) -> None:
    data = random.Random(3).randbytes(LARGE if room > 1 else 1000)
    received = bytearray()
    with connected(tmp_path, data) as (channel, _):
        buffer = memoryview(bytearray(room))
        while len(received) < len(data):
            count = channel.read_into(buffer)
            if count == BLOCKED:
                poll = select.poll()
                poll.register(channel._socket, select.POLLIN)
                assert poll.poll(60_000)  # it is blocked only if the socket is
            else:
                received += buffer[:count]
        assert channel.read_into(buffer) == BLOCKED
    assert received == data

"""Peers on the WebSocket port that are not connections yet: they have to send the head of an HTTP request.

None of them is authenticated yet, so everything that they can use is limited:

    a head            MAX_HEAD_BYTES, from the first byte to the last within `seconds`
    peers             MAX_PEERS; one more takes the place of the one that has been here longest
    an answer         has to fit into the socket's buffer, which is empty
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from http import HTTPStatus

from headrace.broker.listener import join_address
from headrace.broker.timers import EqualTimers
from headrace.broker.websocket.http_head import END_OF_HEAD, BadRequest, Request, parse_head
from headrace.broker.websocket.tls import HandshakeFailed, WebSocketTls
from headrace.broker.websocket.upgrade import Refused, Upgrade, WebSocketPeer
from headrace.engine.core.transport import SocketTransport, Transport
from headrace.engine.transports.tls import TlsTransport
from headrace.logs import Logger

MAX_HEAD_BYTES = 32 * 1024
MAX_PEERS = 1024
READ_BYTES = 64 * 1024  # TLS needs room for what its records may hold
MOST_LAST_READS = 16
DEFAULT_SECONDS = 10.0  # nats-server has no limit by default


class Handshake:
    """One of them."""

    __slots__ = ("descriptor", "head", "host", "is_writing", "port", "shakes", "tls", "transport")

    def __init__(self, descriptor: int, host: str, port: int, tls: TlsTransport | None) -> None:
        self.descriptor = descriptor
        self.host = host
        self.port = port
        self.tls = tls
        self.transport: Transport = tls or SocketTransport(descriptor)
        self.shakes = tls is not None  # TLS is not agreed on yet
        self.is_writing = False
        self.head = b""


class Handshakes:
    """All of them. `on_upgraded(handshake, peer)` takes over one that has succeeded, and its descriptor."""

    def __init__(
        self,
        upgrade: Upgrade,
        seconds: float,
        on_upgraded: Callable[[Handshake, WebSocketPeer], None],
        logger: Logger,
        tls: WebSocketTls | None = None,
    ) -> None:
        self._tls = tls
        self._upgrade = upgrade
        self._on_upgraded = on_upgraded
        self._logger = logger
        self._loop = asyncio.get_running_loop()
        self._peers: dict[int, Handshake] = {}
        self._timers: EqualTimers[Handshake] = EqualTimers(seconds or DEFAULT_SECONDS, self._drop)

    def __len__(self) -> int:
        return len(self._peers)

    def begin(self, accepted: socket.socket, host: str, port: int) -> None:
        if len(self._peers) >= MAX_PEERS:
            self._drop(next(iter(self._peers.values())))
        descriptor = accepted.detach()
        tls = self._tls.wrap(descriptor) if self._tls else None
        handshake = Handshake(descriptor, host, port, tls)
        self._peers[handshake.descriptor] = handshake
        self._timers.start(handshake)
        self._loop.add_reader(handshake.descriptor, self._read, handshake)

    def stop(self) -> None:
        for handshake in list(self._peers.values()):
            self._drop(handshake)
        self._timers.stop_all()

    def _drop(self, handshake: Handshake) -> None:
        self._let_go(handshake)
        handshake.transport.shut()

    def _let_go(self, handshake: Handshake) -> None:
        del self._peers[handshake.descriptor]
        self._timers.stop(handshake)
        self._loop.remove_reader(handshake.descriptor)
        self._watch_output(handshake, False)

    def _watch_output(self, handshake: Handshake, wanted: bool) -> None:
        if wanted and not handshake.is_writing:
            self._loop.add_writer(handshake.descriptor, self._read, handshake)
        elif handshake.is_writing and not wanted:
            self._loop.remove_writer(handshake.descriptor)
        handshake.is_writing = wanted

    def _shake_hands(self, handshake: Handshake) -> bool:
        """Whether TLS is agreed on; a peer with which it cannot be is dropped."""
        assert self._tls
        assert handshake.tls
        try:
            handshake.shakes = not self._tls.shake_hands(handshake.tls)
        except HandshakeFailed as error:
            where = join_address(handshake.host, handshake.port)
            self._logger.error(f"websocket: http: TLS handshake error from {where}: {error}")
            self._drop(handshake)
            return False
        self._watch_output(handshake, handshake.shakes and handshake.tls.wants_write)
        return not handshake.shakes

    def _read(self, handshake: Handshake) -> None:
        if handshake.shakes and not self._shake_hands(handshake):
            return
        try:
            data = handshake.transport.read(READ_BYTES)
        except OSError:
            data = b""
        if data is None:
            return
        if not data:
            self._drop(handshake)
            return
        handshake.head += data
        try:
            self._handle(handshake)
        except BadRequest as error:
            self._write(handshake, error.answer)
            self._read_the_rest(handshake)
            self._drop(handshake)

    def _handle(self, handshake: Handshake) -> None:
        head, end, rest = handshake.head.lstrip(b"\r\n").partition(END_OF_HEAD)
        if not end:
            if len(handshake.head) > MAX_HEAD_BYTES:
                raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        request = parse_head(head)
        try:
            answer, peer = self._upgrade.accept(request)
            if rest:
                raise Refused(HTTPStatus.BAD_REQUEST, "client sent data before handshake is complete")
        except Refused as refusal:
            self._refuse(handshake, request, refusal, rest)
            return
        if self._write(handshake, answer) and not peer.is_leaf:
            self._let_go(handshake)
            self._on_upgraded(handshake, peer)
            return
        if peer.is_leaf:
            self._logger.error("Not configured to accept leaf node connections")
        self._drop(handshake)

    def _read_the_rest(self, handshake: Handshake) -> None:
        """Closing a socket with unread data would discard the answer."""
        with contextlib.suppress(OSError):
            for _ in range(MOST_LAST_READS):
                if not handshake.transport.read(READ_BYTES):
                    break

    def _refuse(self, handshake: Handshake, request: Request, refusal: Refused, rest: bytes) -> None:
        where = join_address(handshake.host, handshake.port)
        self._logger.error(f"{where} - websocket handshake error: {refusal.reason}")
        comes_too_early = refusal.status == HTTPStatus.BAD_REQUEST and rest
        if comes_too_early or not self._write(handshake, refusal.encode(request)) or not request.keeps_alive:
            self._drop(handshake)
            return
        handshake.head = rest
        self._timers.start(handshake)

    def _write(self, handshake: Handshake, answer: bytes) -> bool:
        """Whether all of it was accepted."""
        with contextlib.suppress(OSError):
            return handshake.transport.write(answer) == len(answer)
        return False

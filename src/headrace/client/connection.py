"""One connection to one of several servers: handshake, TLS, keepalive, requests, and reconnecting.

A connection does one thing at a time. Code that reads rows or acknowledgements from `frames` passes every
other frame to `handle`. `reconnect` restores only the subscription of the requests' inbox.
"""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from headrace import __version__
from headrace.client.addresses import Address, parse_url
from headrace.client.credentials import Credentials
from headrace.client.errors import ConnectionFailed, NoResponders, ProtocolError, RequestTimeout, UsageError
from headrace.client.frames import BadFrame, ConnectionEnded, Event, Frames
from headrace.client.refusals import Refused, explain, no_certificate, no_tls, refusal
from headrace.client.status import NO_RESPONDERS, parse_status
from headrace.client.tls import Tls, TlsChannel
from headrace.unreadable import UNREADABLE_JSON

REQUEST_SID = 1
WRITE_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0


class ServerInfo(msgspec.Struct):
    max_payload: int
    tls_required: bool = False
    tls_available: bool = False
    tls_verify: bool = False
    nonce: str = ""
    connect_urls: list[str] | None = None


class ServerConnection:
    """Open it with `open`; ConnectionEnded from any other method means that `reconnect` is due."""

    def __init__(
        self,
        addresses: Sequence[Address],
        *,
        credentials: Credentials,
        tls: Tls | None = None,
        name: str,
        connect_timeout: float,
        reconnect_timeout: float,
    ) -> None:
        self.addresses = list(addresses)
        self.frames = Frames()
        self.address = self.addresses[0]
        self.max_payload = 0
        self._credentials = credentials
        self._tls = tls
        self._nonce = ""
        self._name = name
        self._connect_timeout = connect_timeout
        self._reconnect_timeout = reconnect_timeout
        self._socket: socket.socket | None = None
        self._channel: TlsChannel | None = None
        self._inbox = f"_INBOX.{secrets.token_hex(11)}"
        self._requests = 0
        self._last_sid = REQUEST_SID
        self._finished = False

    # -- life -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Try every server once. Raises ConnectionFailed, which says what was wrong with each."""
        if self._finished:
            raise Refused("the client was closed")
        failures: list[ConnectionFailed] = []
        for address in list(self.addresses):
            try:
                return self._open(address)
            except ConnectionFailed as failure:
                failures.append(failure)
        if len(failures) == 1:
            raise failures[0]
        kind = Refused if any(isinstance(failure, Refused) for failure in failures) else ConnectionFailed
        raise kind("; ".join(map(str, failures)), hint="no server of the list can be used")

    def reconnect(self) -> None:
        """As `open_patiently`, with another server first: the lost one is probably not back yet."""
        self.close()
        self.addresses = [*self.addresses[1:], self.addresses[0]]
        self.open_patiently()

    def open_patiently(self) -> None:
        """Try all servers until one accepts us. Raises ConnectionFailed if none did for too long."""
        deadline = time.monotonic() + self._reconnect_timeout
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return self.open()
            except Refused:
                raise
            except ConnectionFailed:
                if time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def refresh(self) -> None:
        """Answer pings that arrived while nobody was reading, and reconnect if the server is gone."""
        try:
            while event := self.frames.next(0.0):
                self.handle(event)
        except BadFrame as error:
            raise protocol_error(error, self.address) from None
        except (ConnectionEnded, ConnectionFailed):
            self.reconnect()

    def finish(self) -> None:
        """Close it for good."""
        self._finished = True
        self.close()

    def close(self) -> None:
        """`reconnect` opens it again."""
        self.frames.attach(-1)
        if self._socket:
            self._socket.close()
            self._socket = self._channel = None

    def _open(self, address: Address) -> None:
        self.address = address
        try:
            self._socket = socket.create_connection((address.host, address.port), self._connect_timeout)
            self._socket.settimeout(WRITE_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.frames.attach(self._socket.fileno())
            self._shake_hands(address)
        except BaseException as error:
            insisted = self._tls is not None or address.secure
            self.close()
            raise explain(error, address, wants_tls=insisted) from None

    def _shake_hands(self, address: Address) -> None:
        """INFO, then TLS, then CONNECT; or TLS first."""
        first = self._tls is not None and self._tls.handshake_first
        if first:
            self._encrypt(address)
        info = self._learn(self._expect("INFO", address).payload)
        if not first:
            insisted = self._tls is not None or address.secure
            if insisted and not (info.tls_required or info.tls_available):
                raise no_tls(address)
            if insisted or info.tls_required:
                self._encrypt(address, wants_certificate=info.tls_verify)
        connect = json.dumps(self._connect_options(address)).encode()
        self.send(b"CONNECT %b\r\nSUB %b.* %d\r\nPING\r\n" % (connect, self._inbox.encode(), REQUEST_SID))
        self._expect("PONG", address)

    def _encrypt(self, address: Address, *, wants_certificate: bool = False) -> None:
        assert self._socket is not None
        tls = self._tls or Tls()
        if wants_certificate and not tls.cert:
            raise no_certificate(address)
        name = tls.server_name or address.certificate_name
        channel = TlsChannel(self._socket, tls.context(), name)
        channel.shake_hands(self._connect_timeout)
        self._channel = channel
        self.frames.attach(self._socket.fileno(), channel)

    def _connect_options(self, address: Address) -> dict[str, Any]:
        return {
            "verbose": False,
            "pedantic": False,
            "tls_required": self._channel is not None,
            "lang": "python",
            "version": __version__,
            "name": self._name,
            "protocol": 1,
            "headers": True,
            "no_responders": True,
            **(address.credentials or self._credentials.fields(self._nonce)),
        }

    def _expect(self, kind: str, address: Address) -> Event:
        deadline = time.monotonic() + self._connect_timeout
        while event := self.frames.next(deadline - time.monotonic()):
            if event.kind == kind:
                return event
            if event.kind == "-ERR":
                raise refusal(event.payload, address)
            if kind == "INFO":
                raise BadFrame(f"{event.kind} where INFO comes first")
            self.handle(event)
        raise ConnectionFailed(
            f"the server at {address} did not answer in time",
            hint="is it a NATS server, and is it reachable?",
        )

    def _learn(self, info: bytes) -> ServerInfo:
        """From INFO: the limits of the server, what we have to sign, and the addresses of its cluster."""
        try:
            said = msgspec.json.decode(info, type=ServerInfo)
            neighbours = [parse_url(url) for url in said.connect_urls or []]
        except (*UNREADABLE_JSON, UsageError) as error:
            raise BadFrame(f"an invalid INFO: {error}") from None
        self.max_payload = said.max_payload
        self._nonce = said.nonce
        known = {(address.host, address.port) for address in self.addresses}
        for host, port, *_ in neighbours:
            if (host, port) not in known:
                self.addresses.append(self.address.neighbour(host, port))
        return said

    # -- frames ---------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        if self._socket is None:
            raise ConnectionEnded("not connected")
        try:
            if self._channel:
                self._channel.send_all(data, WRITE_SECONDS)
            else:
                self._socket.sendall(data)
        except OSError as error:
            raise ConnectionEnded(str(error)) from error

    def handle(self, event: Event) -> None:
        """Answer a ping, learn from INFO, raise an error. A message that nobody waits for is dropped."""
        if event.kind == "PING":
            self.send(b"PONG\r\n")
        elif event.kind == "INFO":
            self._learn(event.payload)
        elif event.kind == "-ERR":
            if b"violation" in event.payload.lower():
                raise refusal(event.payload, self.address)
            raise ConnectionEnded(event.payload.decode(errors="replace"))  # which comes next

    def subscribe(self, subject: str) -> int:
        """The number of a new subscription."""
        self._last_sid += 1
        self.send(b"SUB %b %d\r\n" % (subject.encode(), self._last_sid))
        return self._last_sid

    def unsubscribe(self, sid: int) -> None:
        self.send(b"UNSUB %d\r\n" % sid)

    def publish(self, subject: str, payload: bytes, reply: str = "") -> None:
        self.send(b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(payload), payload))

    def flush(self, timeout: float) -> None:
        """Wait until the server has seen everything that was sent."""
        self.send(b"PING\r\n")
        deadline = time.monotonic() + timeout
        while event := self.frames.next(deadline - time.monotonic()):
            if event.kind == "PONG":
                return
            self.handle(event)
        raise RequestTimeout(f"the server at {self.address} did not answer a PING in {timeout:g} s")

    # -- requests -------------------------------------------------------------------------------------------

    def request(self, subject: str, payload: bytes, timeout: float) -> bytes:
        """The payload of the response. Raises NoResponders, RequestTimeout, and ConnectionEnded."""
        if not subject or any(character <= " " for character in subject):
            raise UsageError(f"{subject!r} is not a valid subject: use dot-separated tokens, no spaces")
        if len(payload) > self.max_payload:
            raise UsageError(f"the request is larger than the server accepts ({self.max_payload} bytes)")
        reply = self.request_later(subject, payload).encode()
        deadline = time.monotonic() + timeout
        while event := self.frames.next(deadline - time.monotonic()):
            if event.sid != REQUEST_SID:
                self.handle(event)
            elif event.subject == reply:
                if parse_status(event.headers).code == NO_RESPONDERS:
                    raise _no_responders(subject)
                return event.payload
        raise RequestTimeout(f"no answer from {subject} in {timeout:g} s")

    def request_later(self, subject: str, payload: bytes) -> str:
        """Send a request whose response is dropped unless somebody waits for it. Returns its reply."""
        self._requests += 1
        reply = f"{self._inbox}.{self._requests}"
        self.publish(subject, payload, reply)
        return reply


def _no_responders(subject: str) -> NoResponders:
    if subject.startswith("$JS."):
        return NoResponders(
            "the server has no JetStream (no responders on its API)",
            hint="start it with JetStream enabled: nats-server -js, or jetstream in its configuration",
        )
    return NoResponders(f"nobody listens to {subject}")


def protocol_error(error: BadFrame, address: Address) -> ProtocolError:
    return ProtocolError(f"the server at {address} does not speak the NATS protocol: {error}")

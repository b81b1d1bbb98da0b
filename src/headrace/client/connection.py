"""One connection to one of several servers: handshake, keepalive, requests, and reconnecting.

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
from headrace.client.errors import ConnectionFailed, NoResponders, ProtocolError, RequestTimeout, UsageError
from headrace.client.frames import BadFrame, ConnectionEnded, Event, Frames
from headrace.client.status import NO_RESPONDERS, parse_status
from headrace.unreadable import UNREADABLE_JSON

REQUEST_SID = 1
WRITE_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0


class ServerInfo(msgspec.Struct):
    max_payload: int
    tls_required: bool = False
    connect_urls: list[str] | None = None


class Refused(ConnectionFailed):
    """The server refused us: trying again would not help."""


class ServerConnection:
    """Open it with `open`; ConnectionEnded from any other method means that `reconnect` is due."""

    def __init__(
        self,
        addresses: Sequence[Address],
        *,
        credentials: dict[str, str],
        name: str,
        connect_timeout: float,
        reconnect_timeout: float,
    ) -> None:
        self.addresses = list(addresses)
        self.frames = Frames()
        self.address = self.addresses[0]
        self.max_payload = 0
        self._credentials = credentials
        self._name = name
        self._connect_timeout = connect_timeout
        self._reconnect_timeout = reconnect_timeout
        self._socket: socket.socket | None = None
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
        """Try all servers until one accepts us. Raises ConnectionFailed if none did for too long."""
        self.close()
        deadline = time.monotonic() + self._reconnect_timeout
        pause = FIRST_PAUSE_SECONDS
        # The next server first: the lost one is probably not back yet.
        self.addresses = [*self.addresses[1:], self.addresses[0]]
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
            self._socket = None

    def _open(self, address: Address) -> None:
        try:
            self._socket = socket.create_connection((address.host, address.port), self._connect_timeout)
            self._socket.settimeout(WRITE_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.frames.attach(self._socket.fileno())
            self.address = address
            self._shake_hands(address)
        except BaseException as error:
            self.close()
            raise _explain(error, address) from None

    def _shake_hands(self, address: Address) -> None:
        greeting = self._expect("INFO", address)
        self._learn(greeting.payload)
        self.send(
            b"CONNECT %b\r\nSUB %b.* %d\r\nPING\r\n"
            % (json.dumps(self._connect_options(address)).encode(), self._inbox.encode(), REQUEST_SID)
        )
        self._expect("PONG", address)

    def _connect_options(self, address: Address) -> dict[str, Any]:
        return {
            "verbose": False,
            "pedantic": False,
            "lang": "python",
            "version": __version__,
            "name": self._name,
            "protocol": 1,
            "headers": True,
            "no_responders": True,
            **(address.credentials or self._credentials),
        }

    def _expect(self, kind: str, address: Address) -> Event:
        deadline = time.monotonic() + self._connect_timeout
        while event := self.frames.next(deadline - time.monotonic()):
            if event.kind == kind:
                return event
            if event.kind == "-ERR":
                raise _refusal(event.payload, address)
            if kind == "INFO":
                raise BadFrame(f"{event.kind} where INFO comes first")
            self.handle(event)
        raise ConnectionFailed(
            f"the server at {address} did not answer in time",
            hint="is it a NATS server, and is it reachable?",
        )

    def _learn(self, info: bytes) -> None:
        """From INFO: the limits of the server, and the addresses of its cluster."""
        try:
            said = msgspec.json.decode(info, type=ServerInfo)
            neighbours = [parse_url(url) for url in said.connect_urls or []]
        except (*UNREADABLE_JSON, UsageError) as error:
            raise BadFrame(f"an invalid INFO: {error}") from None
        if said.tls_required:
            raise Refused(f"the server at {self.address} wants TLS; this client has none")
        self.max_payload = said.max_payload
        known = {(address.host, address.port) for address in self.addresses}
        for host, port, *_ in neighbours:
            if (host, port) not in known:
                self.addresses.append(self.address._replace(host=host, port=port))

    # -- frames ---------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        if self._socket is None:
            raise ConnectionEnded("not connected")
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ConnectionEnded(str(error)) from None

    def handle(self, event: Event) -> None:
        """Answer a ping, learn from INFO, raise an error. A message that nobody waits for is dropped."""
        if event.kind == "PING":
            self.send(b"PONG\r\n")
        elif event.kind == "INFO":
            self._learn(event.payload)
        elif event.kind == "-ERR":
            if b"violation" in event.payload.lower():
                raise _refusal(event.payload, self.address)
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


def _explain(error: BaseException, address: Address) -> BaseException:
    """Why connecting failed, in one line. Re-raises errors of any other kind."""
    if isinstance(error, ConnectionRefusedError):
        return ConnectionFailed(
            f"no server listens at {address}", hint="start one with `headrace serve`, or check the address"
        )
    if isinstance(error, ConnectionEnded):
        return ConnectionFailed(f"the server at {address} closed the connection at once")
    if isinstance(error, ValueError):
        return Refused(f"{address} is not a NATS server", hint="check the address")
    if isinstance(error, OSError):
        return ConnectionFailed(f"the server at {address} cannot be reached: {error.strerror or error}")
    return error


def _refusal(payload: bytes, address: Address) -> ConnectionFailed:
    text = payload.decode(errors="replace").strip("' ")
    if "authorization" in text.lower() or "authentication" in text.lower():
        return Refused(
            f"the server at {address} does not accept these credentials",
            hint="give user and password, or a token, as options or in the URL: nats://user:password@host:port",
        )
    return ConnectionFailed(f"the server at {address} says: {text}")


def _no_responders(subject: str) -> NoResponders:
    if subject.startswith("$JS."):
        return NoResponders(
            "the server has no JetStream (no responders on its API)",
            hint="start it with JetStream enabled: nats-server -js, or jetstream in its configuration",
        )
    return NoResponders(f"nobody listens to {subject}")


def protocol_error(error: BadFrame, address: Address) -> ProtocolError:
    return ProtocolError(f"the server at {address} does not speak the NATS protocol: {error}")

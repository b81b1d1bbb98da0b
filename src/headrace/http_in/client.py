"""One of the server's clients, in the server's own process: whoever a request logs in as.

It is connected to the broker by a pair of sockets and speaks the protocol, like every client. So there is
nothing about users, permissions, accounts, mappings, limits or callouts in this room: the broker cannot tell
the difference, and neither can a reload or an expiry that closes the connection.

Messages are answered in three ways, and the order of the server's answers says which message is meant:

    PUB orders.eu _INBOX.x.7 5 ...      the stream's acknowledgement comes to _INBOX.x.7, when it is on disk
    PING                                -ERR, if there is one, comes before this PONG; and so does the status
                                        503 on _INBOX.x.7 if nobody subscribes to orders.eu
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from headrace.broker.connection import ClientConnection
from headrace.engine.core.trie import Subscription
from headrace.http_in.message import REQUESTS, Message
from headrace.http_in.operations import Operation, OperationReader
from headrace.http_in.outcome import ACCEPTED, Outcome, failed, read_acknowledgement

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

INBOX_SID = b"1"
LOGIN_SECONDS = 30.0
"""The broker ends those that take too long itself, as `auth_timeout` says; a callout may take a while."""
NO_RESPONDERS = b"NATS/1.0 503"
UNAUTHORIZED = (
    "Authorization Violation",
    "Authentication Timeout",
    "User Authentication",
    "Account Authentication",
    "maximum control line exceeded",  # by a login; the lines of messages are measured before they are sent
)
MAY_NOT_SUBSCRIBE = "Permissions Violation for Subscription"
MAY_NOT_PUBLISH = "Permissions Violation"

CONNECT: dict[str, Any] = {
    "verbose": False,
    "pedantic": False,
    "headers": True,
    "no_responders": True,
    "echo": True,
    "protocol": 1,
    "name": "http_in",
    "lang": "http",
}


class Refused(Exception):
    """It could not log in. `status` is what HTTP calls that."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Pending:
    """A message that is not answered yet."""

    __slots__ = ("future", "message", "wants_ack")

    def __init__(self, message: Message, wants_ack: bool, future: asyncio.Future[Outcome]) -> None:
        self.message = message
        self.wants_ack = wants_ack
        self.future = future

    def end(self, outcome: Outcome) -> None:
        if not self.future.done():
            self.future.set_result(outcome)


class PublishingClient(asyncio.Protocol):
    """For one request at a time. `has_streams(account)` says whether an account has JetStream."""

    def __init__(self, broker: Broker, host: str, has_streams: Callable[[str], bool]) -> None:
        self._broker = broker
        self._host = host
        self._has_streams = has_streams
        self._inbox = f"_INBOX.{secrets.token_hex(11)}.".encode()
        self._reader = OperationReader()
        self._transport: asyncio.Transport | None = None
        self._connection: ClientConnection | None = None
        self._login: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._numbers = 0
        self._pending: dict[bytes, _Pending] = {}
        self._unconfirmed: deque[bytes] = deque()  # sent, and their PONG has not come
        self._last_error = ""
        self.may_get_acknowledgements = True
        self.is_closed = False

    # -- logging in and out

    async def connect(self, credentials: dict[str, str]) -> None:
        """`credentials` are fields of CONNECT. Raises Refused."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self._login = loop.create_future()
        await loop.create_connection(lambda: self, sock=ours)
        self._connection = ClientConnection(self._broker, self._broker.next_cid(), self._host, 0)
        self._broker.admit(self._connection, theirs.detach())
        hello = json.dumps({**CONNECT, **credentials}).encode()
        self._write([b"CONNECT %b\r\nSUB %b* %b\r\nPING\r\n" % (hello, self._inbox, INBOX_SID)])
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                await self._login
        except TimeoutError:
            self.close()
            raise Refused(503, "the server did not answer in time who this is") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.is_closed = True
        if self._transport is not None:
            self._transport.close()

    @property
    def is_unused(self) -> bool:
        """Whether everything that was sent is answered."""
        return not self.is_closed and not self._pending and not self._unconfirmed

    @property
    def used(self) -> int:
        """How many messages it has sent."""
        return self._numbers

    @property
    def max_message(self) -> int:
        """How large a message may be, headers included."""
        assert self._connection is not None
        return min(self._connection.link.max_payload, self._broker.options.max_payload)

    # -- publishing

    async def publish(self, message: Message, *, wants_ack: bool, timeout: float) -> Outcome:
        future = await self.send(message, wants_ack=wants_ack, timeout=timeout)
        return await self.outcome(future, timeout)

    async def send(self, message: Message, *, wants_ack: bool, timeout: float) -> asyncio.Future[Outcome]:
        """Its outcome, later. Waits while the server does not read: its receivers do not keep up."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if not self._writable.is_set() and not await self._may_write(timeout):
            future.set_result(failed(503, "the receivers of messages do not keep up; this one was not sent"))
            return future
        if refusal := self._refusal(message, wants_ack):
            future.set_result(refusal)
            return future
        self._numbers += 1
        number = b"%d" % self._numbers
        pieces = message.encode(self._inbox + number if wants_ack else b"")
        if len(pieces[0]) > self._broker.options.max_control_line:
            future.set_result(failed(400, "the subject is longer than max_control_line allows"))
            return future
        self._pending[number] = _Pending(message, wants_ack, future)
        self._unconfirmed.append(number)
        future.add_done_callback(lambda _: self._pending.pop(number, None))
        self._write([*pieces, b"PING\r\n"])
        return future

    async def _may_write(self, timeout: float) -> bool:
        try:
            async with asyncio.timeout(timeout):
                return await self._writable.wait()
        except TimeoutError:
            return False

    def _refusal(self, message: Message, wants_ack: bool) -> Outcome | None:
        if self.is_closed:
            return self._closed()
        if message.size > self.max_message:
            return failed(413, f"the message is larger than {self.max_message} bytes, which are allowed here")
        if wants_ack and not self.may_get_acknowledgements:
            return failed(
                403, "this user may not subscribe to _INBOX.>, which acknowledgements need (or use ?ack=no)"
            )
        if wants_ack and message.subject.startswith(REQUESTS) and self._may_publish(message.subject):
            return failed(
                400,
                "this subject is a request to the server, which no stream stores; use a NATS client for it",
            )
        return None

    def _may_publish(self, subject: bytes) -> bool:
        """If not, the broker says so when it gets the message."""
        assert self._connection is not None
        permissions = self._connection.link.permissions
        return permissions is None or permissions.may_publish(subject)

    async def outcome(self, future: asyncio.Future[Outcome], timeout: float) -> Outcome:
        """Of what was sent. A message whose acknowledgement does not come may be stored, or not."""
        if future.done():  # usually, if there are many
            return future.result()
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(future)
        except TimeoutError:
            future.cancel()
            return failed(504, f"no stream acknowledged the message within {timeout:g} s; it may be stored")

    def _closed(self) -> Outcome:
        if self._last_error.startswith(UNAUTHORIZED):
            return failed(401, self._last_error)
        return failed(503, self._last_error or "the server closed the connection; the message may be stored")

    # -- what the server sends

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so

    def data_received(self, data: bytes) -> None:
        for operation in self._reader.feed(data):
            self._on_operation(operation)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        self._writable.set()
        outcome = self._closed()
        if self._login is not None and not self._login.done():
            self._login.set_exception(Refused(outcome[0], self._last_error or "the server is busy"))
        for pending in list(self._pending.values()):
            pending.end(outcome)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _write(self, pieces: list[bytes]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(pieces)

    def _on_operation(self, operation: Operation) -> None:
        if operation.name == b"MSG":
            self._on_answer(operation)
        elif operation.name == b"PONG":
            self._on_pong()
        elif operation.name == b"-ERR":
            self._on_error(operation.text)
        elif operation.name == b"PING":
            self._write([b"PONG\r\n"])

    def _on_answer(self, operation: Operation) -> None:
        pending = self._pending.get(operation.subject.removeprefix(self._inbox))
        if pending is None:
            return
        if operation.headers.startswith(NO_RESPONDERS):
            pending.end(self._no_stream())
        elif (outcome := read_acknowledgement(operation.payload)) is not None:
            pending.end(outcome)

    def _on_pong(self) -> None:
        if self._login is not None and not self._login.done():
            self._login.set_result(None)
        elif self._unconfirmed:
            pending = self._pending.get(self._unconfirmed.popleft())
            if pending is not None and not pending.wants_ack:
                pending.end(ACCEPTED)
            elif pending is not None and self._reaches_clients_only(pending.message.subject):
                pending.end(self._no_stream())

    def _on_error(self, text: str) -> None:
        self._last_error = text
        if self._login is not None and not self._login.done():
            if text.startswith(MAY_NOT_SUBSCRIBE):
                self.may_get_acknowledgements = False
        elif self._unconfirmed and (pending := self._pending.get(self._unconfirmed[0])):
            status = 403 if text.startswith(MAY_NOT_PUBLISH) else 400
            pending.end(failed(status, text))

    def _no_stream(self) -> Outcome:
        assert self._connection is not None
        account = self._connection.account
        if account is None or not self._has_streams(account.name):
            return failed(503, "JetStream is not enabled here; ?ack=no publishes without it", 10076)
        return failed(404, "no stream has this subject; ?ack=no publishes to subscribers alone")

    def _reaches_clients_only(self, subject: bytes) -> bool:
        """Then nobody will acknowledge it: a stream is no client. Where subjects are mapped, nobody knows."""
        assert self._connection is not None
        interest = self._connection.link.interest
        if interest is None or interest.mappings is not None:
            return False
        plain, queues = interest.match(subject)
        receivers = [*plain, *(member for members in queues for member in members)]
        return all(type(one) is Subscription and isinstance(one.owner, ClientConnection) for one in receivers)

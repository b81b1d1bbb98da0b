"""A connection to any NATS server with nats-py, for the commands, with helpful error messages.

    async with connect(target) as connection:
        await connection.client.publish(...)

`explain` is the one place that knows nats-py's families of errors. nats-py reports errors in three ways: it
raises, it calls back, or it logs. Before it is connected, the callback counts the servers that failed and,
when none is left, raises through nats-py (which would try a dead server for minutes). Later, a lost
connection is reported to the user, and nats-py reconnects.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import nats.errors

from headrace.cli.nats_client import IdentifiedClient, Refusal
from headrace.cli.output import plural, say
from headrace.cli.target import Target
from headrace.client.refusals import explain_tls
from headrace.errors import HeadraceError, UsageError

CONNECT_SECONDS = 3
RECONNECT_WAIT_SECONDS = 1
CLIENT_NAME = "headrace cli"
FOREVER = -1

Result = TypeVar("Result")


class ConnectionFailedError(HeadraceError):
    """The server cannot be reached, or refuses us."""


class Interrupted(Exception):
    """Ctrl-C or SIGTERM during an await. Not a failure: the user asked for it."""


class InterruptibleClient:
    """A client whose calls can be ended by an interrupt, or by the end of the connection."""

    def __init__(self, target: Target) -> None:
        self.client = IdentifiedClient(target)
        self.interrupted = asyncio.Event()
        self.connect_seconds = 0.0
        self.dropped_messages = 0
        self._target = target
        self._closed = asyncio.Event()
        self._refused = asyncio.Event()
        self._refusal: HeadraceError | None = None
        self.dispensable = ""
        """Subjects that begin like this may be refused: it is reported once, and the rest continues."""
        self._connected = False
        self._leaving = False
        self._failures: list[Exception] = []
        self._last_said = ""

    @property
    def address(self) -> str:
        """`host:port` of the server in use, without the password that a URL may contain."""
        url = self.client.connected_url
        return address_of(url.geturl()) if url else address_of(self._target.servers[0])

    async def open(self) -> None:
        """Raises ConnectionFailedError when every server has been tried."""
        target = self._target
        credentials = target.credentials.loaded()  # report a bad file before anything is sent
        options: dict[str, Any] = {}
        if target.tls:
            options = {"tls": target.tls.context(), "tls_handshake_first": target.tls.handshake_first}
            options |= {"tls_hostname": target.tls.server_name} if target.tls.server_name else {}
        try:
            await self.client.connect(
                list(target.servers),
                name=CLIENT_NAME,
                user=credentials.user or None,
                password=credentials.password if credentials.user else None,
                token=credentials.token or None,
                **options,
                connect_timeout=CONNECT_SECONDS,
                reconnect_time_wait=RECONNECT_WAIT_SECONDS,
                max_reconnect_attempts=FOREVER,
                dont_randomize=True,
                error_cb=self._on_error,
                disconnected_cb=self._on_disconnected,
                reconnected_cb=self._on_reconnected,
                closed_cb=self._on_closed,
            )
        except HeadraceError:
            raise
        except Exception as error:
            raise explain(error, address_of(target.servers[0])) from None
        self._connected = True

    async def close(self) -> None:
        self._leaving = True
        with contextlib.suppress(Exception):  # the work is done; an error message would not help
            await self.client.close()

    async def wait_for(self, awaitable: Awaitable[Result], seconds: float | None = None) -> Result:
        """The result; raises Interrupted, ConnectionFailedError when the connection ends or the server says
        that we lack a permission, or TimeoutError."""
        work = asyncio.ensure_future(awaitable)
        ends = [
            asyncio.ensure_future(event.wait()) for event in (self.interrupted, self._closed, self._refused)
        ]
        try:
            await asyncio.wait([work, *ends], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            if self.interrupted.is_set():
                raise Interrupted
            if self._closed.is_set() or self._refused.is_set():
                raise self._reason_of_end()
            raise TimeoutError
        finally:
            for task in (work, *ends):
                task.cancel()
            await asyncio.gather(work, *ends, return_exceptions=True)

    async def publish(self, subject: str, payload: bytes, reply: str, headers: dict[str, str] | None) -> None:
        """Raises UsageError for a message that is too large.

        nats-py does not count the headers, and the server then resets the connection without a reason.
        """
        header_bytes = sum(len(f"{name}: {value}\r\n".encode()) for name, value in (headers or {}).items())
        header_bytes += len(b"NATS/1.0\r\n\r\n") if headers else 0
        size, limit = header_bytes + len(payload), self.client.max_payload
        if size > limit:
            raise UsageError(
                f"the message has {size:,} bytes, and {self.address} accepts at most {limit:,}",
                hint="see max_payload in its configuration",
            )
        await self.client.publish(subject, payload, reply, headers)

    async def flush(self, seconds: float = 10.0) -> None:
        """Wait until the server has received everything; raises ConnectionFailedError if it has not."""
        try:
            await self.wait_for(self.client.flush(max(1, int(seconds))), seconds)
            # An -ERR that came before the PONG is handled by a task of nats-py.
            await asyncio.sleep(0)
        except (TimeoutError, nats.errors.Error) as error:
            raise explain(error, self.address) from None
        if self._closed.is_set() or self._refused.is_set() or self.client.is_closed:
            raise self._reason_of_end()

    def _reason_of_end(self) -> HeadraceError:
        if self._refusal is not None:
            return self._refusal
        error = self.client.last_error
        return explain(error or nats.errors.ConnectionClosedError(), self.address)

    # -- called by nats-py --------------------------------------------------------------------------------

    async def _on_error(self, error: Exception) -> None:
        if self._leaving:
            return
        if isinstance(error, nats.errors.SlowConsumerError):
            self.dropped_messages += 1
            self._say_once("messages arrive faster than they can be written: some are dropped")
        elif self.dispensable and f'"{self.dispensable.lower()}' in str(error).lower():
            self._say_once(f"no permission for {self.dispensable}: continuing without it")
        elif self._connected and "permissions violation" in str(error).lower():
            # The connection stays open, but what was asked for does not happen, however long one waits.
            self._refusal = explain(error, self.address)
            self._refused.set()
        elif self._connected:
            if not isinstance(error, nats.errors.UnexpectedEOF):  # "lost the connection" follows
                self._say_once(str(explain(error, address_of(self._target.servers[0]))))
        else:
            self._failures.append(error)
            if len(self._failures) >= len(self._target.servers):
                raise explain_all(self._failures, self._target.servers)

    async def _on_disconnected(self) -> None:
        if self._connected and not self._leaving and not self.client.is_closed:
            say("lost the connection; reconnecting (Ctrl-C stops)")

    async def _on_reconnected(self) -> None:
        self._last_said = ""
        say(f"reconnected to {self.address}")

    async def _on_closed(self) -> None:
        self._closed.set()

    def _say_once(self, text: str) -> None:
        """An unreachable server causes the same error every second: print it once."""
        if text != self._last_said:
            say(text)
            self._last_said = text


@contextlib.asynccontextmanager
async def connect(target: Target) -> AsyncIterator[InterruptibleClient]:
    """An open connection; Ctrl-C and SIGTERM set its `interrupted` from then on."""
    route_log()
    connection = InterruptibleClient(target)
    try:
        await connection.open()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, connection.interrupted.set)
        yield connection
    except nats.errors.Error as error:
        raise explain(error, connection.address) from None
    finally:
        await connection.close()


def address_of(url: str) -> str:
    """`host:port` of a server's URL, without scheme and credentials."""
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        host, port = parts.hostname or "?", parts.port or 4222
    except ValueError:
        return url.rpartition("@")[2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def explain_all(errors: list[Exception], servers: tuple[str, ...]) -> HeadraceError:
    """Why no server could be used."""
    reasons = [explain(error, address_of(server)) for error, server in zip(errors, servers, strict=False)]
    if len(reasons) == 1:
        return reasons[0]
    return ConnectionFailedError(f"no usable server: {'; '.join(str(reason) for reason in reasons)}")


def explain(error: BaseException, address: str) -> HeadraceError:
    """What happened, and what to do about it, in one line."""
    text = str(error).removeprefix("nats: ").strip("'")
    lowered = text.lower()
    if isinstance(error, HeadraceError):
        return error
    if isinstance(error, Refusal):
        return error.reason
    if isinstance(error, ssl.SSLError):
        return explain_tls(error, address)
    if isinstance(error, ConnectionRefusedError):
        return ConnectionFailedError(
            f"no server listens at {address} (connection refused)",
            hint="start one with `headrace serve`, or choose another with --server",
        )
    if isinstance(error, socket.gaierror | UnicodeError):
        return ConnectionFailedError(f"unknown host in {address}", hint="check --server")
    if isinstance(error, nats.errors.AuthorizationError) or "authorization violation" in lowered:
        return ConnectionFailedError(
            f"{address} does not accept these credentials",
            hint="check --creds, --nkey, --user and --password, or --token (or NATS_CREDS, NATS_USER, …)",
        )
    if isinstance(error, nats.errors.BadSubjectError):
        return UsageError("the subject is not valid: it must be dot-separated tokens, no spaces")
    if isinstance(error, nats.errors.BadHeaderError):
        return UsageError(f"the {text.removeprefix('invalid ')} is not valid")
    if isinstance(error, nats.errors.MaxPayloadError) or "maximum payload" in lowered:
        return UsageError(
            f"the message is larger than {address} accepts", hint="see max_payload in its configuration"
        )
    if isinstance(error, nats.errors.OutboundBufferLimitError):
        return ConnectionFailedError(f"the connection to {address} is lost, and the send buffer is full")
    if isinstance(error, nats.errors.ConnectionClosedError | nats.errors.UnexpectedEOF | ConnectionError):
        return ConnectionFailedError(f"{address} has closed the connection")
    if "ssl" in lowered or "secure connection" in lowered:
        return ConnectionFailedError(
            f"TLS with {address} failed: {text}", hint="check that the URL starts with tls://"
        )
    if isinstance(error, asyncio.TimeoutError):
        return ConnectionFailedError(
            f"{address} did not answer in time", hint="is it a NATS server, and is it reachable?"
        )
    if "expecting info" in lowered or "info message" in lowered:
        return ConnectionFailedError(f"{address} is not a NATS server", hint="check --server")
    if "connect url" in lowered or "websocket urls" in lowered:
        return UsageError("--server is not a valid URL", hint="write it as nats://host:port")
    if isinstance(error, ImportError):
        return ConnectionFailedError(f"{address} cannot be used: WebSocket needs the aiohttp package")
    if isinstance(error, OSError):
        return ConnectionFailedError(
            f"cannot connect to {address}: {error.strerror or text}", hint="check --server"
        )
    if isinstance(error, nats.errors.Error):
        return ConnectionFailedError(f"{address} says: {text}")
    return ConnectionFailedError(f"{address}: {type(error).__name__}: {text}")


def describe_dropped(connection: InterruptibleClient) -> str:
    """A note about messages that were dropped on the way, to follow a count."""
    count = connection.dropped_messages
    return f", {plural(count, 'message')} dropped" if count else ""


class _OneLineHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        if isinstance(cause, asyncio.InvalidStateError):
            return  # a PONG for a flush that was given up, because of an error that is reported
        say(f"{record.getMessage()}{f': {cause}' if cause else ''}")


def route_log() -> None:
    """nats-py logs some errors, with a traceback: show them as one line.

    asyncio warns that a nats-py connection over TLS closes when the server does: so it should.
    """
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    logger = logging.getLogger("nats")
    logger.propagate = False
    logger.handlers = [_OneLineHandler(logging.WARNING)]

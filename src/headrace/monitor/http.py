"""A small HTTP/1.1 server on h11: GET and HEAD, keep-alive, and limits on everything that a peer can use.

    a request's head    MAX_HEAD_BYTES, and HEAD_SECONDS from its first byte to its last
    an idle connection  IDLE_SECONDS, then it is closed
    a response          is made piece by piece as the peer reads it; a peer that does not read for
                        WRITE_SECONDS is dropped
    connections         MAX_CONNECTIONS, one more is answered with 503

Every peer has its own task, so that a slow one delays nobody else. Reading a request's head and making a
piece of a response take turns (turns.py), so that many peers or requests delay nobody either.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import traceback
from collections.abc import Callable, Iterable, Iterator
from email.utils import formatdate
from http import HTTPStatus

import h11

from headrace.logs import Logger
from headrace.monitor.endpoint import JSON, TEXT, Answer, answer_text
from headrace.monitor.turns import Turns

MAX_CONNECTIONS = 128
MAX_HEAD_BYTES = 64 * 1024
READ_BYTES = 16 * 1024
PIECE_BYTES = 16 * 1024
HEAD_SECONDS = 5.0
IDLE_SECONDS = 30.0
WRITE_SECONDS = 30.0
LINGER_SECONDS = 0.5
LINGER_READS = 16

METHODS = (b"GET", b"HEAD")
WITHOUT_BODY = b"HEAD"


class HttpServer:
    """Answers requests with `handle(target)`, which must not raise for anything that a peer can send.

    The limits are attributes, so that others can be set before the server starts.
    """

    def __init__(self, handle: Callable[[str], Answer], logger: Logger) -> None:
        self.max_connections = MAX_CONNECTIONS
        self.head_seconds = HEAD_SECONDS
        self.idle_seconds = IDLE_SECONDS
        self.write_seconds = WRITE_SECONDS
        self.turns = Turns()
        self._handle = handle
        self._logger = logger
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        return len(self._tasks)

    async def start(self, listening: socket.socket) -> None:
        self._server = await asyncio.start_server(self._serve_peer, sock=listening, limit=READ_BYTES)

    async def stop(self) -> None:
        """Stop listening and drop all peers."""
        if self._server is None:
            return
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve_peer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        peer = Peer(self, reader, writer)
        try:
            if len(self._tasks) > self.max_connections:
                await peer.refuse(HTTPStatus.SERVICE_UNAVAILABLE)
            else:
                while await self._serve_request(peer):
                    pass
        except (TimeoutError, ConnectionError):
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()  # the server stops; asyncio expects the task to end normally here
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            self._logger.error(f"monitoring: Internal error, closing this connection: {text}")
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _serve_request(self, peer: Peer) -> bool:
        """Answer one request; False if it was the last."""
        try:
            request = await peer.read_request()
        except h11.RemoteProtocolError as error:
            await peer.refuse(HTTPStatus(error.error_status_hint))
            return False
        if request is None:
            return False
        if request.method not in METHODS:
            answer = answer_status(HTTPStatus.METHOD_NOT_ALLOWED)
        else:
            async with self.turns.next():
                answer = self._answer(request.target.decode("ascii"))
        await peer.send(answer, has_body=request.method != WITHOUT_BODY)
        return peer.next_cycle()

    def _answer(self, target: str) -> Answer:
        try:
            return self._handle(target)
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            self._logger.error(f"monitoring: Internal error in {target.partition('?')[0]}: {text}")
            return answer_status(HTTPStatus.INTERNAL_SERVER_ERROR)


class Peer:
    """One connection, as seen by HTTP."""

    def __init__(
        self, bounds: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._bounds = bounds
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._is_first = True

    async def read_request(self) -> h11.Request | None:
        """The next request, or None if the peer has disconnected.

        Raises TimeoutError if it takes too long, RemoteProtocolError if it is not HTTP.
        """
        event = await self._next_event()
        if event is h11.NEED_DATA and not self._is_first and not self._http.trailing_data[0]:
            async with asyncio.timeout(self._bounds.idle_seconds):
                self._http.receive_data(await self._reader.read(READ_BYTES))
            event = await self._next_event()
        self._is_first = False
        deadline = asyncio.get_running_loop().time() + self._bounds.head_seconds
        while event is h11.NEED_DATA:
            async with asyncio.timeout_at(deadline):
                self._http.receive_data(await self._reader.read(READ_BYTES))
            event = await self._next_event()
        return event if isinstance(event, h11.Request) else None

    async def _next_event(self) -> object:
        async with self._bounds.turns.next():
            return self._http.next_event()

    async def send(self, answer: Answer, *, has_body: bool) -> None:
        """Send a response, with its length if it fits into one piece."""
        pieces = iter(collect(answer.body))
        first = await self._next_piece(pieces) or b""
        second = await self._next_piece(pieces)
        headers = [("Content-Type", answer.content_type), ("Date", formatdate(usegmt=True))]
        if answer.content_type == JSON:
            headers.append(("Access-Control-Allow-Origin", "*"))
        else:
            headers.append(("X-Content-Type-Options", "nosniff"))
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", "GET, HEAD"))
        if second is None:
            headers.append(("Content-Length", str(len(first))))
        await self._write(
            h11.Response(status_code=answer.status, headers=headers, reason=HTTPStatus(answer.status).phrase)
        )
        if has_body:
            await self._write(h11.Data(data=first))
            while second is not None:
                await self._write(h11.Data(data=second))
                second = await self._next_piece(pieces)
        await self._write(h11.EndOfMessage())

    async def _next_piece(self, pieces: Iterator[bytes]) -> bytes | None:
        piece: bytes | None = b""
        while piece == b"":
            async with self._bounds.turns.next():
                piece = next(pieces, None)
        return piece

    async def refuse(self, status: HTTPStatus) -> None:
        """The last response on this connection."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = answer_status(status)
            headers = [("Content-Type", TEXT), ("Connection", "close")]
            body = b"".join(answer.body)
            headers.append(("Content-Length", str(len(body))))
            await self._write(h11.Response(status_code=status, headers=headers, reason=status.phrase))
            await self._write(h11.Data(data=body))
            await self._write(h11.EndOfMessage())
            await self._linger()

    async def _linger(self) -> None:
        """Read what the peer still sends: closing a socket with unread data would discard the response."""
        self._writer.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                for _ in range(LINGER_READS):
                    if not await self._reader.read(READ_BYTES):
                        break

    def next_cycle(self) -> bool:
        """Whether another request may follow. One with a body is the last, because the body is not read."""
        if isinstance(self._http.next_event(), h11.EndOfMessage) and self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
            return True
        return False

    async def _write(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            async with asyncio.timeout(self._bounds.write_seconds):
                await self._writer.drain()


def answer_status(status: HTTPStatus) -> Answer:
    return answer_text(status, f"{status.value} {status.phrase.lower()}\n")


def collect(fragments: Iterable[bytes]) -> Iterable[bytes]:
    """Join small fragments into larger pieces. An empty fragment ends a turn, and is a piece."""
    gathered: list[bytes] = []
    size = 0
    for fragment in fragments:
        if not fragment:
            yield b""
            continue
        gathered.append(fragment)
        size += len(fragment)
        if size >= PIECE_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)

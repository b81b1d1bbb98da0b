"""A small HTTP/1.1 server on h11, with keep-alive, and limits on everything that a peer can use.

    a request's head    MAX_HEAD_BYTES, and HEAD_SECONDS from its first byte to its last
    a request's body    as long as its handler allows, and in time; if nobody reads it, the connection ends
    an idle connection  is closed
    a response          is made piece by piece as the peer reads it; a peer that does not read is dropped
    connections         MAX_CONNECTIONS, one more is answered with 503

Every peer has its own task, so that a slow one delays nobody else. Reading a request and making a piece of a
response take turns (turns.py), so that many peers or requests delay nobody either.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import traceback
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from headrace.http.message import Answer, BadRequest, Request, answer_status
from headrace.http.peer import READ_BYTES, Bounds, Peer
from headrace.http.turns import Turns
from headrace.logs import Logger

MAX_CONNECTIONS = 128
WITHOUT_BODY = "HEAD"

TOO_MANY = BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, "too many peers at a time")

Handler = Callable[[Request], Awaitable[Answer]]


def answer_refusal(error: BadRequest) -> Answer:
    return answer_status(error.status)


class HttpServer:
    """Answers requests with `handle(request)`, which must not raise anything but BadRequest.

    The limits are attributes, so that others can be set before the server starts; and so is `refusal`, which
    makes the answer to what is refused before it comes to the handler.
    """

    def __init__(self, handle: Handler, logger: Logger, name: str) -> None:
        self.max_connections = MAX_CONNECTIONS
        self.bounds = Bounds()
        self.turns = Turns()
        self.refusal = answer_refusal
        self._handle = handle
        self._logger = logger
        self._name = name  # in the log
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        return len(self._tasks)

    async def start(self, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(
            self._serve_peer,
            sock=listening,
            limit=READ_BYTES,
            ssl=tls,
            ssl_handshake_timeout=self.bounds.head_seconds if tls else None,
        )

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
        # An answer is several writes. asyncio sees to it only if the listening socket names its protocol.
        with contextlib.suppress(OSError):  # some systems refuse if the peer has left already
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = Peer(self.bounds, self.turns, reader, writer)
        try:
            if len(self._tasks) > self.max_connections:
                await peer.refuse(self.refusal(TOO_MANY))
            else:
                while await self._serve_request(peer):
                    pass
        except (TimeoutError, ConnectionError):
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()  # the server stops; asyncio expects the task to end normally here
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            self._logger.error(f"{self._name}: Internal error, closing this connection: {text}")
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
            if request is None:
                return False
            answer = await self._answer(request)
        except BadRequest as error:
            await peer.refuse(self.refusal(error))
            return False
        await peer.send(answer, has_body=request.method != WITHOUT_BODY)
        return await peer.next_cycle()

    async def _answer(self, request: Request) -> Answer:
        try:
            return await self._handle(request)
        except (BadRequest, ConnectionError):
            raise
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            self._logger.error(f"{self._name}: Internal error in {request.path}: {text}")
            return self.refusal(BadRequest(HTTPStatus.INTERNAL_SERVER_ERROR))

"""One connection, as seen by HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from email.utils import formatdate
from http import HTTPStatus

import h11
import msgspec

from headrace.http.message import JSON, Answer, BadRequest, Request
from headrace.http.turns import Turns

MAX_HEAD_BYTES = 64 * 1024
READ_BYTES = 16 * 1024
PIECE_BYTES = 16 * 1024
LINGER_SECONDS = 0.5
LINGER_READS = 16
BODY_BYTES_PER_SECOND = 1024
FRAMING = (b"content-length", b"transfer-encoding")
"""What says where a body ends."""


class Bounds(msgspec.Struct):
    """How long a peer may take."""

    head_seconds: float = 5.0  # from the first byte of a request's head to its last
    body_seconds: float = 10.0  # for a body; longer ones have more, at BODY_BYTES_PER_SECOND
    idle_seconds: float = 30.0  # between requests
    write_seconds: float = 30.0  # without reading


class Peer:
    """Reads requests and writes their answers, one after the other."""

    def __init__(
        self, bounds: Bounds, turns: Turns, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._bounds = bounds
        self._turns = turns
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._is_first = True
        self._declared = 0  # the length of the body, if the request has it

    async def read_request(self) -> Request | None:
        """The next request, or None if the peer has disconnected.

        Raises TimeoutError if it takes too long, BadRequest if it is not HTTP.
        """
        event = await self._next_event()
        if event is h11.NEED_DATA and not self._is_first and not self._http.trailing_data[0]:
            async with asyncio.timeout(self._bounds.idle_seconds):
                await self._receive()
            event = await self._next_event()
        self._is_first = False
        deadline = asyncio.get_running_loop().time() + self._bounds.head_seconds
        while event is h11.NEED_DATA:
            async with asyncio.timeout_at(deadline):
                await self._receive()
            event = await self._next_event()
        if not isinstance(event, h11.Request):
            return None
        self._check_framing(event)
        address = self._writer.get_extra_info("peername")
        return Request(
            method=event.method.decode("ascii"),
            target=event.target.decode("ascii"),
            headers=tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in event.headers),
            peer=address[0] if address else "",
            is_secure=self._writer.get_extra_info("ssl_object") is not None,
            read=self._read_body,
        )

    def _check_framing(self, request: h11.Request) -> None:
        """Raises BadRequest if it is unclear where the body ends, as others may read it (RFC 9112, 6.1)."""
        framing = {name: value for name, value in request.headers if name in FRAMING}
        if len(framing) > 1:
            raise BadRequest(
                HTTPStatus.BAD_REQUEST, "a request has a Content-Length or a Transfer-Encoding, not both"
            )
        self._declared = int(framing.get(b"content-length", b"0"))

    async def _read_body(self, max_bytes: int) -> AsyncIterator[bytes]:
        """Raises BadRequest if it is longer than that, too slow or not HTTP."""
        if self._declared > max_bytes:  # at once: nobody has to send it first
            raise _too_long(max_bytes)
        if self._http.they_are_waiting_for_100_continue:
            await self._write(h11.InformationalResponse(status_code=100, headers=[], reason="Continue"))
        begin, received = asyncio.get_running_loop().time(), 0
        while not isinstance(event := await self._next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                received += len(event.data)
                if received > max_bytes:
                    raise _too_long(max_bytes)
                yield bytes(event.data)
            elif event is h11.NEED_DATA:
                allowed = self._bounds.body_seconds + received / BODY_BYTES_PER_SECOND
                try:
                    async with asyncio.timeout_at(begin + allowed):
                        await self._receive()
                except TimeoutError:
                    raise BadRequest(HTTPStatus.REQUEST_TIMEOUT, "the body came too slowly") from None
            else:
                raise ConnectionError("the body does not end")

    async def _receive(self) -> None:
        self._http.receive_data(await self._reader.read(READ_BYTES))

    async def _next_event(self) -> object:
        async with self._turns.next():
            try:
                return self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise BadRequest(HTTPStatus(error.error_status_hint), str(error)) from None

    async def send(self, answer: Answer, *, has_body: bool) -> None:
        """Send a response, with its length if it fits into one piece."""
        if not isinstance(answer.body, Iterable):
            await self._send_as_it_comes(answer, has_body=has_body)
            return
        try:
            await self._send_pieces(answer, iter(collect(answer.body)), has_body=has_body)
        finally:
            if isinstance(answer.body, Generator):
                answer.body.close()  # at once, also if the peer has left in the middle

    async def _send_pieces(self, answer: Answer, pieces: Iterator[bytes], *, has_body: bool) -> None:
        first = await self._next_piece(pieces) or b""
        second = await self._next_piece(pieces)
        length = [("Content-Length", str(len(first)))] if second is None else []
        await self._send_head(answer, length)
        if has_body:
            await self._write(h11.Data(data=first))
            while second is not None:
                await self._write(h11.Data(data=second))
                second = await self._next_piece(pieces)
        await self._write(h11.EndOfMessage())

    async def _send_as_it_comes(self, answer: Answer, *, has_body: bool) -> None:
        assert not isinstance(answer.body, Iterable)
        await self._send_head(answer, [])
        # What is made as time passes is not queued: a slow reader gets less of it.
        self._writer.transport.set_write_buffer_limits(0)
        if has_body:
            async with contextlib.aclosing(answer.body) as fragments:  # at once, whatever the peer does
                async for fragment in fragments:
                    await self._write(h11.Data(data=fragment))
        await self._write(h11.EndOfMessage())

    async def _send_head(self, answer: Answer, length: list[tuple[str, str]]) -> None:
        headers = [("Content-Type", answer.content_type), ("Date", formatdate(usegmt=True))]
        if answer.content_type != JSON:
            headers.append(("X-Content-Type-Options", "nosniff"))
        headers += [*answer.headers, *length]
        await self._write(
            h11.Response(status_code=answer.status, headers=headers, reason=HTTPStatus(answer.status).phrase)
        )

    async def _next_piece(self, pieces: Iterator[bytes]) -> bytes | None:
        piece: bytes | None = b""
        while piece == b"":
            async with self._turns.next():
                piece = next(pieces, None)
        return piece

    async def refuse(self, answer: Answer) -> None:
        """The last response on this connection."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = (*answer.headers, ("Connection", "close"))
            await self.send(msgspec.structs.replace(answer, headers=headers), has_body=True)
            await self._linger()

    async def _linger(self) -> None:
        """Read what the peer still sends: closing a socket with unread data would discard the response."""
        if self._writer.can_write_eof():  # TLS cannot: there the end is the end of both directions
            self._writer.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                for _ in range(LINGER_READS):
                    if not await self._reader.read(READ_BYTES):
                        break

    async def next_cycle(self) -> bool:
        """Whether another request may follow. One whose body was not read is the last."""
        if self._http.their_state is h11.SEND_BODY:
            try:
                unread = not isinstance(self._http.next_event(), h11.EndOfMessage)
            except h11.RemoteProtocolError:
                unread = True
            if unread:
                await self._linger()
                return False
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            return True
        return False

    async def _write(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            async with asyncio.timeout(self._bounds.write_seconds):
                await self._writer.drain()


def _too_long(max_bytes: int) -> BadRequest:
    return BadRequest(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body is larger than {max_bytes} bytes, which are allowed here",
    )


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

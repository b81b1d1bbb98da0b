"""Bodies: of requests, whole or in pieces, too long, too slow, unread; and of answers that are made later."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from headrace.http.message import TEXT, Answer, Request, answer_text
from headrace.http.server import Handler, HttpServer
from headrace.logs import Logger, LogSettings

MAX_BYTES = 100_000


@contextlib.asynccontextmanager
async def serving(handle: Handler) -> AsyncIterator[tuple[HttpServer, int]]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(handle, Logger(LogSettings()), "test")
    await server.start(listening)
    try:
        yield server, listening.getsockname()[1]
    finally:
        await server.stop()


async def echo(request: Request) -> Answer:
    return Answer([await request.body(MAX_BYTES)], TEXT)


async def exchange(port: int, *sent: bytes) -> bytes:
    """What comes back for these pieces until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in sent:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.01)
    received = await reader.read()
    writer.close()
    return received


def post(body: bytes, *, last: bool = True) -> bytes:
    close = b"Connection: close\r\n" if last else b""
    return b"POST / HTTP/1.1\r\nHost: h\r\n%sContent-Length: %d\r\n\r\n%s" % (close, len(body), body)


@pytest.mark.parametrize("size", [0, 1, 16 * 1024, MAX_BYTES])
async def test_a_body_is_read_whole(size: int) -> None:
    async with serving(echo) as (_, port):
        received = await exchange(port, post(b"x" * size))
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert body == b"x" * size


async def test_a_body_in_pieces_and_in_chunks() -> None:
    async with serving(echo) as (_, port):
        whole = post(b"hello")
        assert (await exchange(port, *(whole[at : at + 7] for at in range(0, len(whole), 7)))).endswith(
            b"\r\n\r\nhello"
        )
        chunked = b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert (await exchange(port, chunked + b"3\r\nhel\r\n", b"2\r\nlo\r\n0\r\n\r\n")).endswith(b"hello")


async def test_requests_with_bodies_follow_each_other_on_one_connection() -> None:
    async with serving(echo) as (_, port):
        received = await exchange(port, post(b"one", last=False) + post(b"two", last=False) + post(b"three"))
    assert received.count(b"200 OK") == 3
    assert [part in received for part in (b"one", b"two", b"three")] == [True] * 3


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (post(b"x" * (MAX_BYTES + 1)), b"413"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\nabc", b"408"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100001\r\n\r\n", b"413"),
        (
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999\r\nExpect: 100-continue\r\n\r\n",
            b"413",
        ),
        (
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"400",
        ),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc", b"400"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused(sent: bytes, status: bytes) -> None:
    async with serving(echo) as (server, port):
        server.bounds.body_seconds = 0.1
        assert (await exchange(port, sent)).startswith(b"HTTP/1.1 " + status)


async def test_dripping_a_body_does_not_gain_time() -> None:
    async with serving(echo) as (server, port):
        server.bounds.body_seconds = 0.1
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        ended = asyncio.create_task(reader.read())
        writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n")
        while not ended.done():
            writer.write(b"x")
            await asyncio.sleep(0.01)
        writer.close()
        assert ended.result().startswith(b"HTTP/1.1 408")


async def test_a_client_that_waits_before_it_sends_is_told_to_go_on() -> None:
    async with serving(echo) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head, body = post(b"hi").split(b"\r\n\r\n")
        writer.write(head + b"\r\nExpect: 100-continue\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        writer.write(body)
        assert (await reader.read()).endswith(b"hi")
        writer.close()


async def test_a_body_that_nobody_reads_ends_the_connection_after_the_answer() -> None:
    async def answer(request: Request) -> Answer:
        return answer_text(403, "no\n")

    async with serving(answer) as (_, port):
        received = await exchange(port, post(b"x" * 200_000, last=False))
        assert received.startswith(b"HTTP/1.1 403")
        assert received.endswith(b"no\n")


async def test_an_answer_is_sent_while_it_is_made_and_ends_with_its_reader() -> None:
    ended = asyncio.Event()

    async def ticks() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"data: tick\n\n"
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    async def answer(request: Request) -> Answer:
        return Answer(ticks(), "text/event-stream")

    async with serving(answer) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        for _ in range(3):
            await reader.readuntil(b"data: tick\n\n")
        assert server.connections == 1
        writer.close()
        await asyncio.wait_for(ended.wait(), 20)
        while server.connections:
            await asyncio.sleep(0.01)


async def test_an_error_of_a_handler_is_answered() -> None:
    async def fail(request: Request) -> Answer:
        raise ValueError("bug")

    async with serving(fail) as (_, port):
        assert (await exchange(port, post(b""))).startswith(b"HTTP/1.1 500")

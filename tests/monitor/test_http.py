"""The HTTP server: what it accepts, and what it bears."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest

from headrace.http.message import Answer, Request
from headrace.server import Server
from tests.monitor.conftest import Connecter, Starter
from tests.monitor.fetch import fetch, read_response

GET_HEALTH = b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n"
CANARY = "canary-5ecret"


async def was_dropped(reader: asyncio.StreamReader) -> bool:
    """Whether the connection ends without another byte; waits for it."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/healthz", 200),
        ("GET", "/%68ealthz", 200),
        ("GET", "/healthz/", 404),
        ("GET", "/nothing", 404),
        ("GET", "/../healthz", 404),
        ("GET", "*", 404),
        ("GET", "/connz?limit=x", 400),
        ("POST", "/healthz", 405),
        ("OPTIONS", "/healthz", 405),
        ("DELETE", "/nothing", 405),
    ],
)
async def test_paths_and_methods(method: str, target: str, status: int, start: Starter) -> None:
    server = await start()
    response = await fetch(server.monitor.port, target, method=method)
    assert response.status == status
    if status == 405:
        assert response.headers["allow"] == "GET, HEAD"
    if status != 200:
        assert response.headers["content-type"] == "text/plain; charset=utf-8"


async def test_head_gives_the_headers_of_get(start: Starter) -> None:
    server = await start()
    head = await fetch(server.monitor.port, "/healthz", method="HEAD")
    body = (await fetch(server.monitor.port, "/healthz")).body
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(body))


async def test_a_connection_serves_many_requests(start: Starter) -> None:
    server = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor.port)
    for _ in range(3):
        writer.write(GET_HEALTH)
        assert (await read_response(reader)).json == {"status": "ok"}
    writer.write(GET_HEALTH + GET_HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    both = await reader.read()
    assert both.count(b'{"status":"ok"}') == 2
    writer.close()


async def test_a_connection_is_answered_one_request_in_a_turn(start: Starter) -> None:
    """However many come at once, over one connection or several: others are served in between."""
    server = await start()
    peers = [await asyncio.open_connection("127.0.0.1", server.monitor.port) for _ in range(3)]
    answered: list[int] = []
    handle, turn = server.monitor.http._handle, 0

    async def counted(request: Request) -> Answer:
        answer = await handle(request)
        answered.append(turn)
        return answer

    server.monitor.http._handle = counted
    for _, writer in peers:
        writer.write(GET_HEALTH * 50)
    while len(answered) < 150:
        turn += 1
        await asyncio.sleep(0)
    assert len(set(answered)) == 150
    for reader, writer in peers:
        received = b""
        while received.count(b'{"status":"ok"}') < 50:
            received += await reader.read(1 << 16)
        writer.close()


async def test_a_request_with_a_body_is_the_last(start: Starter) -> None:
    server = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor.port)
    writer.write(b"POST /varz HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000000000\r\n\r\nabc")
    assert b"405 Method Not Allowed" in await reader.read()
    writer.close()


@pytest.mark.parametrize("sent", [b"", b"GET /varz HTTP/1.1\r\nX-Slow:"])
async def test_a_request_that_does_not_end_is_dropped(sent: bytes, start: Starter) -> None:
    server = await start()
    server.monitor.http.bounds.head_seconds = 0.1
    reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor.port)
    writer.write(sent)
    assert await was_dropped(reader)
    writer.close()


async def test_dripping_bytes_do_not_gain_time(start: Starter) -> None:
    server = await start()
    server.monitor.http.bounds.head_seconds = 0.2
    reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor.port)
    ended = asyncio.create_task(was_dropped(reader))
    writer.write(b"GET /varz HTTP/1.1\r\nX-Slow: ")
    while not ended.done():
        writer.write(b"x")
        await asyncio.sleep(0.01)
    assert ended.result()
    writer.close()


async def test_an_idle_connection_is_closed(start: Starter) -> None:
    server = await start()
    server.monitor.http.bounds.idle_seconds = 0.1
    reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor.port)
    writer.write(GET_HEALTH)
    assert (await read_response(reader)).status == 200
    assert await was_dropped(reader)
    writer.close()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /varz HTTP/1.1\r\nX-Huge: " + b"x" * 200_000 + b"\r\n\r\n", b"431"),
        (b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: test\r\n\r\n", b"431"),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"400"),
        (b"GET /varz HTTP/1.1\r\n\r\n", b"400"),
        (b"INFO {}\r\nPING\r\n\r\n", b"400"),
    ],
)
async def test_what_is_too_large_or_no_http_is_refused(
    request_bytes: bytes, status: bytes, start: Starter
) -> None:
    server = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor.port)
    writer.write(request_bytes)
    assert (await reader.read()).startswith(b"HTTP/1.1 " + status)
    writer.close()
    assert (await fetch(server.monitor.port, "/healthz")).status == 200


async def test_one_connection_too_many_is_refused(start: Starter) -> None:
    server = await start()
    server.monitor.http.max_connections = 2
    peers = [await asyncio.open_connection("127.0.0.1", server.monitor.port) for _ in range(2)]
    for reader, writer in peers:
        writer.write(GET_HEALTH)
        assert (await read_response(reader)).status == 200
    assert (await fetch(server.monitor.port, "/healthz")).status == 503
    for _, writer in peers:
        writer.close()
        await writer.wait_closed()
    while server.monitor.http.connections:
        await asyncio.sleep(0.01)
    assert (await fetch(server.monitor.port, "/healthz")).status == 200


@asynccontextmanager
async def peer_that_does_not_read(server: Server) -> AsyncIterator[None]:
    """Asks for an answer of many megabytes and never reads it."""
    own = server.broker.interest.count
    _, client = await asyncio.open_connection("127.0.0.1", server.broker.port)
    client.write(b'CONNECT {"verbose":false}\r\n')
    client.write(b"".join(b"SUB subject.%d %d\r\n" % (number, number) for number in range(100_000)))
    while server.broker.interest.count < own + 100_000:
        await asyncio.sleep(0.01)
    reader, lazy = await asyncio.open_connection("127.0.0.1", server.monitor.port, limit=1024)
    lazy.write(b"GET /subsz?subs=1&limit=1000000 HTTP/1.1\r\nHost: test\r\n\r\n")
    await reader.readline()  # from here on nobody reads
    yield
    lazy.transport.abort()
    client.transport.abort()


async def test_a_peer_that_does_not_read_holds_up_nobody(start: Starter) -> None:
    server = await start()
    async with peer_that_does_not_read(server):
        assert (await fetch(server.monitor.port, "/healthz")).status == 200
        assert server.monitor.http.connections


async def test_a_peer_that_does_not_read_is_dropped(start: Starter) -> None:
    server = await start()
    server.monitor.http.bounds.write_seconds = 0.1
    async with peer_that_does_not_read(server):
        while server.monitor.http.connections:
            await asyncio.sleep(0.01)


@asynccontextmanager
async def many_subscriptions(server: Server) -> AsyncIterator[asyncio.StreamWriter]:
    """A client with 20,000 subscriptions, whose sids are their numbers."""
    own = server.broker.interest.count
    _, client = await asyncio.open_connection("127.0.0.1", server.broker.port)
    client.write(b'CONNECT {"verbose":false}\r\n')
    client.write(b"".join(b"SUB subject.%d %d\r\n" % (number, number) for number in range(20_000)))
    while server.broker.interest.count < own + 20_000:
        await asyncio.sleep(0.01)
    yield client
    client.transport.abort()


def check_sids(document: bytes) -> None:
    """Subscriptions with even numbers stayed, so each is listed once; the others went, and may be listed."""
    (connection,) = json.loads(document)["connections"]
    listed = [int(one["sid"]) for one in connection["subscriptions_list_detail"]]
    assert len(listed) == len(set(listed))
    assert set(range(0, 20_000, 2)) <= set(listed) <= set(range(20_000))


ODD_SIDS = b"".join(b"UNSUB %d\r\n" % number for number in range(1, 20_000, 2))


async def test_a_list_has_all_that_stay_once_although_others_go_while_it_is_made(start: Starter) -> None:
    server = await start()
    own = server.broker.interest.count
    async with many_subscriptions(server) as client:
        assert server.monitor
        answer = await server.monitor.handle(Request("GET", "/connz?subs=detail"))
        assert isinstance(answer.body, Iterable)
        pieces = iter(answer.body)
        document = b"".join(next(pieces) for _ in range(20_000))  # each item has two or three
        client.write(ODD_SIDS)
        while server.broker.interest.count > own + 10_000:
            await asyncio.sleep(0.01)
        rest = list(pieces)
        assert 1000 < document.count(b'"sid"') < 20_000
        check_sids(document + b"".join(rest))


async def test_a_long_answer_is_complete_although_interest_changes(start: Starter) -> None:
    server = await start()
    async with many_subscriptions(server) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor.port)
        writer.write(b"GET /connz?subs=detail HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        client.write(ODD_SIDS)
        whole = asyncio.StreamReader()
        whole.feed_data(head + await reader.read())
        whole.feed_eof()
        response = await read_response(whole)
        assert response.headers["transfer-encoding"] == "chunked"
        check_sids(response.body)
        writer.close()


@pytest.mark.parametrize("options", [{"token": CANARY}, {"username": "ann", "password": CANARY}])
async def test_secrets_are_in_no_answer(options: dict[str, str], start: Starter, connect: Connecter) -> None:
    server = await start(**options)
    credentials = {"token": CANARY} if "token" in options else {"user": "ann", "password": CANARY}
    await connect(server.broker.port, **credentials)
    gone = await connect(server.broker.port, **credentials)
    await gone.close()
    for target in (
        "/",
        "/varz",
        "/connz?auth=1&subs=detail&state=any",
        "/subsz?subs=1",
        "/healthz",
        f"/{CANARY[:2]}",
    ):
        assert CANARY not in (await fetch(server.monitor.port, target)).text
    shown = (await fetch(server.monitor.port, "/connz?auth=1")).json["connections"][0]
    assert shown["authorized_user"] == ("[REDACTED]" if "token" in options else "ann")


async def test_a_bug_in_an_endpoint_is_answered_and_logged(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await start()
    monkeypatch.delattr(server.broker, "accounts")
    assert (await fetch(server.monitor.port, "/varz")).status == 500
    assert (await fetch(server.monitor.port, "/healthz")).status == 200
    monkeypatch.undo()


async def test_stopping_drops_open_connections(start: Starter) -> None:
    server = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor.port)
    writer.write(GET_HEALTH)
    assert (await read_response(reader)).status == 200
    await server.monitor.stop()
    assert await was_dropped(reader)
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await fetch(server.monitor.port, "/healthz")

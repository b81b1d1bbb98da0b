"""What the console's HTTP bears: wrong methods, huge and slow bodies, hostile parameters."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress
from typing import Any

import pytest

from headrace.monitor.console.acts import ACTS
from headrace.monitor.console.console import VIEWS
from headrace.server import Server
from tests.monitor.conftest import Starter
from tests.monitor.console.conftest import StreamServer, Visit
from tests.monitor.fetch import Response, read_response

HOSTILE = [
    "",
    "0",
    "-1",
    "1.5",
    "x",
    "٣",
    "9" * 5000,
    str(2**63),
    str(2**64),
    str(2**64 - 1),
    "a" * 5000,
    "*",
    ">",
    "a.>.b",
    "..",
    "../../etc/passwd",
    "a b",
    "\r\nX: y",
    "\0",
    "\u202e",
    "<img src=x onerror=alert(1)>",
    "%00",
    "$G",
    "$SYS",
    "S",
    "KV_",
    "null",
    "'; drop",
]


HOSTILE_HEADERS = [[["a", "b\r\nc: d"]], [["", ""]], [["a:b", ""]], [["é", "x"]], [["a"]], [["a", "\0"]]]


async def raw(server: Server, data: bytes) -> Response:
    assert server.monitor is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor.port)
    try:
        writer.write(data)
        return await read_response(reader)
    finally:
        writer.close()
        with suppress(ConnectionError):  # the server does not read all of a body that is too long
            await writer.wait_closed()


@pytest.mark.parametrize(
    ("method", "path", "status", "allowed"),
    [
        ("POST", "/console", 405, "GET, HEAD"),
        ("DELETE", "/console/app.js", 405, "GET, HEAD"),
        ("POST", "/console/api/session", 405, "GET"),
        ("PUT", "/console/api/view/overview", 405, "GET"),
        ("GET", "/console/api/login", 405, "POST"),
        ("GET", "/console/api/act/publish", 405, "POST"),
        ("GET", "/console/api/logout", 405, "POST"),
        ("OPTIONS", "/console/api/act/publish", 405, "POST"),
        ("GET", "/console/api", 404, ""),
        ("GET", "/console/api/", 404, ""),
        ("GET", "/console/api/view/", 404, ""),
        ("GET", "/console/api/view/nothing", 404, ""),
        ("GET", "/console/../console/app.js", 404, ""),
        ("GET", "/console/%2e%2e/console.py", 404, ""),
        ("GET", "/console/../pages.py", 404, ""),
        ("GET", "/console//app.js", 404, ""),
        ("GET", "/consoles", 404, ""),
        ("HEAD", "/console", 200, ""),
        ("GET", "/console/views/streams.js", 200, ""),
    ],
)
async def test_methods_and_paths(start: Starter, method: str, path: str, status: int, allowed: str) -> None:
    server = await start()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    assert server.monitor is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor.port)
    writer.write(head)
    response = await read_response(reader, method=method)
    writer.close()
    assert response.status == status
    assert response.headers.get("allow", "") == allowed


async def test_the_page_is_found_with_a_slash_and_cached(start: Starter) -> None:
    server = await start()
    response = await raw(server, b"GET /console/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (response.status, response.headers["location"]) == (308, "/console")
    response = await raw(server, b"GET /console/app.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert response.headers["content-type"].startswith("text/javascript")
    head = "GET /console/app.js HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: " + response.headers["etag"]
    assert (await raw(server, f"{head}\r\n\r\n".encode())).status == 304


async def test_bodies_that_are_huge_or_slow(start: Starter, visit: Visit) -> None:
    server = await start(max_payload=1000)
    visitor = await visit(server)
    assert server.monitor is not None
    server.monitor.http.bounds.body_seconds = 0.3
    head = (
        "POST /console/api/act/publish HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"X-Headrace-Console: {visitor.token}\r\n"
    ).encode()
    response = await raw(server, head + b"Content-Length: 900000\r\n\r\n" + b" " * 900_000)
    assert response.status == 413
    assert (await raw(server, head + b"Content-Length: 9\r\n\r\n{")).status == 408
    login = b"POST /console/api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    assert (await raw(server, login + b"Content-Length: 70000\r\n\r\n" + b" " * 70_000)).status == 413
    for body in (b"", b"{", b"[]", b"null", b"5", b"\xff", b"[" * 5000, b'{"account":1}', b'{"subject":"a"}'):
        length = f"Content-Length: {len(body)}\r\n\r\n".encode()
        assert (await raw(server, head + length + body)).status == 400
        assert (await raw(server, login + length + body)).status == 400


async def test_pipelined_requests_are_answered_in_order(start: Starter) -> None:
    server = await start()
    assert server.monitor is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor.port)
    names = ["view/overview", "view/nothing", "session", "view/streams"] * 5
    writer.write(
        b"".join(
            f"GET /console/api/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for name in names[:-1]
        )
        + b"GET /console/api/view/streams HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    answers = await reader.read()
    writer.close()
    statuses = [int(part.split(b" ")[0]) for part in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [200, 404, 200, 200] * 5


async def test_hostile_parameters_are_answered(streams: StreamServer, visit: Visit) -> None:
    """Every view with values that nobody would type: an answer, and never an internal error."""
    server = await streams()
    visitor = await visit(server)
    config = json.dumps({"name": "S", "subjects": ["s.>"]})
    await visitor.act("request", account="$G", subject="$JS.API.STREAM.CREATE.S", payload=config)
    await visitor.act("publish", account="$G", subject="s.1", payload="{}")
    names = (
        *("account", "stream", "subject", "where", "from", "to", "seq", "order", "sort", "filter"),
        *("offset", "limit", "cid", "consumer", "bucket", "key"),
    )
    chance = random.Random(3)
    statuses = set()
    for view in VIEWS:
        for _ in range(40):
            given = {name: chance.choice(HOSTILE) for name in chance.sample(names, 4)}
            parameters = {"account": "$G", "stream": "S", **given} if chance.random() < 0.7 else given
            status, document = await visitor.get(f"view/{view}", params=parameters)
            statuses.add(status)
            assert status in (200, 400, 404), (view, parameters, document)
    assert statuses == {200, 400, 404}


async def test_hostile_acts_are_answered(streams: StreamServer, visit: Visit) -> None:
    server = await streams()
    visitor = await visit(server)
    fields = (
        *("account", "stream", "subject", "payload", "seq", "confirm", "filter", "keep", "consumer", "group"),
        *("bucket", "key", "value", "revision"),
    )
    wrong_types = (None, [], {}, 5, True, "x")
    chance = random.Random(5)
    for name in ACTS:
        for _ in range(30):
            body: dict[str, Any] = {
                field: chance.choice(HOSTILE) for field in chance.sample(fields, chance.randrange(9))
            }
            body |= {"account": "$G"} if chance.random() < 0.7 else {}
            if chance.random() < 0.3:
                body |= {chance.choice(fields): chance.choice(wrong_types)}
            if chance.random() < 0.3:
                body |= {
                    "headers": chance.choice([[["a", "b\r\nc: d"]], [["", ""]], [["a:b", ""]], [["é", "x"]]])
                }  # type: ignore[dict-item]
            status, document = await visitor.post(f"act/{name}", body)
            assert status in (200, 400, 404, 503), (name, body, document)
    assert (await visitor.view("streams"))["streams"] == []


async def test_no_secret_is_in_a_log_or_an_answer(start: Starter, visit: Visit, tmp_path: object) -> None:
    canary = "canary-5ecret"
    server = await start(token=canary, debug=True, trace=True)
    visitor = await visit(server)
    assert await visitor.log_in(token=canary + "x") == 401
    assert await visitor.log_in(user=canary, password=canary) == 401
    assert await visitor.log_in(token=canary) == 200
    for view in VIEWS:
        async with visitor.client.get(f"{visitor.base}/api/view/{view}") as response:
            assert canary not in await response.text()
    server.logger.flush()
    with open(f"{tmp_path}/server.logger") as log:
        text = log.read()
    assert visitor.token not in text
    assert text.count(canary) == 1  # typed as a user name: the log names users

"""A large server: 1,000 connections, 200 streams, 100,000 subjects. Its lists are paged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from headrace.server import Server
from tests.chromium import Tab
from tests.monitor.conftest import Connecter
from tests.monitor.console.conftest import StreamServer, Visit, Visitor
from tests.monitor.console.test_page import address

CONNECTIONS = 1000
STREAMS = 200
SUBJECTS = 100_000
BUDGET_SECONDS = 1.0
"""Of processor time, for the server and for the test that asks it."""


@pytest.fixture
async def large(streams: StreamServer, connect: Connecter) -> AsyncIterator[Server]:
    server = await streams()
    writers = []
    for number in range(CONNECTIONS):
        _, writer = await asyncio.open_connection("127.0.0.1", server.broker.port)
        writer.write(b'CONNECT {"verbose":false,"name":"client-%04d"}\r\nSUB a.%d 1\r\n' % (number, number))
        writers.append(writer)
    client = await connect(server.broker.port, name="maker")
    js = client.jetstream()
    for number in range(STREAMS - 1):
        await js.add_stream(name=f"S{number:03}", subjects=[f"s{number}.>"], storage="memory")
    await js.add_stream(name="WIDE", subjects=["wide.>"], storage="memory")
    writers[0].write(b"".join(b"PUB wide.%06d 2\r\n{}\r\n" % number for number in range(SUBJECTS)))
    await writers[0].drain()
    assert server.jetstream is not None
    log = server.jetstream.accounts["$G"].streams["WIDE"].log
    while len(server.broker.connections) <= CONNECTIONS or log.count < SUBJECTS:
        await asyncio.sleep(0.01)
    yield server
    for writer in writers:
        writer.close()
        await writer.wait_closed()


async def cost(visitor: Visitor, path: str) -> float:
    """Processor time of one request."""
    begin = time.process_time()
    async with visitor.client.get(f"{visitor.base}{path}") as response:
        assert response.status == 200
        if "live/" in path:
            await response.content.readuntil(b"\n\n")
        else:
            assert len(await response.read()) < 200_000
    return time.process_time() - begin


async def test_a_large_server_is_shown_page_by_page(large: Server, visit: Visit, tab: Tab) -> None:
    visitor = await visit(large)
    first = ("", "/app.js", "/style.css", "/api/session", "/api/live/overview?history=1")
    costs = {"first view": sum([await cost(visitor, path) for path in first])}
    for path in (
        "connections?sort=name",
        "connections?sort=pending&order=down&offset=950",
        "streams?sort=messages&order=down",
        "streams?filter=s1",
        "consumers?",
        "stream?account=$G&stream=WIDE",
        "subjects?account=$G&stream=WIDE&offset=99900&limit=100",
        "subjects?account=$G&stream=WIDE&filter=wide.*1",
        "messages?account=$G&stream=WIDE",
        "messages?account=$G&stream=WIDE&where=x=1",
    ):
        costs[path] = await cost(visitor, f"/api/view/{path}")
    print({path: round(seconds, 3) for path, seconds in costs.items()})
    assert all(seconds < BUDGET_SECONDS for seconds in costs.values()), costs

    await tab.open(address(large, "#/connections"))
    await tab.see("client-0000", "1 to 50 of 1,001 connections")
    await tab.click("text=Next")
    await tab.see("51 to 100 of 1,001 connections", "client-0050")
    await tab.type("input[type=search]", "client-0999")
    await tab.see("1 connection", "client-0999")
    await tab.open(address(large, "#/streams"))
    await tab.see("1 to 50 of 200 streams")
    await tab.click("text=Messages")
    await tab.see("WIDE", "100,000")
    await tab.open(address(large, "#/stream/$G/WIDE/subjects"))
    await tab.see("1 to 100 of 100,000 subjects", "wide.000099")
    await tab.type("input[type=search]", "wide.077777")
    await tab.see("1 subject")

"""Live views: events as long as somebody reads them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from headrace.monitor.console import console as console_module
from headrace.monitor.console import live as live_views
from tests.monitor.conftest import Connecter, Starter
from tests.monitor.console.conftest import Visit


async def test_a_live_view_comes_again_and_again(
    start: Starter, visit: Visit, connect: Connecter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_views, "EVENT_SECONDS", 0.05)
    server = await start()
    visitor = await visit(server)
    assert server.monitor is not None
    async with visitor.client.get(f"{visitor.base}/api/live/connections") as live:
        assert live.headers["Content-Type"] == "text/event-stream"
        for number in range(3):
            counts: list[int] = []
            while not counts or counts[-1] < number:
                event = (await live.content.readuntil(b"\n\n")).decode()
                assert event.startswith("event: view\ndata: {")
                counts.append(json.loads(event.split("data: ")[1])["total"])
            assert set(counts) <= {number - 1, number}  # some may be as old as the connection is new
            await connect(server.broker.port, name=f"c{number}")
        assert server.monitor.console.live.open == 1
    while server.monitor.console.live.open:
        await asyncio.sleep(0.05)
    assert (await visitor.get("live/messages"))[0] == 404
    assert (await visitor.get("live/nothing"))[0] == 404


async def test_a_reader_that_is_slow_gets_fewer(
    start: Starter, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has not read yet is not queued: the next view is made when the last one has left."""
    made = 0

    async def show_much(ask: Any) -> dict[str, Any]:
        nonlocal made
        made += 1
        return {"text": "x" * 200_000}

    monkeypatch.setitem(console_module.VIEWS, "overview", show_much)
    monkeypatch.setattr(live_views, "EVENT_SECONDS", 0.001)
    server = await start()
    assert server.monitor is not None
    server.monitor.http.bounds.write_seconds = 0.5
    _, writer = await asyncio.open_connection("127.0.0.1", server.monitor.port, limit=1024)
    writer.write(b"GET /console/api/live/overview HTTP/1.1\r\nHost: localhost\r\n\r\n")
    while server.monitor.http.connections == 0:
        await asyncio.sleep(0.01)
    while server.monitor.http.connections:  # it is dropped, because it does not read
        await asyncio.sleep(0.01)
    assert 1 <= made < 200
    assert server.monitor.console.live.open == 0
    writer.close()


async def test_the_number_of_live_views_is_limited(
    start: Starter, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_views, "MAX_STREAMS", 1)
    visitor = await visit(await start())
    async with visitor.client.get(f"{visitor.base}/api/live/overview") as first:
        await first.content.readuntil(b"\n\n")
        status, document = await visitor.get("live/overview")
        assert (status, document["error"]["message"]) == (503, "Too many consoles are open.")

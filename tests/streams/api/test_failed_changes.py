"""Changes that fail on disk: what was refused has not happened, also for the next start."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from tests.streams.embedded import embedded_server
from tests.streams.failing_calls import fail_directory_syncs, fail_renames
from tests.streams.peers import ask

STREAM = {"name": "S", "subjects": ["s.>"]}
CONSUMER = {"durable_name": "C", "ack_policy": "explicit", "max_deliver": 5}
MESSAGES = 10


async def create(client: Client) -> None:
    await ask(client, "STREAM.CREATE.S", STREAM)
    await change_consumer(client, CONSUMER)
    for number in range(MESSAGES):
        await client.request("s.a", b"%d" % number, timeout=30)


async def change_consumer(client: Client, config: dict[str, Any]) -> dict[str, Any]:
    return await ask(client, "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})


async def shown(client: Client) -> tuple[int, int, int]:
    stream, consumer = await ask(client, "STREAM.INFO.S"), await ask(client, "CONSUMER.INFO.S.C")
    return stream["config"]["max_msgs"], stream["state"]["messages"], consumer["config"]["max_deliver"]


async def test_a_refused_update_is_not_there_after_a_restart(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await create(client)
        with pytest.MonkeyPatch.context() as patch:
            fail_directory_syncs(patch)
            refused = await ask(client, "STREAM.UPDATE.S", {**STREAM, "max_msgs": 1})
            assert refused["error"]["description"] == "input/output error"
            assert "error" in await change_consumer(client, {**CONSUMER, "max_deliver": 7})
        assert await shown(client) == (-1, MESSAGES, 5)
        await client.close()
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        assert await shown(client) == (-1, MESSAGES, 5)
        await client.close()


async def test_an_update_that_can_neither_be_synced_nor_undone_is_used_and_reported(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await create(client)
        with pytest.MonkeyPatch.context() as patch:
            fail_directory_syncs(patch)
            fail_renames(patch, "meta.json.old")
            assert "error" not in await ask(client, "STREAM.UPDATE.S", {**STREAM, "max_msgs": 5})
            assert "error" not in await change_consumer(client, {**CONSUMER, "max_deliver": 7})
        assert await shown(client) == (5, 5, 7)
        assert server.log().count("its new configuration may be lost in a power failure") == 2
        await client.close()
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        assert await shown(client) == (5, 5, 7)
        await client.close()


async def test_a_refused_consumer_is_not_there_after_a_restart(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await ask(client, "STREAM.CREATE.S", STREAM)
        await change_consumer(client, CONSUMER)
        await ask(client, "CONSUMER.DELETE.S.C")
        with pytest.MonkeyPatch.context() as patch:
            fail_directory_syncs(patch)
            assert "error" in await change_consumer(client, CONSUMER)
        await client.close()
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        assert (await ask(client, "CONSUMER.NAMES.S"))["consumers"] == []
        await client.close()


async def test_a_delete_that_fails_leaves_everything_working(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await create(client)
        with pytest.MonkeyPatch.context() as patch:
            fail_renames(patch, os.path.join("streams", "S"))
            for what in ("CONSUMER.DELETE.S.C", "STREAM.DELETE.S"):
                refused = await ask(client, what)
                assert refused["error"]["description"] == "input/output error", what
        assert await shown(client) == (-1, MESSAGES, 5)
        assert json.loads((await client.request("s.a", b"more", timeout=30)).data)["seq"] == MESSAGES + 1
        inbox = await client.subscribe(client.new_inbox())
        await client.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", b"", reply=inbox.subject)
        assert (await inbox.next_msg(timeout=30)).data == b"0"
        assert (await ask(client, "CONSUMER.DELETE.S.C"))["success"]
        assert (await ask(client, "STREAM.DELETE.S"))["success"]
        assert (await ask(client, "STREAM.CREATE.S", STREAM))["state"]["messages"] == 0
        await client.close()


async def test_a_delete_that_cannot_be_synced_is_done_and_says_so(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await create(client)
        with pytest.MonkeyPatch.context() as patch:
            fail_directory_syncs(patch)
            answer = await ask(client, "STREAM.DELETE.S")
        assert answer["error"]["description"] == "stream deleted but not synced: input/output error"
        assert (await ask(client, "STREAM.NAMES"))["streams"] is None
        await client.close()
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        assert (await ask(client, "STREAM.NAMES"))["streams"] is None
        await client.close()

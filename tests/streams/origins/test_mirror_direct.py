"""Mirrors that answer direct gets for their origin: never with less than the origin has."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from headrace.streams.origins import follower
from headrace.streams.origins.follower import Follower
from tests.streams.embedded import embedded_server
from tests.streams.peers import API, ask

REQUESTS = 40
"""A queue group picks who answers; of this many requests each of the two answers some."""


async def create_origin_and_mirror(client: Client, **config: Any) -> None:
    origin_config = {"name": "O", "subjects": ["k.>"], "allow_direct": True, **config}
    await ask(client, "STREAM.CREATE.O", origin_config)
    await client.request("k.1", b"1", timeout=30)
    mirror_config = {"name": "M", "mirror": {"name": "O"}, "mirror_direct": True, **config}
    assert "error" not in await ask(client, "STREAM.CREATE.M", mirror_config)


def get(client: Client, key: str) -> list[asyncio.Task[Any]]:
    request = client.request
    return [
        asyncio.ensure_future(request(f"{API}DIRECT.GET.O.{key}", b"", timeout=30)) for _ in range(REQUESTS)
    ]


async def answerers(requests: list[asyncio.Task[Any]], value: bytes) -> set[str]:
    messages = await asyncio.gather(*requests)
    assert {message.data for message in messages} == {value}
    return {message.headers["Nats-Stream"] for message in messages}


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_a_mirror_does_not_answer_before_it_has_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: str
) -> None:
    monkeypatch.setattr(follower, "FIRST_DELAY_SECONDS", 3600)
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await create_origin_and_mirror(client, storage=storage)
        assert await answerers(get(client, "k.1"), b"1") == {"O"}
        await client.close()


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_a_mirror_that_has_fallen_behind_answers_when_it_has_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: str
) -> None:
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await create_origin_and_mirror(client, storage=storage)
        async with asyncio.timeout(30):
            while await answerers(get(client, "k.1"), b"1") != {"O", "M"}:
                await asyncio.sleep(0.01)
        with monkeypatch.context() as asleep:
            asleep.setattr(Follower, "wake", lambda self: None)
            await client.request("k.2", b"2", timeout=30)
            requests = get(client, "k.2")
            while not any(request.done() for request in requests):
                await asyncio.sleep(0.01)
            await ask(client, "INFO")  # all requests have arrived by now
        await client.request("k.3", b"3", timeout=30)
        assert await answerers(requests, b"2") == {"O", "M"}
        await client.close()


async def test_a_mirror_whose_origin_is_gone_answers_with_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await create_origin_and_mirror(client)
        async with asyncio.timeout(30):
            while await answerers(get(client, "k.1"), b"1") != {"O", "M"}:
                await asyncio.sleep(0.01)
        with monkeypatch.context() as asleep:
            asleep.setattr(Follower, "wake", lambda self: None)
            await client.request("k.1", b"2", timeout=30)
            requests = get(client, "k.1")
            while not any(request.done() for request in requests):
                await asyncio.sleep(0.01)
            assert (await ask(client, "STREAM.DELETE.O"))["success"]
        assert {message.data for message in await asyncio.gather(*requests)} == {b"1", b"2"}
        assert await answerers(get(client, "k.1"), b"1") == {"M"}
        await client.close()

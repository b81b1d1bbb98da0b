"""Looks at a server from the side of NATS."""

from __future__ import annotations

import asyncio
from typing import Any

import nats
from nats.js.api import RawStreamMsg


async def _with_client(url: str, use: Any, options: dict[str, Any]) -> Any:
    client = await nats.connect(url, **options)
    try:
        return await use(client.jetstream())
    finally:
        await client.close()


def run(url: str, use: Any, **options: Any) -> Any:
    """The result of `await use(jetstream)`."""
    return asyncio.run(_with_client(url, use, options))


def add_stream(
    url: str, name: str = "ORDERS", subjects: str = "orders.>", login: Any = None, **config: Any
) -> None:
    run(url, lambda streams: streams.add_stream(name=name, subjects=[subjects], **config), **(login or {}))


def message(url: str, seq: int, stream: str = "ORDERS", **login: Any) -> RawStreamMsg:
    return run(url, lambda streams: streams.get_msg(stream, seq), **login)


def count(url: str, stream: str = "ORDERS", **login: Any) -> int:
    return run(url, lambda streams: streams.stream_info(stream), **login).state.messages

"""Messages that go before they are acknowledged count no longer against what a consumer may have open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from nats.aio.client import Client

from tests.streams.peers import Peers, ask

MOST = 5
SECOND = 1_000_000_000


async def publish(client: Client) -> None:
    for _ in range(MOST):
        await client.request("v.1", b"new", timeout=30)


async def delete(client: Client) -> None:
    for seq in range(1, MOST + 1):
        await ask(client, "STREAM.MSG.DELETE.V", {"seq": seq})


async def lower_the_limit(client: Client) -> None:
    await client.request("v.2", b"", timeout=30)
    await ask(client, "STREAM.UPDATE.V", {"name": "V", "subjects": ["v.*"], "max_msgs": 1})


async def shorten_the_age(client: Client) -> None:
    """Only now: messages that were too old before they are fetched would prove nothing."""
    age = {"max_age": SECOND, "duplicate_window": SECOND}
    await ask(client, "STREAM.UPDATE.V", {"name": "V", "subjects": ["v.*"], **age})


async def wait(client: Client) -> None:
    await asyncio.sleep(0)


Ways = list[tuple[str, dict[str, Any], Callable[[Client], Awaitable[None]]]]
WAYS: Ways = [
    ("limit", {"max_msgs": MOST}, publish),
    ("limit per subject", {"max_msgs_per_subject": MOST}, publish),
    ("delete", {}, delete),
    ("lower limit", {}, lower_the_limit),
    ("age", {}, shorten_the_age),
    ("time to live", {"allow_msg_ttl": True}, wait),
]


@pytest.mark.parametrize(("config", "remove"), [way[1:] for way in WAYS], ids=[way[0] for way in WAYS])
async def test_what_is_gone_is_terminated(
    peers: Peers, config: dict[str, Any], remove: Callable[[Client], Awaitable[None]]
) -> None:
    await asyncio.gather(*(check_terminated(client, config, remove) for client in (peers.real, peers.ours)))


async def check_terminated(
    client: Client, config: dict[str, Any], remove: Callable[[Client], Awaitable[None]]
) -> None:
    ended = await client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.V.c")
    await ask(client, "STREAM.CREATE.V", {"name": "V", "subjects": ["v.*"], **config})
    consumer = {"durable_name": "c", "ack_policy": "explicit", "max_ack_pending": MOST}
    await ask(client, "CONSUMER.DURABLE.CREATE.V.c", {"stream_name": "V", "config": consumer})
    subscription = await client.jetstream(timeout=30).pull_subscribe_bind("c", "V")
    for _ in range(MOST):
        headers = {"Nats-TTL": "3s"} if "allow_msg_ttl" in config else None
        await client.request("v.1", b"old", timeout=30, headers=headers)
    # One by one: nats-server gives no more at once than its consumer has heard of so far.
    assert [len(await subscription.fetch(1, timeout=30)) for _ in range(MOST)] == [1] * MOST
    await remove(client)
    advisories = [await ended.next_msg(timeout=30) for _ in range(MOST)]
    assert all(b'"reason":"Unacknowledged message was deleted"' in one.data for one in advisories)
    waiting = asyncio.ensure_future(subscription.fetch(1, timeout=30))
    await publish(client)
    assert len(await waiting) == 1

"""Interest and work queue streams: messages go when consumers are done with them, and not before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from tests.streams.peers import Peers, ask, client_of, jetstream_server

POLLS, POLL_SECONDS = 2000, 0.02


async def create(peers: Peers, retention: str, **config: Any) -> None:
    body = {"name": "R", "subjects": ["r.*"], "retention": retention, **config}
    await peers.ask("STREAM.CREATE.R", body)


async def add_consumer(peers: Peers, name: str, subject: str = "") -> Any:
    config = {"durable_name": name, "ack_policy": "explicit", "filter_subject": subject}
    body = {"stream_name": "R", "config": config}
    for client in (peers.real, peers.ours):
        answer = await ask(client, f"CONSUMER.DURABLE.CREATE.R.{name}", body)
    return answer


async def settled_state(peers: Peers, messages: int) -> None:
    """Both servers must come to have that many messages, and then agree on the rest of the state."""
    for client in (peers.real, peers.ours):
        for _ in range(POLLS):
            if (await ask(client, "STREAM.INFO.R"))["state"]["messages"] == messages:
                break
            await asyncio.sleep(POLL_SECONDS)
    state = (await peers.ask("STREAM.INFO.R", {"deleted_details": True}))["state"]
    assert state["messages"] == messages


async def take(client: Client, consumer: str, most: int) -> int:
    """How many there were: nats-server gives no more at once than its consumer has heard of so far."""
    subscription = await client.jetstream(timeout=30).pull_subscribe_bind(consumer, "R")
    messages = await subscription.fetch(most, timeout=30)
    for message in messages:
        await message.ack_sync(timeout=30)
    await subscription.unsubscribe()
    return len(messages)


async def take_both(peers: Peers, consumer: str, count: int) -> None:
    for client in (peers.real, peers.ours):
        left = count
        while left:
            left -= await take(client, consumer, left)


@pytest.mark.parametrize(("retention", "kept"), [("interest", 0), ("workqueue", 3)])
async def test_without_consumers_interest_keeps_nothing_and_a_work_queue_everything(
    peers: Peers, retention: str, kept: int
) -> None:
    await create(peers, retention)
    for number in range(3):
        assert (await peers.publish(f"r.{number}", "x"))["seq"] == number + 1
    await settled_state(peers, kept)


async def test_a_message_of_an_interest_stream_stays_until_all_consumers_had_it(peers: Peers) -> None:
    await create(peers, "interest")
    await add_consumer(peers, "one")
    await add_consumer(peers, "two", "r.1")
    for number in range(4):
        await peers.publish(f"r.{number % 2}", "x")
    await settled_state(peers, 4)
    await take_both(peers, "one", 4)
    await settled_state(peers, 2)
    await take_both(peers, "two", 1)
    await settled_state(peers, 1)
    await peers.ask("CONSUMER.DELETE.R.two")
    await settled_state(peers, 0)


async def test_a_work_queue_gives_each_message_once(peers: Peers) -> None:
    await create(peers, "workqueue")
    await add_consumer(peers, "zero", "r.0")
    await add_consumer(peers, "one", "r.1")
    for number in range(6):
        await peers.publish(f"r.{number % 3}", "x")
    await take_both(peers, "zero", 2)
    await settled_state(peers, 4)
    await take_both(peers, "one", 1)
    await settled_state(peers, 3)
    await peers.ask("CONSUMER.DELETE.R.one")
    await settled_state(peers, 3)


@pytest.mark.parametrize("retention", ["interest", "workqueue"])
async def test_what_was_acknowledged_is_gone_after_a_kill(tmp_path: Path, retention: str) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            body = {"name": "R", "subjects": ["r.*"], "retention": retention}
            await ask(client, "STREAM.CREATE.R", body)
            # Delivered is written before acknowledged: what is killed in between comes again after ack_wait.
            config: dict[str, object] = {"durable_name": "one", "ack_policy": "explicit"}
            config |= {"filter_subject": "r.1", "ack_wait": 200_000_000}
            await ask(client, "CONSUMER.DURABLE.CREATE.R.one", {"stream_name": "R", "config": config})
            for _ in range(10):
                await client.request("r.1", b"x", timeout=30)
            await take(client, "one", 4)
            server.process.kill()
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            state = (await ask(client, "STREAM.INFO.R"))["state"]
            assert 6 <= state["messages"] <= 10
            assert state["last_seq"] == 10
            while left := (await ask(client, "STREAM.INFO.R"))["state"]["messages"]:
                await take(client, "one", left)


@pytest.mark.parametrize(("is_damaged", "kept"), [(False, 1), (True, 2)])
async def test_what_nobody_is_interested_in_goes_at_the_start_unless_a_consumer_cannot_be_read(
    tmp_path: Path, is_damaged: bool, kept: int
) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await ask(client, "STREAM.CREATE.R", {"name": "R", "subjects": ["r.*"], "retention": "interest"})
            for name in ("1", "2"):
                config = {"durable_name": name, "ack_policy": "explicit", "filter_subject": f"r.{name}"}
                body = {"stream_name": "R", "config": config}
                await ask(client, f"CONSUMER.DURABLE.CREATE.R.{name}", body)
                await client.request(f"r.{name}", b"x", timeout=30)
    (meta,) = tmp_path.glob("jetstream/$G/streams/R/consumers/2/meta.json")
    if is_damaged:
        meta.write_bytes(b"damaged")
    else:
        meta.unlink()  # as if it had never been there
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            assert (await ask(client, "STREAM.INFO.R"))["state"]["messages"] == kept

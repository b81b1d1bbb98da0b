"""One request that concerns very many messages which await acknowledgements: it is done in slices."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from headrace.streams import slices
from headrace.streams.consumers import acknowledgements, redelivery
from tests.streams.embedded import embedded_server
from tests.streams.peers import Peers, ask

MANY = 9_000
"""More than four slices."""


@asynccontextmanager
async def delivered(client: Client, ack_policy: str, **config: Any) -> AsyncIterator[list[str]]:
    """The replies to all messages of a stream, which were delivered and await acknowledgements."""
    await ask(client, "STREAM.CREATE.P", {"name": "P", "subjects": ["p.*"], "storage": "memory", **config})
    consumer = {"durable_name": "c", "ack_policy": ack_policy, "max_ack_pending": -1}
    await ask(client, "CONSUMER.DURABLE.CREATE.P.c", {"stream_name": "P", "config": consumer})
    for number in range(MANY):
        await client.publish("p.1", b"%d" % number)
    await client.flush()
    inbox = await client.subscribe("got", pending_msgs_limit=2 * MANY)
    request = json.dumps({"batch": MANY, "expires": 30_000_000_000}).encode()
    await client.publish("$JS.API.CONSUMER.MSG.NEXT.P.c", request, reply="got")
    yield [(await inbox.next_msg(timeout=30)).reply for _ in range(MANY)]
    await ask(client, "STREAM.DELETE.P")


async def info(client: Client) -> dict[str, Any]:
    return await ask(client, "CONSUMER.INFO.P.c")


@pytest.mark.parametrize("retention", ["limits", "interest"])
async def test_one_acknowledgement_ends_the_wait_of_all_before_it(peers: Peers, retention: str) -> None:
    for client in (peers.real, peers.ours):
        async with delivered(client, "all", retention=retention) as replies:
            await client.request(replies[-3], b"", timeout=30)
            told = await info(client)
            assert told["num_ack_pending"] == 2
            assert told["ack_floor"]["stream_seq"] == told["ack_floor"]["consumer_seq"] == MANY - 2
            while retention == "interest" and (await ask(client, "STREAM.INFO.P"))["state"]["messages"] != 2:
                await asyncio.sleep(0.01)


async def test_acknowledgements_that_overtake_each_other_end_in_the_last(peers: Peers) -> None:
    """The second is sent while the first is under way."""
    for client in (peers.real, peers.ours):
        async with delivered(client, "all") as replies:
            answers = [client.request(replies[at], b"", timeout=30) for at in (-100, 5, -1, -50)]
            await asyncio.gather(*answers)
            told = await info(client)
            assert (told["num_ack_pending"], told["ack_floor"]["stream_seq"]) == (0, MANY)


async def test_a_purge_is_answered_when_nothing_of_it_is_pending(peers: Peers) -> None:
    for client in (peers.real, peers.ours):
        async with delivered(client, "explicit"):
            assert (await ask(client, "STREAM.PURGE.P", {"keep": 10}))["purged"] == MANY - 10
            assert (await info(client))["num_ack_pending"] == 10


async def test_messages_that_are_due_together_are_redelivered_in_order_a_part_in_each_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    find = redelivery.Redelivery._find_expired

    def counted(self: redelivery.Redelivery, now: int) -> tuple[list[int], int]:
        expired, due = find(self, now)
        found.append(len(expired))
        return expired, due

    monkeypatch.setattr(redelivery.Redelivery, "_find_expired", counted)
    async with embedded_server(tmp_path) as embedded:
        client = await embedded.client()
        async with delivered(client, "explicit"):
            inbox = await client.subscribe("again", pending_msgs_limit=2 * MANY)
            request = json.dumps({"batch": MANY, "expires": 30_000_000_000}).encode()
            await client.publish("$JS.API.CONSUMER.MSG.NEXT.P.c", request, reply="again")
            await client.flush()
            core = embedded.server.jetstream.accounts["$G"].streams["P"].consumers["c"].core
            for seq, (consumer_seq, time) in list(core.ledger.pending.items()):
                core.ledger.pending[seq] = consumer_seq, time - core.config.ack_wait
            core.alarm.set("acks", core.now())
            again = [(await inbox.next_msg(timeout=30)).metadata for _ in range(MANY)]
            assert [message.sequence.stream for message in again] == list(range(1, MANY + 1))
            assert {message.num_delivered for message in again} == {2}
        await client.close()
    assert found[:5] == [redelivery.MOST_AT_ONCE] * 4 + [MANY - 4 * redelivery.MOST_AT_ONCE]


async def test_a_restarted_consumer_is_not_acknowledged_by_what_came_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer is reset while an acknowledgement of very many is under way, one in a turn."""
    monkeypatch.setattr(acknowledgements, "STEP_RECORDS", 1)
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0)
    async with embedded_server(tmp_path) as embedded:
        client = await embedded.client()
        async with delivered(client, "all") as replies:
            inbox = await client.subscribe("again", pending_msgs_limit=2 * MANY)
            await client.publish(replies[-1], b"")
            await client.publish("$JS.API.CONSUMER.RESET.P.c", b'{"seq":1}', reply="reset")
            await client.publish("$JS.API.CONSUMER.MSG.NEXT.P.c", b'{"batch":100}', reply="again")
            for _ in range(100):
                await inbox.next_msg(timeout=30)
            told = await info(client)
            assert (told["num_ack_pending"], told["ack_floor"]["consumer_seq"]) == (100, 0)
        await client.close()

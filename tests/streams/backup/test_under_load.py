"""Many messages, backed up while clients publish, fetch and delete, and restored on another server."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from tests.streams.backup.archives import SECONDS, Backup, backup, entries, publish_many, restore
from tests.streams.peers import ask, client_of, jetstream_server

MESSAGES = 20_000
MANY_MESSAGES = 1_000_000
BATCH = 5_000
HOUR = 3600 * 10**9
PULLED = 500


async def fill(client: Client, count: int) -> None:
    """Their payloads say their sequence."""
    for start in range(1, count + 1, BATCH):
        for number in range(start, min(start + BATCH, count + 1)):
            await client.publish(f"s.{number % 1000}", b'{"number": %d, "text": "some more text"}' % number)
        await client.flush(timeout=60)
    while (await ask(client, "STREAM.INFO.S"))["state"]["messages"] < count:
        await asyncio.sleep(0.05)


async def add_consumer(client: Client) -> None:
    config = {"durable_name": "C", "name": "C", "ack_policy": "explicit", "ack_wait": HOUR}
    await ask(client, "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
    subscription = await client.jetstream(timeout=SECONDS).pull_subscribe_bind("C", "S")
    fetched = await subscription.fetch(PULLED, timeout=SECONDS)
    for message in fetched[::3]:
        await message.ack()
    await fetched[1].ack_sync()


async def keep_busy(client: Client, count: int) -> None:
    """Publish, and delete old messages, until cancelled."""
    jetstream = client.jetstream(timeout=SECONDS)
    seq = 1000
    while True:
        await publish_many(client, "s", 200)
        assert await jetstream.delete_msg("S", seq)
        seq += 7
        if seq > count:
            return


async def position(client: Client) -> dict[str, Any]:
    info = await ask(client, "CONSUMER.INFO.S.C")
    kept = ("delivered", "ack_floor", "num_ack_pending", "num_redelivered")
    shown = {key: info[key] for key in kept}
    for key in kept[:2]:
        shown[key].pop("last_active", None)
    return shown


def check_contents(made: Backup, count: int) -> None:
    """All that was there, as it was; only what was deleted is missing."""
    last_seq = made.state["last_seq"]
    found = entries(made.plain)
    assert found[-1] == (b"", 0, b"", b"")
    stored = found[2:-1]
    seqs = [seq for _, seq, _, _ in stored]
    assert seqs == sorted(set(seqs))
    assert seqs[-1] == last_seq >= count
    missing = set(range(1, last_seq + 1)) - set(seqs)
    assert missing <= set(range(1000, count + 1, 7)), "only these were deleted"
    for subject, seq, headers, body in stored:
        if seq <= count:
            assert (subject, headers) == (b"s.%d" % (seq % 1000), b"")
            assert json.loads(body)["number"] == seq


async def back_up_under_load(directory: Path, count: int) -> None:
    with (
        jetstream_server("headrace", directory / "a") as one,
        jetstream_server("headrace", directory / "b") as other,
    ):
        async with client_of(one) as client, client_of(one) as busy, client_of(other) as target:
            await ask(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
            await fill(client, count)
            await add_consumer(client)
            where = await position(client)
            load = asyncio.create_task(keep_busy(busy, count))
            await asyncio.sleep(0)
            made = await backup(client, "S", chunk_size=65536)
            load.cancel()
            with suppress(asyncio.CancelledError):
                await load
            check_contents(made, count)
            answer = await restore(target, made)
            assert answer["state"]["last_seq"] == made.state["last_seq"]
            assert await position(target) == where
            again = await backup(target, "S")
            assert entries(again.plain)[2:] == entries(made.plain)[2:], "the same messages"
            for server in (one, other):
                assert "[WRN]" not in server.log()


async def test_messages_that_are_backed_up_under_load_are_the_same_after_a_restore(tmp_path: Path) -> None:
    await back_up_under_load(tmp_path, MESSAGES)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_a_million_messages_that_are_backed_up_under_load_are_the_same(tmp_path: Path) -> None:
    await back_up_under_load(tmp_path, MANY_MESSAGES)

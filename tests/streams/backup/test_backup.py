"""Backup and restore, between headrace and nats-server in every direction."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from tests.streams.backup.archives import (
    SECONDS,
    Backup,
    Failed,
    backup,
    delete,
    entries,
    messages,
    publish_many,
    restore,
)
from tests.streams.conftest import wait_until_removed
from tests.streams.peers import SECOND, Peers, ask, client_of, jetstream_server

STREAM = {"name": "S", "subjects": ["s.>"]}
HOUR = 3600 * SECOND


async def create(client: Client, **config: Any) -> None:
    answer = await ask(client, "STREAM.CREATE.S", {**STREAM, **config})
    assert "error" not in answer, answer


async def consumer(client: Client, name: str, **config: Any) -> None:
    config = {"durable_name": name, "name": name, "ack_policy": "explicit", "ack_wait": HOUR, **config}
    answer = await ask(client, f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
    assert "error" not in answer, answer


async def with_everything(client: Client) -> None:
    """Headers, deleted messages at all places, consumers with everything that they can have."""
    await create(client, allow_msg_ttl=True, max_msgs_per_subject=50)
    jetstream = client.jetstream(timeout=SECONDS)
    for number in range(300):
        headers = {"Nats-Msg-Id": f"id {number}"} if number % 3 == 0 else None
        await jetstream.publish(f"s.{number % 7}", b"%d " % number * (number % 50), headers=headers)
    await jetstream.publish("s.ttl", b"stays an hour", headers={"Nats-TTL": "1h"})
    await jetstream.publish("s.empty", b"")
    await jetstream.publish("s.last", b"deleted")
    for seq in (1, 2, 100, 101, 303):
        assert await jetstream.delete_msg("S", seq)
    await consumer(client, "C")
    await consumer(client, "filtered", filter_subject="s.3", ack_policy="all")
    await consumer(client, "push", deliver_subject="nobody", ack_policy="none")
    await consumer(client, "unused", pause_until="2999-01-01T00:00:00Z", metadata={"a": "b"})
    subscription = await jetstream.pull_subscribe_bind("C", "S")
    fetched = await subscription.fetch(20, timeout=SECONDS)
    for place in (0, 1, 2, 3, 8):
        await fetched[place].ack_sync()
    await client.request(fetched[5].reply, b"-NAK", timeout=SECONDS)
    (again,) = await subscription.fetch(1, timeout=SECONDS)
    assert again.metadata.num_delivered == 2
    filtered = await jetstream.pull_subscribe_bind("filtered", "S")
    await (await filtered.fetch(5, timeout=SECONDS))[3].ack_sync()
    await client.flush()


async def emptied(client: Client) -> None:
    await create(client)
    await publish_many(client, "s", 10)
    await ask(client, "STREAM.PURGE.S")
    await consumer(client, "C")


async def never_filled(client: Client) -> None:
    await create(client, first_seq=1000)


async def tail_deleted(client: Client) -> None:
    await create(client)
    await publish_many(client, "s", 10)
    for seq in (9, 10):
        await client.jetstream(timeout=SECONDS).delete_msg("S", seq)


async def work_queue(client: Client) -> None:
    await create(client, retention="workqueue")
    await publish_many(client, "s", 10)
    await consumer(client, "C")
    subscription = await client.jetstream(timeout=SECONDS).pull_subscribe_bind("C", "S")
    for message in (await subscription.fetch(6, timeout=SECONDS))[::2]:
        await message.ack_sync()


async def in_memory(client: Client) -> None:
    await create(client, storage="memory")
    await publish_many(client, "s", 10)
    await consumer(client, "C")
    subscription = await client.jetstream(timeout=SECONDS).pull_subscribe_bind("C", "S")
    await (await subscription.fetch(6, timeout=SECONDS))[2].ack_sync()


async def compressed(client: Client) -> None:
    await create(client, compression="s2", metadata={"who": "me"})
    await publish_many(client, "s", 10)


async def delete_for_good(peers: Peers, client: Client, store: Path) -> None:
    """nats-server removes files after its answer; a stream of the same name finds what is left."""
    await delete(client, "S")
    if client is not peers.real:
        return
    await wait_until_removed(store / "real" / "jetstream" / "$G" / "streams", ["S"])


CASES = [with_everything, emptied, never_filled, tail_deleted, work_queue, in_memory, compressed]
INFO = ["delivered", "ack_floor", "num_ack_pending", "num_redelivered", "num_pending", "config", "name"]


async def describe(client: Client) -> dict[str, Any]:
    """All that a client can see of the stream."""
    answer = json.loads(
        (await client.request("$JS.API.STREAM.INFO.S", b'{"deleted_details": true}', timeout=SECONDS)).data
    )
    assert "error" not in answer, answer
    listed = json.loads((await client.request("$JS.API.CONSUMER.LIST.S", b"{}", timeout=SECONDS)).data)
    consumers = {}
    for one in listed["consumers"]:
        shown = {key: one.get(key) for key in INFO}
        for position in ("delivered", "ack_floor"):
            shown[position].pop("last_active", None)
        consumers[one["name"]] = shown
    for info in (answer, *consumers.values()):
        metadata = info["config"].get("metadata", {})
        info["config"]["metadata"] = {k: v for k, v in metadata.items() if not k.startswith("_nats.")}
    state = answer["state"]
    if state["messages"] < state["last_seq"]:
        del state["last_ts"]  # of a deleted message nobody knows the time
    return {
        "config": answer["config"],
        "state": state,
        "consumers": consumers,
        "messages": await messages(client, "S"),
    }


@pytest.mark.parametrize(("made_on", "restored_on"), [("ours", "ours"), ("real", "ours"), ("ours", "real")])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_a_stream_is_the_same_after_backup_and_restore(
    peers: Peers, store: Path, case: Callable[[Client], Awaitable[None]], made_on: str, restored_on: str
) -> None:
    source: Client = getattr(peers, made_on)
    target: Client = getattr(peers, restored_on)
    await case(source)
    before = await describe(source)
    made = await backup(source, "S", chunk_size=1024)
    await delete_for_good(peers, source, store)
    answer = await restore(target, made, chunk=777)
    after = await describe(target)
    assert after == before
    assert answer["state"]["messages"] == before["state"]["messages"]


async def test_both_servers_write_the_same_archive(peers: Peers) -> None:
    """But for times."""
    made = []
    for client in (peers.real, peers.ours):
        await create(client)
        await publish_many(client, "s", 3)
        await consumer(client, "C")
        found = entries((await backup(client, "S")).plain)
        state, archived = json.loads(found[0][3]), json.loads(found[1][3])
        state["first_ts"] = state["last_ts"] = ""
        made.append(([one[:3] for one in found[:2]], state, archived, found[2:]))
    assert made[0] == made[1]


async def test_a_restored_stream_and_its_consumers_go_on(peers: Peers) -> None:
    client = peers.ours
    await with_everything(client)
    made = await backup(client, "S")
    await delete(client, "S")
    await restore(client, made)
    jetstream = client.jetstream(timeout=SECONDS)
    ack = await jetstream.publish("s.1", b"new")
    assert ack.seq == 304
    # The ids of the last two minutes are known, also on nats-server.
    repeated = await jetstream.publish("s.1", b"again", headers={"Nats-Msg-Id": "id 297"})
    assert (repeated.duplicate, repeated.seq) == (True, 298)
    subscription = await jetstream.pull_subscribe_bind("C", "S")
    (following,) = await subscription.fetch(1, timeout=SECONDS)
    assert following.metadata.sequence.stream == 23
    assert following.metadata.sequence.consumer == 22


async def test_a_restored_stream_is_still_there_after_a_restart(tmp_path: Path) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await with_everything(client)
            made = await backup(client, "S")
            await delete(client, "S")
            await restore(client, made)
            before = await describe(client)
        server.process.kill()
        server.process.wait()
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            assert await describe(client) == before


async def test_consumers_can_be_left_out(peers: Peers, store: Path) -> None:
    for client in (peers.real, peers.ours):
        await with_everything(client)
        made = await backup(client, "S", no_consumers=True)
        assert made.state["consumer_count"] == 4
        await delete_for_good(peers, client, store)
        answer = await restore(client, made)
        assert answer["state"]["consumer_count"] == 0


@pytest.mark.parametrize("chunk_size", [-1, 0, 1, 1024, 5000, 10**9])
async def test_chunks_have_the_size_that_was_asked_for(peers: Peers, chunk_size: int) -> None:
    sizes = []
    for client in (peers.real, peers.ours):
        await create(client)
        for number in range(40):
            await client.jetstream(timeout=SECONDS).publish("s.x", random.Random(number).randbytes(4096))
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox)
        asked = {"deliver_subject": inbox, "chunk_size": chunk_size, "window_size": -1}
        await client.request("$JS.API.STREAM.SNAPSHOT.S", json.dumps(asked).encode(), timeout=SECONDS)
        found = []
        while (message := await subscription.next_msg(timeout=SECONDS)).data:
            found.append((len(message.data), message.reply.rpartition(".")[0].rpartition(".")[2]))
            if message.reply:
                assert message.reply.startswith("$JS.SNAPSHOT.ACK.S.")
                assert message.reply.rpartition(".")[2] == str(len(found))
                await client.publish(message.reply, b"")
        assert all(one == found[0] for one in found[:-1])
        sizes.append((found[0][0] if len(found) > 1 else 0, message.headers))
    assert sizes[0] == sizes[1]


async def test_publishing_and_removing_meanwhile_changes_nothing_of_the_state(peers: Peers) -> None:
    """Nothing above the last sequence, every message in it is one that was there, and none twice."""
    client = peers.ours
    await create(client, max_msgs=3000)
    await publish_many(client, "s", 3000)
    known = {seq: data for seq, _, _, data, _ in await messages(client, "S")}
    publishing = asyncio.create_task(publish_many(client, "s", 2000))
    made = await backup(client, "S", chunk_size=1024, window_size=1024)
    await publishing
    await delete(client, "S")
    answer = await restore(client, made)
    assert answer["state"]["last_seq"] == made.state["last_seq"]
    first = made.state["first_seq"]
    found = {seq: data for seq, _, _, data, _ in await messages(client, "S")}
    assert max(found) <= made.state["last_seq"]
    assert min(found) >= first
    for seq, data in found.items():
        assert known.get(seq, data) == data
    missing = set(range(first, made.state["last_seq"] + 1)) - set(found)
    assert not missing or max(missing) < min(found), "only what left at the head may be missing"


async def test_several_snapshots_at_once(peers: Peers) -> None:
    client = peers.ours
    await with_everything(client)
    made = await asyncio.gather(*(backup(client, "S", chunk_size=1024) for _ in range(8)))
    contents = {one.plain.partition(b"consumers/")[2] for one in made}
    assert all(one.state == made[0].state for one in made)
    assert len({len(one) for one in contents}) == 1


async def test_a_receiver_that_acknowledges_nothing_is_left(peers: Peers) -> None:
    client = peers.ours
    await create(client)
    await publish_many(client, "s", 500)
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    asked = {"deliver_subject": inbox, "chunk_size": 1024, "window_size": 2048}
    completed = await client.subscribe("$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S")
    await client.request("$JS.API.STREAM.SNAPSHOT.S", json.dumps(asked).encode(), timeout=SECONDS)
    for _ in range(2):
        assert (await subscription.next_msg(timeout=SECONDS)).data
    last = await subscription.next_msg(timeout=SECONDS)
    assert (last.headers or {})["Status"] == "408"
    assert json.loads((await completed.next_msg(timeout=SECONDS)).data)["error"] == "no flow response"


async def test_a_receiver_that_unsubscribes_is_left(peers: Peers) -> None:
    client = peers.ours
    await create(client)
    await publish_many(client, "s", 500)
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    completed = await client.subscribe("$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S")
    asked = {"deliver_subject": inbox, "chunk_size": 1024, "window_size": 2048}
    await client.request("$JS.API.STREAM.SNAPSHOT.S", json.dumps(asked).encode(), timeout=SECONDS)
    await subscription.next_msg(timeout=SECONDS)
    await subscription.unsubscribe()
    assert json.loads((await completed.next_msg(timeout=SECONDS)).data)["error"] == "no interest"


async def test_a_receiver_may_subscribe_after_the_answer(peers: Peers) -> None:
    """As the nats tool does, whose subscription to all answers matches the subject before that."""
    found = []
    for client in (peers.real, peers.ours):
        await create(client)
        await publish_many(client, "s", 3)
        prefix = client.new_inbox()
        answers = await client.subscribe(f"{prefix}.*")
        asked = {"deliver_subject": f"{prefix}.chunks"}
        await client.request("$JS.API.STREAM.SNAPSHOT.S", json.dumps(asked).encode(), timeout=SECONDS)
        await asyncio.sleep(0.2)
        assert answers.pending_msgs == 0
        chunks = await client.subscribe(f"{prefix}.chunks")
        data = [(await chunks.next_msg(timeout=SECONDS)).data for _ in range(2)]
        found.append([bool(one) for one in data])
        await chunks.unsubscribe()
    assert found == [[True, False]] * 2


async def test_a_snapshot_of_a_stream_that_is_deleted_ends_with_an_error(peers: Peers) -> None:
    client = peers.ours
    await create(client)
    await publish_many(client, "s", 10_000)
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    asked = {"deliver_subject": inbox, "chunk_size": 1024, "window_size": 1024}
    await client.request("$JS.API.STREAM.SNAPSHOT.S", json.dumps(asked).encode(), timeout=SECONDS)
    first = await subscription.next_msg(timeout=SECONDS)
    await delete(client, "S")
    await client.publish(first.reply, b"")
    while (message := await subscription.next_msg(timeout=SECONDS)).data:
        if message.reply:
            await client.publish(message.reply, b"")
    assert (message.headers or {})["Status"] == "500"


async def test_a_stream_may_be_updated_and_purged_during_a_snapshot(peers: Peers) -> None:
    client = peers.ours
    await create(client)
    await publish_many(client, "s", 10_000)
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    asked = {"deliver_subject": inbox, "chunk_size": 1024, "window_size": 1024}
    answer = json.loads(
        (await client.request("$JS.API.STREAM.SNAPSHOT.S", json.dumps(asked).encode(), timeout=SECONDS)).data
    )
    message = await subscription.next_msg(timeout=SECONDS)
    data = message.data
    await ask(client, "STREAM.UPDATE.S", {**STREAM, "subjects": ["s.>", "t"], "compression": "s2"})
    await ask(client, "STREAM.PURGE.S")
    await client.publish(message.reply, b"")
    while (message := await subscription.next_msg(timeout=SECONDS)).data:
        data += message.data
        if message.reply:
            await client.publish(message.reply, b"")
    assert "Status" not in (message.headers or {}) or (message.headers or {})["Status"] == "204"
    await delete(client, "S")
    restored = await restore(client, Backup(answer["config"], answer["state"], data))
    assert restored["state"]["last_seq"] == 10_000
    assert restored["config"]["subjects"] == ["s.>"]


async def test_a_stream_that_exists_is_not_restored(peers: Peers) -> None:
    for client in (peers.real, peers.ours):
        await create(client)
        made = await backup(client, "S")
        with pytest.raises(Failed, match="stream name already in use, cannot restore"):
            await restore(client, made)


async def test_of_two_restores_of_one_stream_one_wins(peers: Peers) -> None:
    client = peers.ours
    await with_everything(client)
    before = await describe(client)
    made = await backup(client, "S")
    await delete(client, "S")
    outcomes = await asyncio.gather(*(restore(client, made) for _ in range(3)), return_exceptions=True)
    failures = [one for one in outcomes if isinstance(one, Failed)]
    assert len(failures) == 2
    assert {str(one) for one in failures} == {"stream name already in use, cannot restore"}
    assert await describe(client) == before

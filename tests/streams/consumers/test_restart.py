"""Consumers after the server was stopped or killed: their place in the stream, and what was pending."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from headrace.streams.consumers.on_disk import state as consumer_state
from tests.servers import Server, running_server

STREAM = {"name": "S", "subjects": ["s.>"], "storage": "file"}
CONSUMER = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 60_000_000_000}


def flags(directory: Path) -> list[str]:
    return ["-js", "-sd", str(directory)]


async def connect(server: Server) -> Client:
    return await nats.connect(f"nats://{server.host}:{server.port}", allow_reconnect=False)


async def ask(client: Client, subject: str, body: object = None) -> dict[str, Any]:
    payload = json.dumps(body).encode() if body is not None else b""
    answer = await client.request("$JS.API." + subject, payload, timeout=30)
    value: dict[str, Any] = json.loads(answer.data)
    assert "error" not in value, value
    return value


async def create(client: Client, config: dict[str, Any] = CONSUMER, messages: int = 10) -> None:
    await ask(client, "STREAM.CREATE.S", STREAM)
    for number in range(messages):
        await client.request("s.a", str(number).encode(), timeout=30)
    await ask(client, "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})


async def fetch(client: Client, count: int, name: str = "C") -> list[Any]:
    inbox = await client.subscribe(client.new_inbox())
    await client.publish(
        f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", json.dumps({"batch": count}).encode(), reply=inbox.subject
    )
    return [await inbox.next_msg(timeout=30) for _ in range(count)]


def shown(info: dict[str, Any]) -> tuple[int, int, int, int, int]:
    return (
        info["delivered"]["consumer_seq"],
        info["delivered"]["stream_seq"],
        info["ack_floor"]["stream_seq"],
        info["num_ack_pending"],
        info["num_pending"],
    )


async def test_a_stopped_server_keeps_the_place_of_its_consumers(tmp_path: Path) -> None:
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        await create(client)
        messages = await fetch(client, 6)
        for place in (0, 1, 3):
            await client.request(messages[place].reply, b"+ACK", timeout=30)
        before = await ask(client, "CONSUMER.INFO.S.C")
        await client.close()
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        after = await ask(client, "CONSUMER.INFO.S.C")
        assert shown(before) == shown(after) == (6, 6, 2, 3, 4)
        assert (before["config"], before["created"]) == (after["config"], after["created"])
        assert [message.data for message in await fetch(client, 4)] == [b"6", b"7", b"8", b"9"]
        await client.request(messages[2].reply, b"+ACK", timeout=30)
        assert (await ask(client, "CONSUMER.INFO.S.C"))["ack_floor"]["stream_seq"] == 4
        await client.close()


async def test_a_killed_server_delivers_again_what_was_not_acknowledged(tmp_path: Path) -> None:
    config = {**CONSUMER, "ack_wait": 500_000_000}
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        await create(client, config)
        messages = await fetch(client, 4)
        await client.request(messages[0].reply, b"+ACK", timeout=30)
        (path,) = tmp_path.glob("jetstream/$G/streams/S/consumers/C/state")
        while (state := consumer_state.read(str(path))) is None or state.floor_stream < 1:
            await asyncio.sleep(0.01)
        server.process.kill()
        server.process.wait()
        await client.close()
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        received = {message.data for message in await fetch(client, 9)}
        assert received == {str(number).encode() for number in range(1, 10)}
        await client.close()


async def test_a_damaged_state_is_reported_and_everything_delivered_again(tmp_path: Path) -> None:
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        await create(client)
        for message in await fetch(client, 5):
            await client.request(message.reply, b"+ACK", timeout=30)
        await client.close()
    (state,) = tmp_path.glob("jetstream/$G/streams/S/consumers/C/state")
    data = bytearray(state.read_bytes())
    data[10] ^= 1
    state.write_bytes(data)
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        assert "consumer 'C' starts over" in server.log()
        assert len(await fetch(client, 10)) == 10
        await client.close()


@pytest.mark.parametrize("policy", ["new", "last", "last_per_subject"])
async def test_a_consumer_whose_state_is_lost_skips_nothing(tmp_path: Path, policy: str) -> None:
    """It began at the end of the stream as of its creation, which is not the end as of now."""
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        await create(client, {**CONSUMER, "deliver_policy": policy, "filter_subject": "s.*"})
        for number in range(10, 14):
            await client.request("s.a", str(number).encode(), timeout=30)
        await client.close()
    (state,) = tmp_path.glob("jetstream/$G/streams/S/consumers/C/state")
    state.write_bytes(b"")
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        assert "consumer 'C' starts over" in server.log()
        waiting = (await ask(client, "CONSUMER.INFO.S.C"))["num_pending"]
        assert waiting == (4 if policy == "new" else 14)
        received = [message.data for message in await fetch(client, waiting)]
        assert received[-4:] == [b"10", b"11", b"12", b"13"]
        await client.close()


async def test_a_consumer_that_was_never_created_whole_is_not_there(tmp_path: Path) -> None:
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        await create(client)
        await client.close()
    (meta,) = tmp_path.glob("jetstream/$G/streams/S/consumers/C/meta.json")
    meta.unlink()  # it is written last
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        assert "[WRN]" not in server.log()
        assert (await ask(client, "CONSUMER.NAMES.S"))["consumers"] == []
        await ask(client, "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": CONSUMER})
        assert len(await fetch(client, 10)) == 10
        await client.close()


async def test_a_damaged_configuration_is_reported_and_left_alone(tmp_path: Path) -> None:
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        await create(client)
        await client.close()
    (meta,) = tmp_path.glob("jetstream/$G/streams/S/consumers/C/meta.json")
    damaged = meta.read_bytes()[:-3] + b"xyz"
    meta.write_bytes(damaged)
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        assert "consumer 'C' is left alone" in server.log()
        assert (await ask(client, "CONSUMER.NAMES.S"))["consumers"] == []
        await client.close()
    assert meta.read_bytes() == damaged


async def test_a_state_ahead_of_its_stream_is_reconciled(tmp_path: Path) -> None:
    """The disk lost the end of the stream: new messages get the lost sequences, and are delivered."""
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        await create(client)
        for message in await fetch(client, 10):
            await client.request(message.reply, b"+ACK", timeout=30)
        await client.close()
    (state,) = tmp_path.glob("jetstream/$G/streams/S/consumers/C/state")
    kept = state.read_bytes()
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        await ask(client, "STREAM.DELETE.S")
        await create(client, messages=3)
        await client.close()
    state.write_bytes(kept)
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        assert "delivered sequence 10 past last stream sequence of 3" in server.log()
        await client.request("s.a", b"new", timeout=30)
        assert [message.data for message in await fetch(client, 1)] == [b"new"]
        await client.close()


async def test_what_lives_in_memory_or_was_deleted_is_gone(tmp_path: Path) -> None:
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        await create(client)
        memory = {"name": "M", "mem_storage": True, "inactive_threshold": 60_000_000_000}
        await ask(client, "CONSUMER.CREATE.S.M", {"stream_name": "S", "config": memory})
        await ask(client, "CONSUMER.DELETE.S.C")
        await client.close()
    assert not list(tmp_path.glob("jetstream/$G/streams/S/consumers/*"))
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        assert (await ask(client, "CONSUMER.NAMES.S"))["consumers"] == []
        await client.close()


async def test_an_ephemeral_consumer_that_nobody_uses_is_deleted(tmp_path: Path) -> None:
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        deleted = await client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.DELETED.S.C")
        await create(client, {"name": "C", "ack_policy": "none", "inactive_threshold": 200_000_000})
        advisory = json.loads((await deleted.next_msg(timeout=30)).data)
        assert advisory["action"] == "delete"
        assert (await ask(client, "CONSUMER.NAMES.S"))["consumers"] == []
        await client.close()
    assert not list(tmp_path.glob("jetstream/$G/streams/S/consumers/*"))


async def test_a_reset_survives(tmp_path: Path) -> None:
    """Of a consumer in a file, whose place before it may have been written a moment ago."""
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        await create(client)
        for message in await fetch(client, 5):
            await client.request(message.reply, b"+ACK", timeout=30)
        await ask(client, "CONSUMER.RESET.S.C", {"seq": 3})
        before = shown(await ask(client, "CONSUMER.INFO.S.C"))
        await client.close()
    with running_server("headrace", flags=flags(tmp_path)) as server:
        client = await connect(server)
        assert shown(await ask(client, "CONSUMER.INFO.S.C")) == before
        assert [message.data for message in await fetch(client, 2)] == [b"2", b"3"]
        await client.close()

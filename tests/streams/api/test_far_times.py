"""Times that 64 bits of nanoseconds cannot hold, wherever a time is accepted: early is early, late is late.

nats-server wraps around and takes 2999 for long ago, so these are compared with near times instead.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from nats.aio.client import Client

from tests.servers import Server
from tests.streams.peers import ask, client_of, collect, jetstream_server

EARLY = ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00+12:00", "0002-01-01T00:00:00Z", "1600-01-01T00:00:00Z"]
LATE = ["2263-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999-12:00"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with jetstream_server("headrace", tmp_path_factory.mktemp("store")) as server:
        yield server
        log = server.log()
    assert "[ERR]" not in log
    assert "Traceback" not in log


@pytest.fixture(params=["memory", "file"])
async def client(server: Server, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    async with client_of(server) as client:
        config = {"name": "S", "subjects": ["s.*"], "storage": request.param, "allow_direct": True}
        await ask(client, "STREAM.CREATE.S", {**config, "allow_msg_schedules": True})
        for number in range(3):
            await client.request("s.a", b"%d" % number, timeout=30)
        yield client
        for name in (await ask(client, "STREAM.NAMES"))["streams"]:
            await ask(client, f"STREAM.DELETE.{name}")


async def look_up(client: Client, time: str) -> Any:
    """All that is looked up by a time."""
    body = json.dumps({"start_time": time}).encode()
    answers: list[Any] = [
        await ask(client, "STREAM.MSG.GET.S", {"start_time": time}),
        await ask(client, "STREAM.MSG.GET.S", {"start_time": time, "next_by_subj": "s.a"}),
        (await client.request("$JS.API.DIRECT.GET.S", body, timeout=30)).data,
        await collect(client, "DIRECT.GET.S", {"start_time": time, "batch": 10}),
        await collect(client, "DIRECT.GET.S", {"multi_last": [">"], "up_to_time": time}),
    ]
    config = {"name": "c", "deliver_policy": "by_start_time", "opt_start_time": time}
    info = await ask(client, "CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
    answers += [info["num_pending"], info["delivered"]]
    for seq in (1, 3, 4):
        reset = await ask(client, "CONSUMER.RESET.S.c", {"seq": seq})
        answers.append(reset.get("error", {}).get("err_code", reset["reset_seq"]))
    await ask(client, "CONSUMER.DELETE.S.c")
    return answers


async def test_messages_are_found_before_early_and_after_late_times(client: Client) -> None:
    early, late = await look_up(client, "2000-01-01T00:00:00Z"), await look_up(client, "2200-01-01T00:00:00Z")
    assert early != late
    for time in EARLY:
        assert await look_up(client, time) == early, time
    for time in LATE:
        assert await look_up(client, time) == late, time


async def test_a_consumer_is_paused_until_a_late_time_and_not_by_an_early_one(client: Client) -> None:
    for time in (*EARLY, *LATE):
        config = {"name": "c", "durable_name": "c", "pause_until": time}
        created = await ask(client, "CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
        assert created.get("paused", False) == (time in LATE)
        paused = await ask(client, "CONSUMER.PAUSE.S.c", {"pause_until": time})
        assert paused["paused"] == (time in LATE)
        info = await ask(client, "CONSUMER.INFO.S.c")
        assert info.get("paused", False) == (time in LATE)
        assert not (await ask(client, "CONSUMER.PAUSE.S.c", {}))["paused"]
        await ask(client, "CONSUMER.DELETE.S.c")


@pytest.mark.parametrize("kind", ["mirror", "sources"])
async def test_a_mirror_or_source_may_begin_then(client: Client, kind: str) -> None:
    waiting = {}
    for place, time in enumerate((*EARLY, *LATE)):
        origin = {"name": "S", "opt_start_time": time}
        config = {"name": f"M{place}", kind: origin if kind == "mirror" else [origin]}
        assert "error" not in await ask(client, f"STREAM.CREATE.M{place}", config)
        waiting[f"M{place}"] = 0 if time in LATE else 3
    while waiting:
        for name, expected in list(waiting.items()):
            info = await ask(client, f"STREAM.INFO.{name}")
            follower = info["mirror"] if kind == "mirror" else info["sources"][0]
            assert info["state"]["messages"] <= expected
            if follower["active"] != -1 and follower["lag"] == 0 and info["state"]["messages"] == expected:
                del waiting[name]
        await asyncio.sleep(0.01)


async def test_a_schedule_may_be_due_then(client: Client) -> None:
    for time in LATE:
        headers = {"Nats-Schedule": f"@at {time}", "Nats-Schedule-Target": "s.target"}
        ack = await client.request("s.schedule", b"", timeout=30, headers=headers)
        assert json.loads(ack.data)["seq"] > 3

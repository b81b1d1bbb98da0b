"""What a restore has to respect: limits of the account, features of the stream, the end of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from nats import connect
from nats.aio.client import Client

from tests.servers import Server
from tests.streams.backup.archives import (
    SECONDS,
    Backup,
    Failed,
    backup,
    begin_restore,
    delete,
    entry,
    messages,
    pack,
    publish_many,
    restore,
)
from tests.streams.peers import ask, jetstream_server

END = entry(b"")
LIMITS = "max_file: 5000, max_mem: 5000, max_streams: 2, max_consumers: 1"
ACCOUNTS = f"""
accounts {{
  SMALL {{ jetstream {{ {LIMITS} }}, users: [{{user: small, password: x}}] }}
  LARGE {{ jetstream: enabled, users: [{{user: large, password: x}}] }}
  NONE {{ users: [{{user: none, password: x}}] }}
}}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with jetstream_server("headrace", tmp_path, ACCOUNTS) as running:
        yield running


@asynccontextmanager
async def connected(server: Server, user: str) -> AsyncIterator[Client]:
    client = await connect(f"nats://{user}:x@{server.host}:{server.port}", allow_reconnect=False)
    yield client
    await client.close()


@pytest.fixture
async def large(server: Server) -> AsyncIterator[Client]:
    async with connected(server, "large") as client:
        yield client


@pytest.fixture
async def small(server: Server) -> AsyncIterator[Client]:
    async with connected(server, "small") as client:
        yield client


def streams(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("jetstream/*/streams/*"))


async def wait_for_messages(client: Client, count: int) -> None:
    while (await ask(client, "STREAM.INFO.S"))["state"]["messages"] < count:
        await asyncio.sleep(0.01)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("storage", ["file", "memory"])
async def test_a_stream_that_is_too_large_for_the_account_is_refused(
    large: Client, small: Client, tmp_path: Path, storage: str
) -> None:
    await ask(large, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": storage})
    await publish_many(large, "s", 100)
    made = await backup(large, "S")
    await delete(large, "S")
    with pytest.raises(Failed, match=r"insufficient (storage|memory) resources"):
        await restore(small, made)
    # The same if its state says otherwise.
    liar = pack(
        entry(b"state.json", b'{"bytes": 1, "first_seq": 1, "last_seq": 100}'),
        *(entry(b"s.x", bytes(100), seq=seq, time=1) for seq in range(1, 101)),
        END,
    )
    with pytest.raises(Failed, match=r"insufficient (storage|memory) resources"):
        await restore(small, Backup(made.config, {}, liar))
    assert streams(tmp_path) == []
    info = await ask(small, "INFO")
    assert (info["storage"], info["memory"], info["streams"]) == (0, 0, 0)
    # Nothing stays reserved.
    fitting = {"name": "T", "subjects": ["t"], "max_bytes": 5000, "storage": storage}
    assert "error" not in await ask(small, "STREAM.CREATE.T", fitting)


@pytest.mark.timeout(60)
async def test_other_limits_of_the_account_hold(large: Client, small: Client) -> None:
    await ask(large, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    for name in ("A", "B"):
        config = {"durable_name": name, "name": name}
        await ask(large, f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
    made = await backup(large, "S")
    with pytest.raises(Failed, match="maximum consumers limit reached"):
        await restore(small, made)
    for name in ("T", "U"):
        await ask(small, f"STREAM.CREATE.{name}", {"name": name, "subjects": [name]})
    with pytest.raises(Failed, match="maximum number of streams reached"):
        await restore(small, await backup(large, "S", no_consumers=True))


@pytest.mark.timeout(60)
async def test_an_account_without_streams_has_no_backups(server: Server) -> None:
    async with connected(server, "none") as client:
        for verb in ("SNAPSHOT", "RESTORE"):
            answer = await ask(client, f"STREAM.{verb}.S", {"deliver_subject": "x"})
            assert answer["error"]["err_code"] == 10039


FEATURES: dict[str, dict[str, Any]] = {
    "sealed": {"subjects": ["s.>"]},
    "counters": {"subjects": ["s.>"], "allow_msg_counter": True, "allow_direct": True},
    "discards_new": {"subjects": ["s.>"], "discard": "new", "max_msgs": 3},
    "keys": {"subjects": ["s.>"], "max_msgs_per_subject": 1, "allow_rollup_hdrs": True, "deny_delete": True},
    "transform": {"subjects": ["s.>"], "subject_transform": {"src": "s.>", "dest": "t.>"}},
    "mirror": {"mirror": {"name": "ORIGIN"}},
    "sources": {"sources": [{"name": "ORIGIN"}]},
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", FEATURES)
async def test_streams_of_any_kind_can_be_restored(large: Client, name: str) -> None:
    client, jetstream = large, large.jetstream(timeout=SECONDS)
    await ask(client, "STREAM.CREATE.ORIGIN", {"name": "ORIGIN", "subjects": ["origin"]})
    config = {"name": "S", **FEATURES[name]}
    assert "error" not in await ask(client, "STREAM.CREATE.S", config)
    for number in range(3):
        if "subjects" in config:
            headers = {"Nats-Incr": "5"} if name == "counters" else None
            await client.request("s.x", b"" if headers else b"%d" % number, headers=headers, timeout=SECONDS)
        else:
            await jetstream.publish("origin", b"%d" % number)
    await wait_for_messages(client, 1 if name == "keys" else 3)
    if name == "sealed":
        assert "error" not in await ask(client, "STREAM.UPDATE.S", {**config, "sealed": True})
    before = await messages(client, "S")
    made = await backup(client, "S")
    assert "error" not in await ask(client, "STREAM.DELETE.S")
    await restore(client, made)
    assert await messages(client, "S") == before
    if name in ("mirror", "sources"):  # it goes on behind what it has
        await jetstream.publish("origin", b"3")
        await wait_for_messages(client, 4)
        assert len(await messages(client, "S")) == 4
    elif name == "counters":
        answer = await client.request("s.x", b"", headers={"Nats-Incr": "1"}, timeout=SECONDS)
        assert json.loads(answer.data)["val"] == "16"


@pytest.mark.timeout(60)
async def test_a_server_that_stops_leaves_nothing_of_a_restore(tmp_path: Path) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        client = await connect(f"nats://{server.host}:{server.port}", allow_reconnect=False)
        subject = await begin_restore(client, "S", {"name": "S", "subjects": ["s.>"]})
        part = pack(entry(b"state.json", b'{"last_seq": 5}'), entry(b"s.x", b"1", seq=1, time=1))
        await client.request(subject, part, timeout=SECONDS)
        assert any(name.startswith(".deleted-S-") for name in streams(tmp_path))
        await client.close()
    assert streams(tmp_path) == []

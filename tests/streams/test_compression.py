"""A stream with compression over the wire: less on disk, and otherwise the same, before and after a kill."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from tests.adversity.recorder import Record, check, create_stream, stored_messages
from tests.servers import Server
from tests.streams.peers import SECOND, ask, client_of, jetstream_server
from tests.streams.test_recovery import STREAMS, describe

MESSAGES = 1100
POLLS = 1200  # a minute
SIZE = 32 * 1024  # of each; two full segments of 16 MiB
CONFIG = {
    "name": "CRASH",
    "subjects": ["crash.*"],
    "storage": "file",
    "compression": "s2",
    "allow_direct": True,
}


def segments(directory: Path, stream: str) -> list[Path]:
    return sorted((directory / STREAMS / stream / "msgs").glob("*.log"))


def is_compressed(path: Path) -> bool:
    with path.open("rb") as file:
        return struct.unpack("<I", file.read(12)[8:]) == (2,)


async def wait_until_compressed(directory: Path, stream: str) -> None:
    for _ in range(POLLS):
        paths = segments(directory, stream)
        if len(paths) > 2 and all(map(is_compressed, paths[:-1])):
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"not compressed: {paths}")


async def direct_get(client: Client, seq: int) -> bytes:
    message = await client.request("$JS.API.DIRECT.GET.CRASH", b'{"seq":%d}' % seq, timeout=30)
    return message.data


async def check_reading(server: Server, client: Client, record: Record, state: dict[str, Any]) -> None:
    check(record, await asyncio.to_thread(stored_messages, server.port))
    for seq in (1, MESSAGES // 2, MESSAGES):
        assert int((await direct_get(client, seq)).partition(b" ")[0]) == record.acknowledged[seq]
    answer = await ask(
        client,
        "CONSUMER.CREATE.CRASH",
        {
            "stream_name": "CRASH",
            # It must not go between the description before a restart and the one after it.
            "config": {"filter_subject": "crash.2", "ack_policy": "none", "inactive_threshold": 600 * SECOND},
        },
    )
    expected = sum(number % 5 == 2 for number in record.acknowledged.values())
    assert answer["num_pending"] == expected
    assert state["messages"] == len(record.acknowledged)


async def test_a_compressed_stream_is_smaller_and_otherwise_the_same(tmp_path: Path) -> None:
    record = Record()
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            create_stream(server.port, **CONFIG)
            await ask(client, "STREAM.CREATE.PLAIN", {"name": "PLAIN", "mirror": {"name": "CRASH"}})
            await asyncio.to_thread(record.publish, server.port, count=MESSAGES, size=SIZE, in_flight=64)
            assert len(record.acknowledged) == MESSAGES
            await wait_until_compressed(tmp_path, "CRASH")
            for _ in range(POLLS):
                states = {name: info["state"] for name, info in (await describe(client)).items()}
                if states["PLAIN"]["messages"] == MESSAGES:
                    break
                await asyncio.sleep(0.05)
            assert states["CRASH"]["bytes"] == states["PLAIN"]["bytes"] > MESSAGES * SIZE
            assert sum(path.stat().st_size for path in segments(tmp_path, "CRASH")[:-1]) < MESSAGES * SIZE / 4
            await check_reading(server, client, record, states["CRASH"])
            for seq, how in ((5, {}), (7, {"no_erase": True})):
                assert (await ask(client, "STREAM.MSG.DELETE.CRASH", {"seq": seq, **how}))["success"]
                del record.acknowledged[seq]
            await ask(client, "STREAM.DELETE.PLAIN")
            before = await describe(client)
            server.process.kill()
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            assert await describe(client) == before
            assert await direct_get(client, 5) == b""
            await check_reading(server, client, record, before["CRASH"]["state"])
            # Older segments go as a whole; what is switched off stays readable.
            await ask(client, "STREAM.UPDATE.CRASH", {**CONFIG, "compression": "none", "max_msgs": 100})
            kept = await asyncio.to_thread(stored_messages, server.port)
            assert sorted(kept) == list(range(MESSAGES - 99, MESSAGES + 1))
            for _ in range(POLLS):
                if len(segments(tmp_path, "CRASH")) < 3:
                    break
                await asyncio.sleep(0.05)
            assert len(segments(tmp_path, "CRASH")) < 3
        assert "damaged" not in server.log()


async def test_switching_it_on_compresses_what_is_there(tmp_path: Path) -> None:
    record = Record()
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            create_stream(server.port, **{**CONFIG, "compression": "none"})
            await asyncio.to_thread(record.publish, server.port, count=MESSAGES, size=SIZE, in_flight=64)
            assert len(segments(tmp_path, "CRASH")) == 1  # of up to 64 MiB
            assert "error" not in await ask(client, "STREAM.UPDATE.CRASH", CONFIG)
            await asyncio.to_thread(record.publish, server.port, count=600, size=SIZE, in_flight=64)
            await wait_until_compressed(tmp_path, "CRASH")
            check(record, await asyncio.to_thread(stored_messages, server.port))

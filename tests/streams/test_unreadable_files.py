"""Files of streams and consumers that cannot be read at a start: that is reported, and changes nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from nats.aio.client import Client

from headrace.errors import HeadraceError
from headrace.monitor.healthz import Asked, find_problems
from tests.streams.embedded import EmbeddedServer, embedded_server
from tests.streams.failing_calls import fail_opens, failing
from tests.streams.peers import ask

INTEREST = {"name": "S", "subjects": ["s.>"], "retention": "interest"}
CONSUMERS = Path("store", "jetstream", "$G", "streams", "S", "consumers")
MESSAGES = 10


async def create(client: Client, *names: str) -> None:
    await ask(client, "STREAM.CREATE.S", INTEREST)
    for name in names:
        await create_consumer(client, name)
    for number in range(MESSAGES):
        await client.request("s.a", b"%d" % number, timeout=30)


async def create_consumer(client: Client, name: str) -> None:
    config = {"durable_name": name, "ack_policy": "explicit"}
    created = await ask(client, f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
    assert "error" not in created


async def acknowledge(client: Client, name: str, count: int) -> None:
    inbox = await client.subscribe(client.new_inbox())
    await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", b'{"batch":%d}' % count, reply=inbox.subject)
    for _ in range(count):
        await client.request((await inbox.next_msg(timeout=30)).reply, b"+ACK", timeout=30)


async def stored(client: Client) -> int:
    count: int = (await ask(client, "STREAM.INFO.S"))["state"]["messages"]
    return count


def problems(server: EmbeddedServer) -> list[str]:
    jetstream = server.server.jetstream
    assert jetstream is not None
    return [problem.error for problem in find_problems(jetstream, Asked())]


@pytest.mark.parametrize("error", [errno.EMFILE, errno.EIO])
@pytest.mark.parametrize("file", ["meta.json", "state"])
async def test_a_stream_with_a_consumer_that_cannot_be_read_is_not_available(
    tmp_path: Path, file: str, error: int
) -> None:
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await create(client, "A", "B")
        await acknowledge(client, "A", 6)
        await client.close()
    with pytest.MonkeyPatch.context() as patch:
        fail_opens(patch, os.path.join("consumers", "A", file), error)
        async with embedded_server(tmp_path) as server:
            client = await server.client()
            assert (await ask(client, "STREAM.NAMES"))["streams"] is None
            assert problems(server) == ["JetStream stream '$G > S' could not be recovered"]
            assert "is not available and its files are left alone" in server.log()
            assert (error == errno.EMFILE) == ("raise the limit of open files" in server.log())
            await client.close()
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        assert await stored(client) == MESSAGES
        info = await ask(client, "CONSUMER.INFO.S.A")
        assert (info["ack_floor"]["stream_seq"], info["num_pending"]) == (6, 4)
        assert problems(server) == []
        await client.close()


@pytest.mark.parametrize("way_out", ["delete", "create"])
async def test_what_a_damaged_consumer_may_need_is_kept(tmp_path: Path, way_out: str) -> None:
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await create(client, "A", "B")
        await client.close()
    (tmp_path / CONSUMERS / "A" / "meta.json").write_bytes(b"headrace 1 00000000\n{}")
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await acknowledge(client, "B", MESSAGES)
        await client.request("s.b", b"more", timeout=30)
        assert await stored(client) == MESSAGES + 1
        (problem,) = problems(server)
        assert problem == "JetStream consumer '$G > S > A' could not be recovered: damaged"
        if way_out == "delete":
            assert (await ask(client, "CONSUMER.DELETE.S.A"))["success"]
            assert await stored(client) == 1, "B has not acknowledged it"
        else:
            await create_consumer(client, "A")
            await acknowledge(client, "A", MESSAGES)
            await ask(client, "CONSUMER.DELETE.S.A")
            assert await stored(client) == 1
        assert problems(server) == []
        await client.close()
    assert not (tmp_path / CONSUMERS / "A").exists()


async def test_positions_of_sources_that_cannot_be_read_do_not_copy_again(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await ask(client, "STREAM.CREATE.O", {"name": "O"})
        await ask(client, "STREAM.CREATE.W", {"name": "W", "sources": [{"name": "O"}]})
        for _ in range(MESSAGES):
            await client.request("O", b"", timeout=30)
        while (await ask(client, "STREAM.INFO.W"))["state"]["last_seq"] < MESSAGES:
            await client.flush()
        await ask(client, "STREAM.PURGE.W")
        await client.close()
    with pytest.MonkeyPatch.context() as patch:
        fail_opens(patch, os.path.join("W", "sources.json"), errno.EMFILE)
        async with embedded_server(tmp_path) as server:
            client = await server.client()
            assert (await ask(client, "STREAM.NAMES"))["streams"] == ["O"]
            await client.close()
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await client.request("O", b"one more", timeout=30)
        while (await ask(client, "STREAM.INFO.W"))["state"]["last_seq"] < MESSAGES + 1:
            await client.flush()
        assert (await ask(client, "STREAM.INFO.W"))["state"]["messages"] == 1
        await client.close()


async def test_a_directory_that_cannot_be_listed_ends_the_start_with_a_way_out(tmp_path: Path) -> None:
    async with embedded_server(tmp_path):
        pass
    with pytest.MonkeyPatch.context() as patch:
        check, scandir = failing("streams", errno.EMFILE), os.scandir

        def fail(path: str) -> object:
            check(path)
            return scandir(path)

        patch.setattr(os, "scandir", fail)
        with pytest.raises(HeadraceError, match=r"too many open files; raise the limit of open files"):
            async with embedded_server(tmp_path):
                pass


async def test_a_stream_is_not_created_where_nobody_knows_whether_one_is(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await create(client, "A")
        await client.close()
    meta = tmp_path / CONSUMERS.parent / "meta.json"
    whole = meta.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        check, stat = failing(str(meta), errno.EIO), os.stat

        def fail(path: str, **kwargs: object) -> object:
            check(path)
            return stat(path, **kwargs)  # type: ignore[arg-type]

        patch.setattr(os, "stat", fail)
        async with embedded_server(tmp_path) as server:
            client = await server.client()
            assert "error" in await ask(client, "STREAM.CREATE.S", INTEREST)
            await client.close()
    assert meta.read_bytes() == whole
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        assert await stored(client) == MESSAGES
        await client.close()

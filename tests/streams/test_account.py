"""A server with one account: its limits hold, its streams are stored under its name, clients get errors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats import connect
from nats.aio.client import Client
from nats.js.api import AccountLimits, StorageType
from nats.js.errors import APIError, BadRequestError

from tests.servers import Server, ServerKind, running_server
from tests.streams.peers import client_of

ONE_ACCOUNT = """
jetstream {{ max_mem: 1G, max_file: 1G, domain: hub }}
no_auth_user: guest
accounts {{
  TEAM {{
    users: [ {{ user: guest, password: none }}, {{ user: boss, password: secret }} ]
    jetstream: {jetstream}
  }}
}}
"""
LIMITS = """{
  max_mem: 64MB, max_file: 32MB, max_streams: 2, max_consumers: 20, max_ack_pending: 100
  memory_max_stream_bytes: 2048, store_max_stream_bytes: 4096, max_stream_bytes: true
}"""
BOTH = pytest.mark.parametrize("kind", ["nats-server", "headrace"])


@asynccontextmanager
async def account(
    kind: ServerKind, directory: Path, jetstream: str = LIMITS
) -> AsyncIterator[tuple[Server, Client]]:
    config = ONE_ACCOUNT.format(jetstream=jetstream)
    with running_server(kind, config, ["-sd", str(directory)]) as server:
        async with client_of(server) as client:
            yield server, client


@BOTH
async def test_limits_of_the_account_are_told_and_kept(kind: ServerKind, tmp_path: Path) -> None:
    async with account(kind, tmp_path) as (_, client):
        jetstream = client.jetstream(timeout=30)
        with pytest.raises(BadRequestError) as error:
            await jetstream.add_stream(name="S")
        assert error.value.err_code == 10113
        with pytest.raises(BadRequestError) as error:
            await jetstream.add_stream(name="S", max_bytes=65536)
        assert error.value.err_code == 10122
        await jetstream.add_stream(name="S", max_bytes=128)
        await jetstream.add_stream(name="M", max_bytes=128, storage=StorageType.MEMORY)
        with pytest.raises(APIError) as refused:
            await jetstream.add_stream(name="T", max_bytes=128)
        assert (refused.value.code, refused.value.err_code) == (400, 10027)
        await jetstream.publish("S", b"A" * 55)
        info = await jetstream.account_info()
        assert (info.storage, info.memory, info.streams, info.domain) == (86, 0, 2, "hub")
        assert info.limits == AccountLimits(
            max_memory=64 << 20,
            max_storage=32 << 20,
            max_streams=2,
            max_consumers=20,
            max_ack_pending=100,
            memory_max_stream_bytes=2048,
            storage_max_stream_bytes=4096,
            max_bytes_required=True,
        )


@BOTH
async def test_an_account_that_is_full_stores_nothing_more(kind: ServerKind, tmp_path: Path) -> None:
    async with account(kind, tmp_path, "{ max_file: 1000 }") as (_, client):
        jetstream = client.jetstream(timeout=30)
        await jetstream.add_stream(name="S")
        await jetstream.add_stream(name="T")
        for number in range(10):
            await jetstream.publish("ST"[number % 2], b"x" * 69)
        with pytest.raises(APIError) as full:
            await jetstream.publish("S", b"")
        assert (full.value.code, full.value.err_code) == (400, 10002)
        await jetstream.purge_stream("S")
        await jetstream.publish("T", b"x" * 69)


@BOTH
async def test_streams_of_the_account_are_there_after_a_restart(kind: ServerKind, tmp_path: Path) -> None:
    async with account(kind, tmp_path) as (_, client):
        await client.jetstream(timeout=30).add_stream(name="S", max_bytes=1000)
        await client.jetstream(timeout=30).publish("S", b"kept")
    assert (tmp_path / "jetstream" / "TEAM" / "streams" / "S").is_dir()
    assert not (tmp_path / "jetstream" / "$G").exists()
    async with account(kind, tmp_path) as (server, client):
        assert (await client.jetstream(timeout=30).get_msg("S", 1)).data == b"kept"
        assert (await client.jetstream(timeout=30).account_info()).storage == 35
        assert re.search(r"Restored 1 messages for stream 'TEAM > S'", server.log())


@BOTH
async def test_all_users_of_the_account_share_its_streams(kind: ServerKind, tmp_path: Path) -> None:
    async with account(kind, tmp_path) as (server, guest):
        await guest.jetstream(timeout=30).add_stream(name="S", max_bytes=1000)
        boss = await connect(f"nats://boss:secret@{server.host}:{server.port}", allow_reconnect=False)
        await boss.jetstream(timeout=30).publish("S", b"from the boss")
        await boss.close()
        assert (await guest.jetstream(timeout=30).get_msg("S", 1)).data == b"from the boss"
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(b'CONNECT {"user":"boss","pass":"wrong"}\r\nPING\r\n')
        assert (await reader.read()).endswith(b"-ERR 'Authorization Violation'\r\n")
        writer.close()


@BOTH
@pytest.mark.parametrize("resource", ["memory", "storage"])
def test_an_account_with_more_than_the_server_has_keeps_it_from_starting(
    kind: ServerKind, resource: str, tmp_path: Path
) -> None:
    limit = "{ max_mem: 2G }" if resource == "memory" else "{ max_file: 2G }"
    config = ONE_ACCOUNT.format(jetstream=limit)
    complaint = (
        f"Can't start JetStream: .* on configured accounts: insufficient {resource} resources available"
    )
    with pytest.raises(RuntimeError, match=complaint), running_server(kind, config, ["-sd", str(tmp_path)]):
        pass


async def test_even_the_first_message_may_not_exceed_the_limit(tmp_path: Path) -> None:
    """nats-server lets it pass, because it knows of no use yet."""
    async with account("headrace", tmp_path, "{ max_file: 100 }") as (_, client):
        await client.jetstream(timeout=30).add_stream(name="S")
        with pytest.raises(APIError) as error:
            await client.jetstream(timeout=30).publish("S", b"x" * 100)
        assert error.value.err_code == 10002
        await client.jetstream(timeout=30).publish("S", b"x" * 69)

"""A pair of servers for a whole file, and clients of both for each test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from nats.aio.client import Client

from tests.servers import Server
from tests.streams.peers import Peers, ask, client_of, jetstream_server

POLLS, POLL_SECONDS = 6000, 0.01  # a busy machine may need a while
LONGEST_FILE_NAME = 255  # bytes


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def servers(store: Path) -> Iterator[tuple[Server, Server]]:
    with (
        jetstream_server("nats-server", store / "real") as real,
        jetstream_server("headrace", store / "ours") as ours,
    ):
        yield real, ours


@pytest.fixture
async def peers(servers: tuple[Server, Server], store: Path) -> AsyncIterator[Peers]:
    """Both servers are left without streams."""
    real, ours = servers
    async with client_of(real) as real_client, client_of(ours) as our_client:
        yield Peers(real_client, our_client)
        await delete_streams(our_client)
        deleted = await delete_streams(real_client)
        await wait_until_removed(store / "real" / "jetstream" / "$G" / "streams", deleted)


async def delete_streams(client: Client) -> list[str]:
    """Returns their names."""
    names = (await ask(client, "STREAM.NAMES"))["streams"] or []
    for name in names:
        await ask(client, f"STREAM.DELETE.{name}")
    return names


async def wait_until_removed(streams: Path, names: list[str]) -> None:
    """nats-server removes files after its answer; a stream that is created before that finds them again.

    It renames S to .S and removes that in the background. If S is deleted again while .S is still there, it
    cannot be renamed and stays, with its messages: the next S has them, and a restore of S fails ("expected
    sequence does not match store"). So wait for both.

    A name as long as the file system allows cannot be renamed either: what such a stream leaves stays, and
    there is nothing to wait for.

    It also removes the directory if it is empty, even while a new stream is being created in it. Something
    that lies there keeps it from doing so.
    """
    waited_for = [name for name in names if len(name.encode()) < LONGEST_FILE_NAME]
    for _ in range(POLLS):
        try:
            streams.mkdir(parents=True, exist_ok=True)
            (streams / ".keep").touch()
        except FileNotFoundError:
            pass  # it was removed in between
        else:
            if not any((streams / f"{hidden}{name}").exists() for name in waited_for for hidden in ("", ".")):
                return
        await asyncio.sleep(POLL_SECONDS)
    pytest.fail(f"nats-server still has files of {waited_for} in {streams}")

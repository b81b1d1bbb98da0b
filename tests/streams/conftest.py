"""A pair of servers for a whole file, and clients of both for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.servers import Server
from tests.streams.peers import Peers, client_of, jetstream_server


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    directory = tmp_path_factory.mktemp("store")
    with (
        jetstream_server("nats-server", directory / "real") as real,
        jetstream_server("headrace", directory / "ours") as ours,
    ):
        yield real, ours


@pytest.fixture
async def peers(servers: tuple[Server, Server]) -> AsyncIterator[Peers]:
    """Both servers are left without streams."""
    real, ours = servers
    async with client_of(real) as real_client, client_of(ours) as our_client:
        both = Peers(real_client, our_client)
        yield both
        names = (await both.ask("STREAM.NAMES"))["streams"]
        for name in names or []:
            await both.ask(f"STREAM.DELETE.{name}")

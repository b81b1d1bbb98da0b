"""Real servers with JetStream, and clients of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client import Client
from tests.client.streams import Streams
from tests.servers import Server, ServerKind, keep_streams_directory, running_server


@pytest.fixture(scope="session", params=["nats-server", "headrace"])
def kind(request: pytest.FixtureRequest) -> ServerKind:
    kind: ServerKind = request.param
    return kind


@pytest.fixture(scope="session")
def server(kind: ServerKind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests that leave it as it is."""
    store = tmp_path_factory.mktemp("store")
    with running_server(kind, flags=["-js", "-sd", str(store)]) as server:
        if kind == "nats-server":
            keep_streams_directory(store)
        yield server


@pytest.fixture
def url(server: Server) -> str:
    return f"nats://{server.host}:{server.port}"


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client.connect(url, connect_timeout=30, request_timeout=30) as client:
        yield client


@pytest.fixture
def streams(client: Client) -> Iterator[Streams]:
    streams = Streams(client)
    yield streams
    streams.delete_all()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"

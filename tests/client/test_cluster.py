"""A replicated stream, whose leader dies while it is written and read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.client import Client
from headrace.errors import HeadraceError
from tests.client.streams import Streams
from tests.cluster import running_cluster
from tests.servers import Server

READY_SECONDS = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, Server]]:
    with running_cluster(tmp_path) as servers:
        yield servers


@pytest.fixture
def client(cluster: dict[str, Server]) -> Iterator[Client]:
    servers = [f"{server.host}:{server.port}" for server in cluster.values()]
    with Client.connect(servers, request_timeout=2.0) as client:
        yield client


def create_replicated(client: Client) -> str:
    """As soon as the servers have found each other."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            return Streams(client).create(num_replicas=3)
        except (AssertionError, HeadraceError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def kill_leader(client: Client, cluster: dict[str, Server], stream: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            leader = Streams(client).api(f"STREAM.INFO.{stream}")["cluster"].get("leader")
        except (AssertionError, HeadraceError):
            leader = None  # busy
        if leader:
            break
        assert time.monotonic() < deadline, f"{stream} has no leader"
        time.sleep(0.05)
    cluster[leader].process.kill()


def test_the_leader_dies_while_messages_are_published(client: Client, cluster: dict[str, Server]) -> None:
    name = create_replicated(client)
    publisher = client.publisher(stream=name, max_in_flight=200, ack_timeout=8.0)
    for number in range(20):
        names = [f"{number}-{row}" for row in range(200)]
        publisher.publish("s.a", pa.array(names), msg_ids=pa.array(names))
        if number == 10:
            kill_leader(client, cluster, name)
    assert publisher.flush().acked == 4000
    data = [row for batch in client.fetch_range(name, 1, 4000) for row in batch["data"].to_pylist()]
    assert len(data) == len(set(data)) == 4000


def test_the_leader_dies_while_messages_are_read(client: Client, cluster: dict[str, Server]) -> None:
    name = create_replicated(client)
    publisher = client.publisher(stream=name, max_in_flight=200)
    publisher.publish("s.a", pa.array([b"x" * 16_384] * 2500))
    publisher.flush()
    seqs: list[int] = []
    for number, batch in enumerate(client.fetch_range(name, 1, 2500, batch_rows=50)):
        seqs += batch["seq"].to_pylist()
        if number == 2:
            kill_leader(client, cluster, name)
    assert seqs == list(range(1, 2501))

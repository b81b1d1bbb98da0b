"""What a connection costs the server that does nothing."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Iterator

import pytest

from headrace.bench.wire import open_connections
from headrace.client.addresses import Address
from tests.broker.conftest import HOST, Start

CONNECTIONS = 400
MOST_BYTES = 1250
ALLOCATED_HERE = [
    tracemalloc.Filter(True, f"*/headrace/{part}/*") for part in ("broker", "accounts", "engine")
]


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def kept_bytes() -> int:
    gc.collect()
    snapshot = tracemalloc.take_snapshot().filter_traces(ALLOCATED_HERE)
    return sum(trace.size for trace in snapshot.traces)


def bytes_per_connection(port: int) -> float:
    address = Address(HOST, port)
    with open_connections(address, [b""]):  # what the first one makes for all
        before = kept_bytes()
        with open_connections(address, [b""] * CONNECTIONS):
            return (kept_bytes() - before) / CONNECTIONS


async def test_an_idle_connection_takes_little_memory(start: Start, traced: None) -> None:
    """Equal ones share what they said, where they are from and who they are."""
    running = start()
    assert await asyncio.to_thread(bytes_per_connection, running.broker.port) < MOST_BYTES


async def test_clients_share_what_they_said_unless_it_is_secret(start: Start) -> None:
    running = start()
    for name, secret in (("a", ""), ("a", ""), ("b", ""), ("a", "secret"), ("a", "secret")):
        client = await running.raw()
        await client.connect(name=name, lang="python", **({"pass": secret} if secret else {}))
        await client.ask()
    a, same, b, secret, same_secret = (each.options for each in running.broker.connections.values())
    assert a is same
    assert (a.name, b.name) == ("a", "b")
    assert secret == same_secret
    assert secret is not same_secret
    labels = [str(each).partition(" - cid:")[2] for each in running.broker.connections.values()]
    assert labels[:3] == ['5 - "python:a"', '6 - "python:a"', '7 - "python:b"']

"""The same streams at nats-server and at headrace: /jsz, /varz and /healthz have to say the same."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from tests.monitor.fetch import Response, differing, fetch
from tests.servers import ServerKind, running_server

MONITOR = re.compile(r"Starting http monitor on [\d.]+:(\d+)")
CONFIG = """
http: "127.0.0.1:-1"
server_name: same
jetstream {
  max_mem: 1G, max_file: 2G, domain: hub, unique_tag: AZ, sync_interval: always
  limits { max_ack_pending: 2000, duplicate_window: "5m", batch { max_msgs: 5 } }
}
"""
VOLATILE = {"server_id", "now", "created", "ts", "first_ts", "last_ts", "last_active", "store_dir", "active"}
# nats-server asks its own API on behalf of mirrors; it has a flag for a compression that clusters use.
INTERNAL = {"total", "compress_ok"}

STREAMS: dict[str, dict[str, Any]] = {
    "FILE": {"subjects": ["f.>"], "max_bytes": 100_000},
    "MEMORY": {"subjects": ["m"], "storage": "memory", "max_bytes": 5000},
    "MIRROR": {"mirror": {"name": "FILE"}},
}

QUERIES = [
    "/jsz",
    "/jsz?accounts=1",
    "/jsz?streams=1",
    "/jsz?consumers=1",
    "/jsz?consumers=true&config=1",
    "/jsz?acc=$G",
    "/jsz?acc=$G&streams=1&config=1",
    "/jsz?acc=nobody",
    "/jsz?acc=nobody&streams=1",
    "/jsz?accounts=1&offset=1",
    "/jsz?accounts=1&offset=9223372036854775807&limit=9223372036854775807",
    "/jsz?accounts=1&limit=-1",
    "/jsz?raft=1",
    "/jsz?leader-only=1",
    "/jsz?stream-leader-only=1&streams=1",
    "/jsz?limit=x",
    "/jsz?offset=x",
    "/jsz?streams=maybe",
    "/healthz",
    "/healthz?js-enabled-only=1",
    "/healthz?js-server-only=1",
    "/healthz?account=$G",
    "/healthz?account=nobody",
    "/healthz?account=nobody&details=1",
    "/healthz?account=$G&stream=FILE",
    "/healthz?account=$G&stream=NONE",
    "/healthz?account=$G&stream=NONE&details=1",
    "/healthz?account=$G&stream=FILE&consumer=c",
    "/healthz?account=$G&stream=FILE&consumer=none",
    "/healthz?account=$G&stream=FILE&consumer=none&details=1",
]


async def ask(client: Client, verb: str, body: object) -> None:
    answer = await client.request(f"$JS.API.{verb}", json.dumps(body).encode(), timeout=30)
    assert "error" not in json.loads(answer.data)


@asynccontextmanager
async def populated_server(kind: ServerKind, directory: Path) -> AsyncIterator[int]:
    """The monitoring port of a server with some streams and consumers."""
    with running_server(kind, CONFIG, ["-sd", str(directory)]) as server:
        found = MONITOR.search(server.log())
        assert found
        client = await nats.connect(f"nats://{server.host}:{server.port}")
        for name, config in STREAMS.items():
            await ask(client, f"STREAM.CREATE.{name}", {"name": name, **config})
        consumer = {"durable_name": "c", "name": "c", "ack_policy": "explicit"}
        await ask(client, "CONSUMER.CREATE.FILE.c", {"stream_name": "FILE", "config": consumer})
        for number in range(5):
            await client.request(f"f.{number}", b"payload", timeout=30)
            await client.request("m", b"payload", timeout=30)
        while (await fetch(int(found[1]), "/jsz")).json["messages"] < 15:
            await asyncio.sleep(0.02)
        try:
            yield int(found[1])
        finally:
            await client.close()


def normalise(document: Any) -> Any:
    if isinstance(document, list):
        return sorted((normalise(item) for item in document), key=str)
    if not isinstance(document, dict):
        return document
    return {
        name: "..." if name in VOLATILE else normalise(value)
        for name, value in document.items()
        if name not in INTERNAL
    }


def comparable(target: str, response: Response) -> Any:
    if not response.body.startswith(b"{"):
        return response.status, response.body
    document = response.json
    return response.status, normalise(document["jetstream"] if target == "/varz" else document)


async def test_what_is_reported_about_streams_is_that_of_nats_server(tmp_path: Path) -> None:
    async with (
        populated_server("nats-server", tmp_path / "reference") as reference,
        populated_server("headrace", tmp_path / "ours") as ours,
    ):

        async def ask_both(target: str) -> tuple[Any, Any]:
            theirs, mine = [await fetch(port, target) for port in (reference, ours)]
            return comparable(target, theirs), comparable(target, mine)

        assert await differing([*QUERIES, "/varz"], ask_both) == {}


@pytest.mark.parametrize("kind", ["nats-server", "headrace"])
async def test_without_jetstream_it_is_said_to_be_disabled(kind: ServerKind) -> None:
    with running_server(kind, flags=["-m", "-1"]) as server:
        found = MONITOR.search(server.log())
        assert found
        answer = await fetch(int(found[1]), "/jsz?consumers=1")
        assert (answer.json["disabled"], answer.json["config"]) == (True, {"max_memory": 0, "max_storage": 0})
        refusal = await fetch(int(found[1]), "/jsz?leader-only=1")
        assert (refusal.status, refusal.text) == (400, "filtered response: not leader")
        assert (await fetch(int(found[1]), "/varz")).json["jetstream"] == {}


async def test_a_stream_that_could_not_be_recovered_makes_the_server_unhealthy(tmp_path: Path) -> None:
    async with populated_server("headrace", tmp_path):
        pass
    (tmp_path / "jetstream" / "$G" / "streams" / "FILE" / "meta.json").write_bytes(b"garbage")
    with running_server("headrace", CONFIG, ["-sd", str(tmp_path)]) as server:
        found = MONITOR.search(server.log())
        assert found
        answer = await fetch(int(found[1]), "/healthz")
        assert answer.status == 503
        assert answer.json["error"] == "JetStream stream '$G > FILE' could not be recovered"
        assert (await fetch(int(found[1]), "/healthz?js-enabled-only=1")).status == 200
        assert "FILE" in server.log()

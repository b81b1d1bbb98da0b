"""One account at nats-server and at headrace: what /connz, /subsz, /jsz and /healthz say about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import nats
from nats.aio.msg import Msg

from tests.clients import PATIENCE_SECONDS, flush
from tests.monitor.fetch import differing, fetch, leave
from tests.monitor.test_streams import MONITOR
from tests.servers import ServerKind, running_server

CONFIG = """
http: "127.0.0.1:-1"
server_name: same
jetstream { max_mem: 1G, max_file: 2G, sync_interval: always }
accounts { TEAM { users: [{user: ann, password: pw}, {user: bob, password: pw}], jetstream: LIMITS } }
no_auth_user: ann
"""
CONNECTIONS = [
    "/connz?auth=1",
    "/connz?auth=1&subs=detail&user=bob",
    "/connz?auth=1&state=closed",
    "/connz?acc=TEAM",
    "/connz?acc=TEAM&state=any&auth=1",
    "/connz?acc=$G",
    "/connz?acc=$G&state=any",
    "/connz?acc=nobody",
    "/subsz?subs=1&acc=TEAM&test=foo",
]
STREAMS = [
    "/jsz",
    "/jsz?accounts=1",
    "/jsz?streams=1&config=1",
    "/jsz?acc=TEAM",
    "/jsz?acc=TEAM&streams=1",
    "/jsz?acc=$G",
    "/jsz?acc=$G&streams=1",
    "/healthz",
    "/healthz?account=TEAM",
    "/healthz?account=$G",
    "/healthz?account=TEAM&stream=S",
    "/healthz?account=TEAM&stream=NONE",
]
DIFFERENT = {
    *("server_id", "now", "created", "ts", "first_ts", "last_ts", "store_dir", "compress_ok"),
    *("cid", "port", "start", "stop", "uptime", "idle", "rtt", "last_activity"),
    *("num_subscriptions", "num_cache", "num_inserts", "num_removes", "num_matches"),
    *("cache_hit_rate", "max_fanout", "avg_fanout"),
}


async def ignore(message: Msg) -> None:
    pass


@asynccontextmanager
async def populated_server(kind: ServerKind, directory: Path, limits: str) -> AsyncIterator[int]:
    """The monitoring port of a server with two clients, one that has left, and perhaps a stream.

    nats-server answers a request before it has counted it: what a client sent is counted once its reader has
    parsed it, which a flush proves, and an API request is in flight until its goroutine runs again.
    """
    with running_server(kind, CONFIG.replace("LIMITS", limits), ["-sd", str(directory)]) as server:
        found = MONITOR.search(server.log())
        assert found
        port = int(found[1])
        url = f"127.0.0.1:{server.port}"
        connect = partial(nats.connect, allow_reconnect=False, connect_timeout=PATIENCE_SECONDS)
        ann = await connect(f"nats://{url}")
        bob = await connect(f"nats://bob:pw@{url}")
        await bob.subscribe("foo", cb=ignore)
        await flush(bob)
        await leave(port, await connect(f"nats://bob:pw@{url}"))
        if limits != "disabled":
            streams = ann.jetstream(timeout=PATIENCE_SECONDS)
            await streams.add_stream(name="S", subjects=["s"], max_bytes=500)
            await streams.publish("s", b"payload")
            await flush(ann)
        while not (await fetch(port, "/connz?state=closed")).json["total"]:
            await asyncio.sleep(0.01)
        while (await fetch(port, "/jsz")).json["api"].get("inflight"):
            await asyncio.sleep(0.01)
        try:
            yield port
        finally:
            await ann.close()
            await bob.close()


def normalise(document: Any) -> Any:
    if isinstance(document, list):
        return [normalise(item) for item in document]
    if not isinstance(document, dict):
        return document
    shown = {name: normalise(value) for name, value in document.items() if name not in DIFFERENT}
    if shown.get("in_msgs"):  # it asked for something, and answers hold times, whose last zeros are left out
        shown.pop("out_bytes", None)
    return shown


async def compare(directory: Path, limits: str, targets: list[str]) -> None:
    async with (
        populated_server("nats-server", directory / "reference", limits) as reference,
        populated_server("headrace", directory / "ours", limits) as ours,
    ):

        async def ask_both(target: str) -> tuple[Any, Any]:
            theirs, mine = [await fetch(port, target) for port in (reference, ours)]
            return (theirs.status, normalise(theirs.json)), (mine.status, normalise(mine.json))

        assert await differing(targets, ask_both) == {}


async def test_what_is_reported_about_the_account_is_that_of_nats_server(tmp_path: Path) -> None:
    await compare(tmp_path, "{ max_mem: 1000, max_file: 5000 }", CONNECTIONS + STREAMS)


async def test_what_is_reported_about_an_account_without_limits_is_that_of_nats_server(
    tmp_path: Path,
) -> None:
    await compare(tmp_path, "enabled", STREAMS)


async def test_what_is_reported_about_an_account_without_streams_is_that_of_nats_server(
    tmp_path: Path,
) -> None:
    await compare(tmp_path, "disabled", STREAMS)

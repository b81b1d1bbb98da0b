"""Several accounts at nats-server and at headrace: what the monitor says about each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats

from tests.clients import flush
from tests.monitor.fetch import differing, fetch, leave
from tests.monitor.test_account import ignore, normalise
from tests.monitor.test_streams import MONITOR
from tests.servers import ServerKind, running_server

CONFIG = """
http: "127.0.0.1:-1"
server_name: same
jetstream { max_mem: 1G, max_file: 2G, sync_interval: always }
accounts {
  A {
    users: [{user: a, password: x}, {user: gone, password: x}]
    jetstream: {max_mem: 1000}
    exports: [{stream: ">"}]
  }
  B { users: [{user: b, password: x}], jetstream: enabled, imports: [{stream: {account: A, subject: "s"}}] }
  C { users: [{user: c, password: x}] }
}
authorization { users: [{user: g, password: x}] }
"""
TARGETS = [
    *(
        f"/connz?acc={name}{more}"
        for name in ("A", "B", "C", "$G", "NONE")
        for more in ("", "&auth=1&state=any")
    ),
    "/connz?auth=1&subs=detail",
    "/connz?acc=A&subs=1",
    *(f"/subsz?subs=1&acc={name}&test=t" for name in ("A", "B", "C", "$G", "NONE")),
    "/subsz?subs=1&test=t",
    *(f"/jsz?acc={name}&streams=1" for name in ("A", "B", "C", "$G", "NONE")),
    "/jsz",
    "/jsz?accounts=1",
    "/jsz?accounts=1&streams=1",
    "/jsz?accounts=1&offset=1",
    *(f"/healthz?account={name}" for name in ("A", "B", "C", "$G", "NONE")),
]


@asynccontextmanager
async def populated_server(kind: ServerKind, directory: Path) -> AsyncIterator[int]:
    with running_server(kind, CONFIG, ["-sd", str(directory)]) as server:
        found = MONITOR.search(server.log())
        assert found
        url = f"127.0.0.1:{server.port}"
        clients = [await nats.connect(f"nats://{user}:x@{url}", allow_reconnect=False) for user in "abcg"]
        gone = await nats.connect(f"nats://gone:x@{url}", allow_reconnect=False)
        for client in clients:
            await client.subscribe("t", cb=ignore)
            await flush(client)
        for client in clients[:2]:
            await client.jetstream().add_stream(name="S", subjects=["own"])
        await leave(int(found[1]), gone)
        while not (await fetch(int(found[1]), "/connz?state=closed")).json["total"]:
            await asyncio.sleep(0.01)
        try:
            yield int(found[1])
        finally:
            for client in clients:
                await client.close()


async def test_what_is_reported_about_each_account_is_that_of_nats_server(tmp_path: Path) -> None:
    async with (
        populated_server("nats-server", tmp_path / "reference") as reference,
        populated_server("headrace", tmp_path / "ours") as ours,
    ):

        async def ask_both(target: str) -> tuple[object, object]:
            theirs, mine = [await fetch(port, target) for port in (reference, ours)]
            return (theirs.status, sort(normalise(theirs.json))), (mine.status, sort(normalise(mine.json)))

        assert await differing(TARGETS, ask_both) == {}


def sort(document: object) -> object:
    """nats-server lists accounts and subscriptions in any order; the names of inboxes are random."""
    if isinstance(document, str) and document.startswith("_INBOX."):
        return "_INBOX"
    if isinstance(document, dict):
        return {name: sort(value) for name, value in document.items()}
    if isinstance(document, list):
        return sorted((sort(one) for one in document), key=repr)
    return document

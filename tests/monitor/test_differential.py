"""The same clients at nats-server and at headrace: their monitoring ports have to say the same.

What has to differ is named in this file; everything else that differs is a failure.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg

from tests.clients import flush
from tests.monitor.fetch import Response, differing, fetch, leave
from tests.servers import ServerKind, running_server

MONITOR = re.compile(r"Starting http monitor on [\d.]+:(\d+)")

FIRST_CLIENT_ID = 5
UNTRUE_HERE = {"git_commit", "feature_flags"}
VOLATILE = {
    "server_id",
    "server_name",
    "go",
    "port",
    "start",
    "now",
    "uptime",
    "mem",
    "cpu",
    "gomaxprocs",
    "config_load_time",
    "config_digest",
    "last_activity",
    "stop",
    "rtt",
    "idle",
}
# nats-server has subscriptions of its own, and a cache that works in another way.
INTERNAL = {
    "/varz": {"subscriptions"},
    "/subsz": {
        "num_subscriptions",
        "num_cache",
        "num_inserts",
        "num_removes",
        "num_matches",
        "cache_hit_rate",
        "max_fanout",
        "avg_fanout",
    },
}

CONFIG = """
http: "127.0.0.1:-1"
max_subscriptions: 100
ping_interval: "90s"
max_payload: 2MB
server_tags: ["a:b", "c"]
server_metadata: {x: y}
authorization { users: [{user: ann, password: pw}, {user: bob, password: pw}], timeout: 30.5 }
no_auth_user: ann
"""

QUERIES = [
    "/varz",
    "/varz?callback=x",
    "/connz",
    "/connz?subs=1&auth=1",
    "/connz?subs=DETAIL",
    "/connz?auth=true&state=closed&sort=stop",
    "/connz?state=all&sort=cid",
    "/connz?state=closed&sort=reason",
    "/connz?sort=subs",
    "/connz?sort=bytes_to&limit=1",
    "/connz?sort=msgs_from&limit=1",
    "/connz?sort=uptime",
    "/connz?offset=1",
    "/connz?offset=1000000000000000000",
    "/connz?offset=9223372036854775807&limit=9223372036854775807",
    "/connz?offset=-3&limit=-1",
    "/connz?cid=5",
    "/connz?cid=5&state=closed",
    "/connz?cid=7&state=any",
    "/connz?cid=18446744073709551615",
    "/connz?user=bob",
    "/connz?user=bob&state=any&auth=1",
    "/connz?user=eve",
    "/connz?acc=$G",
    "/connz?acc=$G&state=closed",
    "/connz?acc=$G&state=any",
    "/connz?acc=nobody",
    "/connz?acc=nobody&sort=subs&offset=3",
    "/connz?mqtt_client=x",
    "/connz?filter_subject=nothing.here",
    "/connz?unknown=%zz&limit=1;2",
    "/subsz?acc=$G",
    "/subsz?subs=1&acc=nobody",
    "/subsz?subs=1&test=a.b.c",
    "/subsz?subs=1&test=q.x",
    "/subscriptionsz?subs=t&test=nobody.listens",
    "/subsz?subs=1&test=a.other&limit=1",
    "/subsz?subs=1&test=q.x&offset=1000000000000000000",
    "/healthz",
    "/healthz?js-enabled=1&js-enabled-only=1&js-server-only=1&js-meta-only=1&details=1",
    "/healthz?account=$G&stream=s&consumer=c",
    "/healthz?stream=s",
    "/healthz?stream=s&details=1",
    "/healthz?consumer=c",
    "/healthz?account=a&consumer=c&details=1",
]

BAD_QUERIES = [
    "/connz?auth=yes",
    "/connz?subs=details",
    "/connz?offset=x",
    "/connz?offset=1.5",
    "/connz?limit=9223372036854775808",
    "/connz?limit=-9223372036854775809",
    "/connz?limit=1_000",
    "/connz?limit=+5",
    "/connz?limit=%00%7f%22%5c%0a",
    "/connz?limit=%ff%c3%a9%e2%80%a8%f3%a0%80%81",
    "/connz?cid=-1",
    "/connz?cid=18446744073709551616",
    "/connz?cid=0x5",
    "/connz?state=half",
    "/connz?sort=size",
    "/connz?sort=stop",
    "/connz?sort=reason&state=any",
    "/connz?sort=bad&limit=bad&state=bad",
    "/subsz?subs=detail",
    "/subsz?offset=bad",
    "/subsz?limit=bad",
    "/subsz?test=a.*",
    "/subsz?test=a..b",
    "/subsz?test=>",
    "/subsz?test=.",
    "/healthz?details=2",
    "/healthz?js-enabled=no",
    "/healthz?js-enabled-only=no",
    "/healthz?js-server-only=no",
    "/healthz?js-meta-only=no",
    "/nothing",
    "/varz/",
    "/VARZ",
]


async def ignore(message: Msg) -> None:
    pass


@asynccontextmanager
async def populated_server(kind: ServerKind) -> AsyncIterator[int]:
    """The monitoring port of a server with clients that stay, clients that left and some traffic.

    nats-server has clients of its own, the last of which may come a moment after it is ready, and then has
    the id that a client would have had. Such a server is replaced.
    """
    is_populated = False
    while not is_populated:
        async with AsyncExitStack() as clients:
            server = clients.enter_context(running_server(kind, CONFIG))
            url = f"nats://127.0.0.1:{server.port}"
            found = MONITOR.search(server.log())
            assert found

            async def connect(**options: Any) -> nats.NATS:
                client = await nats.connect(url, allow_reconnect=False, **options)  # noqa: B023
                clients.push_async_callback(client.close)
                return client

            ann = await connect(user="ann", password="pw", name="<ann> & co")
            is_populated = kind == "headrace" or ann.client_id == FIRST_CLIENT_ID
            if not is_populated:
                continue
            bob = await connect(user="bob", password="pw")
            gone = await connect(user="bob", password="pw", name="gone")
            nobody = await connect()
            await ann.subscribe("a.>", cb=ignore)
            await ann.subscribe("q.*", queue="workers", cb=ignore)
            # One more than bob has, and more bytes below: where two are equal any order is right.
            await ann.subscribe("ann.alone", cb=ignore)
            await flush(ann)
            await bob.subscribe("q.x", cb=ignore)
            limited = await bob.subscribe("a.b.c", cb=ignore)
            await limited.unsubscribe(10)
            third = await bob.subscribe("third", cb=ignore)
            await flush(bob)
            for _ in range(3):
                await nobody.publish("a.b.c", b"12345")
            await nobody.publish("q.x", b"1")
            await nobody.publish("a.other", b"1")
            await flush(nobody)
            await third.unsubscribe()
            await flush(bob)
            await leave(int(found[1]), gone)
            while (await fetch(int(found[1]), "/connz?state=closed")).json["total"] < 1:
                await asyncio.sleep(0.01)
            yield int(found[1])


def normalise(path: str, document: Any) -> Any:
    """The document without what has to differ; the order of keys counts."""
    if isinstance(document, list):
        items = [normalise(path, item) for item in document]
        # nats-server keeps subscriptions in maps, which have no order.
        is_unordered = all(isinstance(item, str) or "sid" in dict(item) for item in items)
        return sorted(items, key=str) if is_unordered else items
    if not isinstance(document, dict):
        return document
    return [
        (name, "..." if name in VOLATILE or name in INTERNAL.get(path, ()) else normalise("", value))
        for name, value in document.items()
        if name not in UNTRUE_HERE
    ]


def comparable(target: str, response: Response) -> Any:
    headers = {name: response.headers.get(name) for name in ("content-type", "access-control-allow-origin")}
    if response.status == 200:
        path = target.partition("?")[0].replace("subscriptionsz", "subsz")
        document = response.json
        # The requests so far: compared as such below.
        document.pop("http_req_stats", None)
        return response.status, headers, normalise(path, document)
    return response.status, headers, response.body


async def test_every_answer_is_that_of_nats_server() -> None:
    async with populated_server("nats-server") as reference, populated_server("headrace") as ours:

        async def ask_both(target: str) -> tuple[Any, Any]:
            theirs, mine = [await fetch(port, target) for port in (reference, ours)]
            return comparable(target, theirs), comparable(target, mine)

        assert await differing(QUERIES + BAD_QUERIES, ask_both) == {}
        counts = [(await fetch(port, "/varz")).json["http_req_stats"] for port in (reference, ours)]
        # Each server was asked for /connz as often as it took until the client had left.
        for count in counts:
            del count["/connz"]
        assert counts[0] == counts[1]


async def test_answers_have_the_form_of_nats_server() -> None:
    async with populated_server("nats-server") as reference, populated_server("headrace") as ours:
        for target in ("/connz?auth=1&cid=5", "/subsz?subs=1&test=a.other", "/connz?acc=nobody"):
            texts = [(await fetch(port, target)).text for port in (reference, ours)]
            shapes = [re.sub(r'"[N0-9][^"]*"|\d+(\.\d+)?', "?", text) for text in texts]
            assert shapes[0] == shapes[1]


@pytest.mark.parametrize("kind", ["nats-server", "headrace"])
async def test_a_token_is_not_shown(kind: ServerKind) -> None:
    with running_server(kind, flags=["-m", "-1", "--auth", "canary-5ecret"]) as server:
        found = MONITOR.search(server.log())
        assert found
        client = await nats.connect(f"nats://canary-5ecret@127.0.0.1:{server.port}")
        response = await fetch(int(found[1]), "/connz?auth=1")
        await client.close()
        assert response.json["connections"][0]["authorized_user"] == "[REDACTED]"
        assert "canary" not in response.text
        assert "canary" not in server.log()


@pytest.mark.parametrize("kind", ["nats-server", "headrace"])
def test_a_taken_port_ends_the_server(kind: ServerKind) -> None:
    with running_server("nats-server", flags=["-m", "-1"]) as server:
        found = MONITOR.search(server.log())
        assert found
        with pytest.raises(RuntimeError) as failure, running_server(kind, flags=["-m", found[1]]):
            pass
    expected = (
        "[FTL] Can't start monitoring: can't listen to the monitor port: "
        f"listen tcp 127.0.0.1:{found[1]}: bind: address already in use"
    )
    assert expected in str(failure.value)

"""Every parameter of every endpoint, at nats-server and at headrace: status, headers and documents agree."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig

from headrace.monitor.monitor import ROUTES
from tests.clients import flush
from tests.monitor.conftest import Starter
from tests.monitor.fetch import Response, differing, fetch
from tests.monitor.parameters import PARAMETERS, targets
from tests.servers import ServerKind, running_server

CONFIG = """
http: "127.0.0.1:-1"
server_name: one
server_tags: ["a:b"]
jetstream: {{store_dir: "{directory}", max_mem: 1GB, max_file: 1GB}}
accounts {{
  A {{
    jetstream: enabled
    users: [{{user: a, password: a}}]
    exports: [{{service: "svc.x"}}, {{service: "svc.y", response: stream}}, {{stream: "st.x", accounts: [B]}}]
    mappings: {{"m.a": "m.b", "w.*": [{{destination: "v.$1", weight: 40%}}]}}
  }}
  B {{
    jetstream: enabled
    users: [{{user: b, password: b}}]
    imports: [
      {{service: {{account: A, subject: "svc.x"}}, to: "b.svc"}}
      {{stream: {{account: A, subject: "st.x"}}, prefix: "p"}}
    ]
  }}
  SYS {{ users: [{{user: s, password: s}}] }}
}}
system_account: SYS
"""
INBOX = re.compile(r"^_INBOX\.\w+")
MONITOR = re.compile(r"Starting http monitor on [\d.]+:(\d+)")

# What is named here is compared by its type: it is another value in every process, or counts something else.
VOLATILE = {
    *("server_id", "cid", "go", "port", "start", "now", "uptime", "mem", "cpu", "gomaxprocs", "stop", "rtt"),
    *("last_activity", "idle", "config_load_time", "config_digest", "update_time", "created", "ts"),
    *("last_ts", "first_ts", "store_dir", "storage", "bytes", "subscriptions", "num_subscriptions"),
    *("num_cache", "num_inserts", "num_removes", "num_matches", "cache_hit_rate", "max_fanout", "avg_fanout"),
    *("in_bytes", "out_bytes", "in_msgs", "out_msgs", "in_client_bytes", "in_client_msgs"),
    *("out_client_msgs", "out_client_bytes", "sync_interval", "http_req_stats", "pending_bytes"),
}
# Here, acknowledged messages are on disk by default.
UNORDERED = {"sid", "local_subject", "response_type", "approved_accounts", "acc"}
MAPS_IN_GO = {"exports", "imports"}
BINARY = "application/octet-stream"
UNTRUE_HERE = {"git_commit", "feature_flags", "compress_ok", "sync_always"}
# The form alone: nats-server has queues, and shows the memory of Go.
ONLY_THE_FORM = ("/ipqueuesz", "/stacksz", "/debug/vars")
# nats-server's own subscriptions are in its list.
INCOMPARABLE = re.compile(r"/subsz\?.*subs=(1|t|T|true)(?!.*test=(foo\.x|nobody))|/accountz\?acc=SYS")


async def ignore(message: Msg) -> None:
    pass


@asynccontextmanager
async def populated_server(kind: ServerKind, directory: Path) -> AsyncIterator[tuple[int, str]]:
    """The monitoring port and the address of a server with accounts, clients, a stream and a consumer."""
    with running_server(kind, CONFIG.format(directory=directory / kind)) as server:
        url = f"nats://127.0.0.1:{server.port}"
        found = MONITOR.search(server.log())
        assert found
        async with AsyncExitStack() as clients:
            connected = []
            for user in ("a", "b", "s"):
                client = await nats.connect(url, user=user, password=user, name=f"<{user}>")
                clients.push_async_callback(client.close)
                connected.append(client)
            ann, bob, admin = connected
            await ann.subscribe("foo.*", cb=ignore)
            # Each has another number of them: where two are equal any order is right.
            for number in range(4):
                await bob.subscribe(f"bar.{number}", cb=ignore)
            for number in range(3):
                await admin.subscribe(f"bar.{number}", cb=ignore)
            await flush(ann)
            await flush(admin)
            await bob.publish("foo.x", b"12345")
            await flush(bob)
            stream = ann.jetstream()
            await stream.add_stream(name="S", subjects=["s.>"])
            await stream.publish("s.1", b"x")
            await stream.add_consumer("S", ConsumerConfig(durable_name="C"))
            await flush(ann)
            while (await fetch(int(found[1]), "/jsz")).json["api"].get("inflight"):
                await asyncio.sleep(0.01)  # until nats-server has noted that it has answered
            yield int(found[1]), url


def normalise(value: Any) -> Any:
    """Without what has to differ. Lists that Go makes of maps have no order."""
    if isinstance(value, list):
        items = [normalise(item) for item in value]
        has_order = any(not isinstance(item, str) and not dict(item).keys() & UNORDERED for item in items)
        return items if has_order else sorted(items, key=str)
    if isinstance(value, str):
        return INBOX.sub("_INBOX", value)
    if not isinstance(value, dict):
        return value
    fields = [
        (name, kind_of(item) if name in VOLATILE else normalise(item))
        for name, item in value.items()
        if name not in UNTRUE_HERE
    ]
    return [(name, sorted(item, key=str) if name in MAPS_IN_GO and item else item) for name, item in fields]


def kind_of(value: Any) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__


def comparable(target: str, response: Response) -> Any:
    names = ("content-type", "access-control-allow-origin")
    headers = {name: response.headers.get(name) for name in names}
    if headers["content-type"] == BINARY:  # Go guesses by the bytes of the error
        headers["content-type"] = "text/plain; charset=utf-8"
    if response.status != 200 and "json" not in str(headers["content-type"]):
        return response.status, headers, response.body
    if target.startswith(ONLY_THE_FORM) or INCOMPARABLE.match(target):
        return response.status, headers
    return response.status, headers, normalise(response.json)


async def test_every_value_of_every_parameter_is_answered_as_by_nats_server(tmp_path: Path) -> None:
    async with (
        populated_server("nats-server", tmp_path) as (reference, _),
        populated_server("headrace", tmp_path) as (ours, _),
    ):

        async def ask_both(target: str) -> tuple[Any, Any]:
            theirs, mine = [await fetch(port, target) for port in (reference, ours)]
            return comparable(target, theirs), comparable(target, mine)

        assert await differing(targets(seed=14, combinations=200), ask_both) == {}


async def test_the_memory_statistics_have_the_fields_of_go(tmp_path: Path) -> None:
    async with (
        populated_server("nats-server", tmp_path) as (reference, _),
        populated_server("headrace", tmp_path) as (ours, _),
    ):
        documents = [(await fetch(port, "/debug/vars")).json for port in (reference, ours)]
    shapes = [{name: kind_of(value) for name, value in one["memstats"].items()} for one in documents]
    assert shapes[0] == shapes[1]
    assert [type(one["cmdline"]) for one in documents] == [list, list]
    assert len(documents[1]["cmdline"]) == 1, "arguments may be passwords"


def test_all_endpoints_are_asked() -> None:
    assert {*PARAMETERS, "/", "/subscriptionsz"} == set(ROUTES)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
async def test_endpoints_are_only_read(start: Starter, method: str) -> None:
    server = await start()
    assert server.monitor
    for path in ROUTES:
        response = await fetch(server.monitor.port, path, method=method)
        assert (response.status, response.headers["allow"]) == (405, "GET, HEAD")
    assert (await fetch(server.monitor.port, "/healthz")).status == 200


async def test_a_callback_is_not_wrapped_around_an_answer(start: Starter) -> None:
    """JSONP let any page on the web read the answer, and run what a link had put into its name."""
    server = await start()
    assert server.monitor
    for path in ROUTES.keys() - {"/", "/raftz", "/stacksz"}:
        response = await fetch(server.monitor.port, f"{path}?callback=alert(1)//")
        assert response.headers["content-type"].startswith("application/json")
        assert b"alert" not in response.body
        assert isinstance(response.json, dict)


async def test_the_stacks_name_the_thread_that_serves(start: Starter) -> None:
    server = await start()
    assert server.monitor
    assert "MainThread:\n" in (await fetch(server.monitor.port, "/stacksz")).text

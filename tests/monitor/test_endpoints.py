"""What the endpoints say of a server whose clients are known."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from nats.aio.msg import Msg

from headrace.errors import UsageError
from headrace.monitor.monitor import ROUTES
from tests.clients import flush
from tests.monitor.conftest import Connecter, Starter
from tests.monitor.fetch import fetch

MANUAL = Path(__file__).parents[2] / "docs" / "monitoring.md"


async def ignore(message: Msg) -> None:
    pass


async def ask(server: Any, target: str) -> Any:
    response = await fetch(server.monitor.port, target)
    assert response.status == 200, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["access-control-allow-origin"] == "*"
    return response.json


def time_of(document: Any, name: str) -> datetime:
    """To be compared as a time: of two texts the one with the shorter fraction may be the larger one."""
    return datetime.fromisoformat(document[name])


async def test_varz_counts_messages_connections_and_subscriptions(start: Starter, connect: Connecter) -> None:
    server = await start(
        server_name="mill", tags=("a:b",), metadata={"x": "y"}, ping_interval=90.5, auth_timeout=30.5
    )
    own = sum(account.interest.count for account in server.broker.accounts)
    receiver = await connect(server.broker.port)
    sender = await connect(server.broker.port)
    await receiver.subscribe("wheel.*", cb=ignore)
    await receiver.subscribe("wheel.>", cb=ignore)
    await flush(receiver)
    for _ in range(3):
        await sender.publish("wheel.turn", b"12345")
    await flush(sender)
    varz = await ask(server, "/varz")
    expected = {
        "server_name": "mill",
        "version": "2.15.1",
        "port": server.broker.port,
        "http_port": -1,
        "connections": 2,
        "total_connections": 2,
        "subscriptions": own + 2,
        "in_msgs": 3,
        "in_bytes": 15,
        "in_client_msgs": 3,
        "out_msgs": 6,
        "out_bytes": 30,
        "out_client_bytes": 30,
        "ping_interval": 90_500_000_000,
        "auth_timeout": 30.5,
        "write_deadline": 10_000_000_000,
        "tags": ["a:b"],
        "metadata": {"x": "y"},
        "http_req_stats": {"/varz": 1},
        "slow_consumers": 0,
    }
    assert {name: varz[name] for name in expected} == expected
    assert varz["mem"] > 1_000_000
    assert varz["start"] == varz["config_load_time"]
    assert time_of(varz, "start") <= time_of(varz, "now")


async def test_connz_shows_each_connection(start: Starter, connect: Connecter) -> None:
    server = await start()
    first = await connect(server.broker.port, name="<first>")
    second = await connect(server.broker.port)
    await first.subscribe("q.*", queue="workers", cb=ignore)
    limited = await first.subscribe("few", cb=ignore)
    await limited.unsubscribe(5)
    await flush(first)
    await second.publish("few", b"abc")
    await flush(second)
    connz = await ask(server, "/connz?subs=detail&auth=1")
    assert (connz["num_connections"], connz["total"], connz["limit"]) == (2, 2, 1024)
    shown = connz["connections"][0]
    assert shown["name"] == "<first>"
    assert shown["lang"] == "python3"
    assert (shown["out_msgs"], shown["out_bytes"], shown["subscriptions"]) == (1, 3, 2)
    assert "authorized_user" not in shown
    assert shown["subscriptions_list_detail"] == [
        {"subject": "q.*", "qgroup": "workers", "sid": "1", "msgs": 0, "cid": 5},
        {"subject": "few", "sid": "2", "msgs": 1, "max": 5, "cid": 5},
    ]
    assert connz["connections"][1]["in_msgs"] == 1
    assert "subscriptions_list" not in (await ask(server, "/connz"))["connections"][0]
    assert (await ask(server, "/connz?subs=1"))["connections"][0]["subscriptions_list"] == ["q.*", "few"]


@pytest.mark.parametrize(
    ("query", "cids"),
    [
        ("", [5, 6, 7]),
        ("sort=msgs_from", [7, 6, 5]),
        ("sort=bytes_from", [7, 6, 5]),
        ("sort=subs", [6, 5, 7]),
        ("sort=start", [5, 6, 7]),
        ("sort=uptime", [7, 6, 5]),
        ("offset=1&limit=1", [6]),
        ("offset=3", []),
        ("offset=9223372036854775807&limit=9223372036854775807", []),
        ("offset=1000000000000000000", []),
        ("offset=-9223372036854775808&limit=-1", [5, 6, 7]),
        ("cid=6", [6]),
        ("cid=6&state=closed", []),
        ("cid=18446744073709551615", []),
        ("user=bob", [6]),
        ("user=eve", []),
        ("acc=$G", [5, 6, 7]),
        ("mqtt_client=x", []),
        ("state=OPEN", [5, 6, 7]),
        ("filter_subject=none", [5, 6, 7]),
    ],
)
async def test_connz_selects_and_sorts(
    query: str, cids: list[int], start: Starter, connect: Connecter
) -> None:
    server = await start()
    for number, user in enumerate(("ann", "bob", "cyd")):
        client = await connect(server.broker.port, user=user, password="")
        for _ in range(number):
            await client.publish("x", b"abc")
        await flush(client)
        if user == "bob":
            await client.subscribe("a", cb=ignore)
            await client.subscribe("b", cb=ignore)
        if user == "ann":
            await client.subscribe("a", cb=ignore)
        await flush(client)
    connz = await ask(server, f"/connz?{query}")
    assert [connection["cid"] for connection in connz["connections"]] == cids
    assert connz["num_connections"] == len(cids)


async def test_connz_remembers_closed_connections(start: Starter, connect: Connecter) -> None:
    server = await start(max_closed_clients=2)
    for name in ("one", "two", "three"):
        client = await connect(server.broker.port, name=name, user=name, password="")
        await flush(client)  # it has read all that the server sent, so that its end is not a reset
        await client.close()
    while server.broker.connections:
        await asyncio.sleep(0.01)
    connz = await ask(server, "/connz?state=closed&auth=1&sort=stop")
    assert [shown["authorized_user"] for shown in connz["connections"]] == ["three", "two"]
    assert {shown["reason"] for shown in connz["connections"]} == {"Client Closed"}
    for shown in connz["connections"]:
        begin, last, stop = (time_of(shown, name) for name in ("start", "last_activity", "stop"))
        assert begin <= last <= stop
    assert (await ask(server, "/connz"))["total"] == 0
    assert (await ask(server, "/connz?state=any"))["total"] == 2


async def test_connz_shows_what_a_client_has_not_read(start: Starter, connect: Connecter) -> None:
    server = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.broker.port, limit=1024)
    writer.write(b'CONNECT {"verbose":false}\r\nSUB big 1\r\nPING\r\n')
    while b"PONG" not in await reader.readline():
        pass
    reader._transport.pause_reading()  # type: ignore[attr-defined]
    sender = await connect(server.broker.port)
    for _ in range(16):
        await sender.publish("big", bytes(1_000_000))
    await flush(sender)
    pending = [shown["pending_bytes"] for shown in (await ask(server, "/connz?sort=pending"))["connections"]]
    assert pending[0] > 1_000_000
    assert pending[1] == 0
    writer.transport.abort()


async def test_subsz_lists_what_a_subject_would_reach(start: Starter, connect: Connecter) -> None:
    server = await start()
    own = server.broker.interest.count
    client = await connect(server.broker.port)
    other = await connect(server.broker.port)
    for subject in ("a.*", "a.>", "b"):
        await client.subscribe(subject, cb=ignore)
    await other.subscribe("a.b", queue="q", cb=ignore)
    await flush(client)
    await flush(other)
    for subject in ("a.b", "b", "c", "a.b", "b", "c", "c"):  # the second time they are cached
        await client.publish(subject, b"")
    await flush(client)
    plain = await ask(server, "/subsz?acc=$G")
    assert (plain["num_subscriptions"], plain["num_inserts"], plain["num_removes"]) == (own + 4, own + 4, 0)
    assert (plain["num_matches"], plain["num_cache"], plain["cache_hit_rate"]) == (7, 3, 1 / 7)
    assert (plain["max_fanout"], plain["avg_fanout"]) == (3, 4 / 3)
    assert "subscriptions_list" not in plain

    async def subjects(query: str) -> list[str]:
        answer = await ask(server, f"/subscriptionsz?subs=1&{query}")
        return [one["subject"] for one in answer.get("subscriptions_list", [])]

    assert await subjects("") == ["a.*", "a.>", "b", "a.b"]
    assert sorted(await subjects("test=a.b")) == ["a.*", "a.>", "a.b"]
    assert await subjects("test=nobody") == []
    assert await subjects("offset=1&limit=1") == ["a.>"]
    assert await subjects("offset=2") == ["b", "a.b"]
    assert await subjects("offset=3&limit=9223372036854775807") == ["a.b"]
    assert await subjects("offset=1000000000000000000") == []
    assert await subjects("acc=nobody") == []
    detail = (await ask(server, "/subsz?subs=1&offset=3"))["subscriptions_list"]
    assert detail == [
        {
            "account": "$G",
            "account_tag": "$G",
            "subject": "a.b",
            "qgroup": "q",
            "sid": "1",
            "msgs": 2,
            "cid": 6,
        }
    ]


async def test_a_lame_duck_is_not_healthy(start: Starter, connect: Connecter) -> None:
    server = await start(lame_duck_grace_period=30.0, lame_duck_duration=60.0)
    await connect(server.broker.port)
    assert await ask(server, "/healthz") == {"status": "ok"}
    server.enter_lame_duck()
    while server.broker.is_accepting:
        await asyncio.sleep(0)
    response = await fetch(server.monitor.port, "/healthz")
    assert response.status == 500
    assert response.json == {
        "status": "error",
        "error": "failed to be ready for connections after 1ms: server",
    }
    assert (await fetch(server.monitor.port, "/healthz?details=1")).json["errors"][0]["type"] == "CONNECTION"


async def test_the_root_page_links_the_endpoints(start: Starter) -> None:
    server = await start(http_base_path="/mill")
    page = await fetch(server.monitor.port, "/mill")
    assert page.status == 200
    assert page.headers["content-type"].startswith("text/html")
    for path in ("/varz", "/connz", "/subsz", "/healthz"):
        assert f'href="./mill{path}"' in page.text
        assert (await fetch(server.monitor.port, f"/mill{path}")).status == 200
        assert (await fetch(server.monitor.port, path)).status == 404


async def test_a_taken_port_is_named(start: Starter) -> None:
    server = await start()
    port = server.monitor.port
    text = f"can't listen to the monitor port: listen tcp 127.0.0.1:{port}: bind: address already in use"
    with pytest.raises(UsageError, match=text):
        await start(http_port=port)


async def test_a_reload_shows_in_varz(start: Starter) -> None:
    server = await start()
    before = await ask(server, "/varz")
    server.broker.reload(server.options, auth_changed=False, info_changed=False)
    after = await ask(server, "/varz")
    assert time_of(after, "config_load_time") >= time_of(before, "config_load_time")
    assert after["config_load_time"] != before["config_load_time"]
    assert after["start"] == before["start"]


@pytest.mark.parametrize("path", ROUTES)
def test_every_route_is_documented(path: str) -> None:
    assert f"## `{path}`" in MANUAL.read_text() or f"`{path}` is an alias" in MANUAL.read_text()

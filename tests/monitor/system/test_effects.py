"""What requests of the system account do, and what they cost the others."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from headrace.config.identity import SYSTEM_ACCOUNT, AccountOptions, User
from headrace.http.peer import PIECE_BYTES
from headrace.monitor.accstatz import CONNECTIONS_IN_A_TURN, sum_traffic
from headrace.monitor.system.answers import ACCOUNT_ROUTES, SERVER_ROUTES
from headrace.monitor.system.line import MAX_WAITING
from tests.clients import PATIENCE_SECONDS, flush
from tests.monitor.conftest import Connecter, Starter
from tests.monitor.fetch import fetch
from tests.monitor.system.peer import Peer
from tests.servers import Server, ServerKind, running_server

CONFIG = """
http: "127.0.0.1:-1"
max_payload: 1000
accounts: {
  A: {users: [{user: a, password: a}]}
  $SYS: {users: [{user: s, password: s}]}
}
"""
MANUAL = Path(__file__).parents[3] / "docs" / "monitoring.md"
UNUSED = {"ROUTEZ", "GATEWAYZ", "LEAFZ", "IPQUEUESZ", "RAFTZ", "PROFILEZ"}  # their options have no effect
KINDS: list[ServerKind] = ["nats-server", "headrace"]
OWN_CONNZ = "$SYS.REQ.ACCOUNT.PING.CONNZ"
USERS = {
    "accounts": (AccountOptions("A"), AccountOptions("B"), AccountOptions(SYSTEM_ACCOUNT)),
    "users": (
        User("a", "a", account="A"),
        User("b", "b", account="B"),
        User("s", "s", account=SYSTEM_ACCOUNT),
    ),
}


async def ignore(message: Msg) -> None:
    pass


@asynccontextmanager
async def system_client(server: Server) -> AsyncIterator[tuple[Client, str]]:
    """A client in the system account, and the subject of requests to this server."""
    client = await nats.connect(f"nats://127.0.0.1:{server.port}", user="s", password="s")
    try:
        answer = await client.request("$SYS.REQ.SERVER.PING.IDZ", timeout=30)
        yield client, f"$SYS.REQ.SERVER.{json.loads(answer.data)['id']}"
    finally:
        await client.close()


async def ask(client: Client, subject: str, body: object = None) -> dict[str, object]:
    payload = b"" if body is None else json.dumps(body).encode()
    answer: dict[str, object] = json.loads((await client.request(subject, payload, timeout=30)).data)
    del answer["server"]
    return answer


@pytest.mark.parametrize("kind", KINDS)
async def test_a_client_is_kicked(kind: ServerKind) -> None:
    with running_server(kind, CONFIG) as server, Peer(server, user="a", **{"pass": "a"}) as peer:
        cid = peer.info["client_id"]
        peer.sync()
        async with system_client(server) as (client, subject), asyncio.timeout(PATIENCE_SECONDS):
            assert await ask(client, f"{subject}.KICK", {"cid": cid}) == {}
            peer.last_words()
            # nats-server closes the socket first, and then forgets the client.
            reasons: list[str] = []
            while not reasons:
                closed: Any = await ask(client, "$SYS.REQ.SERVER.PING.CONNZ", {"state": 1, "cid": cid})
                reasons = [one["reason"] for one in closed["data"]["connections"]]
            assert reasons == ["Kicked"]
            while not (again := await ask(client, f"{subject}.KICK", {"cid": cid})):
                pass
            assert again == {"error": {"code": 500, "description": "no such client or leafnode id"}}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_client_is_asked_to_leave(kind: ServerKind) -> None:
    with running_server(kind, CONFIG) as server, Peer(server, user="a", **{"pass": "a"}) as peer:
        peer.send(b"PING\r\n")
        received = b""
        while b"PONG" not in received or not received.endswith(b"\r\n"):
            received += peer.socket.recv(4096)
        async with system_client(server) as (client, subject):
            assert await ask(client, f"{subject}.LDM", {"cid": peer.info["client_id"]}) == {}
        received = b""
        while b'"ldm":true' not in received:
            received += peer.socket.recv(4096)
        assert received.count(b"INFO ") >= 1


@pytest.mark.parametrize("kind", KINDS)
async def test_the_configuration_is_read_again(kind: ServerKind, tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    path.write_text(CONFIG)
    with running_server(kind, flags=["-c", str(path)]) as server:
        async with system_client(server) as (client, subject):
            path.write_text(CONFIG + "max_connections: 77")
            assert await ask(client, f"{subject}.RELOAD") == {}
            varz = await ask(client, f"{subject}.VARZ")
            assert varz["data"]["max_connections"] == 77  # type: ignore[index]
            path.write_text(CONFIG + "max_connections: {")
            refused = await ask(client, f"{subject}.RELOAD")
            assert refused["error"]["code"] == 500  # type: ignore[index]
            assert (await ask(client, f"{subject}.VARZ"))["data"] is not None


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_may_be_longer_than_a_payload(kind: ServerKind) -> None:
    """`max_payload` is for clients; nats-server sends what was asked for."""
    with running_server(kind, CONFIG) as server:
        async with system_client(server) as (client, _):
            for number in range(50):
                await client.subscribe(f"subject.{number}", cb=ignore)
            message = await client.request(
                "$SYS.REQ.SERVER.PING.CONNZ", b'{"subscriptions_detail":true}', timeout=30
            )
            assert len(message.data) > 1000
            assert len(json.loads(message.data)["data"]["connections"][0]["subscriptions_list_detail"]) >= 50


@pytest.mark.parametrize("kind", KINDS)
async def test_answers_are_compressed_if_that_is_asked_for(kind: ServerKind) -> None:
    with running_server(kind, CONFIG) as server:
        async with system_client(server) as (client, _):
            for wanted, given in (("gzip, br", "gzip"), ("br", "identity"), ("GZIP", "gzip")):
                message = await client.request(
                    "$SYS.REQ.SERVER.PING.VARZ", timeout=30, headers={"Accept-Encoding": wanted}
                )
                assert message.headers == {"Content-Encoding": given}
                text = gzip.decompress(message.data) if given == "gzip" else message.data
                assert json.loads(text)["data"]["max_payload"] == 1000
            refused = await client.request(
                "$SYS.REQ.SERVER.PING.CONNZ", b"x", timeout=30, headers={"Accept-Encoding": "gzip"}
            )
            assert refused.headers is None
            assert json.loads(refused.data)["error"]["code"] == 400


async def test_a_long_answer_leaves_the_loop_to_others(start: Starter, connect: Connecter) -> None:
    """Each piece of it is made in a turn of its own."""
    server = await start(**USERS)
    client = await connect(server.broker.port, user="a", password="a")
    for number in range(5000):
        await client.subscribe(f"a.subject.with.some.length.{number}", cb=ignore)
    await flush(client)
    loop, turns, is_over = asyncio.get_running_loop(), 0, False

    def count() -> None:
        nonlocal turns
        turns += 1
        if not is_over:
            loop.call_soon(count)

    loop.call_soon(count)
    message = await client.request(OWN_CONNZ, b'{"subscriptions_detail":true}', timeout=30)
    is_over = True
    assert len(message.data) > 20 * PIECE_BYTES
    assert turns > len(message.data) // PIECE_BYTES


async def test_a_flood_of_requests_delays_nobody_else(start: Starter, connect: Connecter) -> None:
    """Beyond a limit they are dropped, and the accounts take turns."""
    server = await start(**USERS)
    flooding = await connect(server.broker.port, user="a", password="a")
    other = await connect(server.broker.port, user="b", password="b")
    answers = 0

    async def receive(message: Msg) -> None:
        nonlocal answers
        answers += 1

    await flooding.subscribe("answers", cb=receive)
    for _ in range(3 * MAX_WAITING):
        await flooding.publish(OWN_CONNZ, b"", reply="answers")
    await flush(flooding)
    document = json.loads((await other.request(OWN_CONNZ, timeout=30)).data)
    assert document["data"]["num_connections"] == 1
    await flooding.request(OWN_CONNZ, timeout=30)
    assert 0 < answers <= 3 * MAX_WAITING


async def test_an_answer_that_nobody_could_receive_is_refused(start: Starter, connect: Connecter) -> None:
    server = await start(**USERS, max_pending=100_000)
    client = await connect(server.broker.port, user="a", password="a")
    for number in range(2000):
        await client.subscribe(f"a.subject.with.some.length.{number}", cb=ignore)
    await flush(client)
    refused = await ask(client, OWN_CONNZ, {"subscriptions_detail": True})
    assert refused["error"]["code"] == 500  # type: ignore[index]
    assert (await ask(client, OWN_CONNZ))["data"]["num_connections"] == 1  # type: ignore[index]


async def test_requests_without_a_reply_are_ignored(start: Starter, connect: Connecter) -> None:
    server = await start(**USERS)
    client = await connect(server.broker.port, user="s", password="s")
    heard: list[str] = []

    async def hear(message: Msg) -> None:
        heard.append(message.subject)

    await client.subscribe("$SYS.SERVER.*.STATSZ", cb=hear)
    own_id = server.broker.server_id
    for kind in ("VARZ", "CONNZ", "IDZ", "RELOAD", "KICK"):
        await client.publish(f"$SYS.REQ.SERVER.{own_id}.{kind}", b'{"cid":999}')
    await client.publish("$SYS.REQ.ACCOUNT.A.CONNS")
    await client.publish("$SYS.REQ.SERVER.PING")
    answer = await client.request("$SYS.REQ.SERVER.PING.HEALTHZ", timeout=30)
    assert json.loads(answer.data)["data"] == {"status": "ok", "status_code": 200}
    assert set(heard) == {f"$SYS.SERVER.{own_id}.STATSZ"}, "without a reply, everyone gets the figures"


async def test_without_a_system_account_nobody_is_answered(start: Starter, connect: Connecter) -> None:
    server = await start(no_system_account=True)
    client = await connect(server.broker.port)
    for subject in (OWN_CONNZ, "$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.VARZ"):
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request(subject, timeout=30)
    assert server.monitor
    assert "system_account" not in (await fetch(server.monitor.port, "/accountz")).json


async def test_an_account_sees_nothing_of_others(start: Starter, connect: Connecter) -> None:
    """nats-server shows all accounts to one that is named PING."""
    server = await start(
        accounts=(AccountOptions("PING"), AccountOptions("B")),
        users=(User("p", "p", account="PING"), User("b", "b", account="B")),
    )
    client = await connect(server.broker.port, user="p", password="p")
    other = await connect(server.broker.port, user="b", password="b")
    await flush(other)
    cids = [connection.cid for connection in server.broker.connections.values()]
    seen = [(await ask(client, OWN_CONNZ, {"cid": cid}))["data"]["connections"] for cid in cids]  # type: ignore[index]
    assert [[one["cid"] for one in connections] for connections in seen] == [[cids[0]], []]
    for body in ({}, {"accounts": ["B"]}, {"include_unused": True}):
        figures = await ask(client, "$SYS.REQ.ACCOUNT.PING.STATZ", body)
        assert [one["acc"] for one in figures["data"]["account_statz"]] == ["PING"]  # type: ignore[index]


async def test_the_traffic_of_many_clients_is_counted_in_turns(start: Starter, connect: Connecter) -> None:
    server = await start()
    client = await connect(server.broker.port)
    await client.publish("x", b"12345")
    await flush(client)
    silent = [
        await asyncio.open_connection("127.0.0.1", server.broker.port) for _ in range(CONNECTIONS_IN_A_TURN)
    ]
    while len(server.broker.connections) <= CONNECTIONS_IN_A_TURN:
        await asyncio.sleep(0.01)
    counting, turns = sum_traffic(server.broker), 1
    while True:
        try:
            next(counting)
        except StopIteration as counted:
            total = counted.value["$G"]
            break
        turns += 1
    assert (turns, total.in_msgs, total.in_bytes) == (2, 1, 5)
    for _, writer in silent:
        writer.transport.abort()


def test_all_requests_and_their_options_are_documented() -> None:
    manual = MANUAL.read_text()
    kinds = {*SERVER_ROUTES, *ACCOUNT_ROUTES, "STATSZ", "IDZ", "CONNS"}
    assert {kind for kind in kinds if f"`{kind}`" not in manual} == set()
    assert {
        kind for kind in ("RELOAD", "KICK", "LDM") if f"`$SYS.REQ.SERVER.ID.{kind}`" not in manual
    } == set()
    routes = [route for kind, route in {**SERVER_ROUTES, **ACCOUNT_ROUTES}.items() if kind not in UNUSED]
    names = {name for route in routes for name in route.body.__struct_encode_fields__}
    assert {name for name in names if f"`{name}`" not in manual} == set()

"""A reload moves, adds and removes accounts and users. Connections stay unless they lose their right."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import msgspec
import nats

from headrace.config.identity import (
    AccountOptions,
    ClientLimits,
    Destination,
    Mapping,
    ServiceExport,
    ServiceImport,
    StreamExport,
    StreamImport,
    User,
)
from tests.accounts.test_isolation import login
from tests.broker.conftest import OWN_SUBSCRIPTIONS, RawClient, Start
from tests.broker.test_drain_and_reload import reload
from tests.frames import Frame
from tests.servers import running_server

EXPORTS: dict[str, Any] = {"stream_exports": (StreamExport(">"),), "service_exports": (ServiceExport(">"),)}
A, B = AccountOptions("A", **EXPORTS), AccountOptions("B")


def users(**account_of: str) -> tuple[User, ...]:
    return tuple(User(user, "x", account=account) for user, account in account_of.items())


def shown(frames: list[Frame]) -> list[tuple[bytes, bytes]]:
    return [(frame.subject, frame.payload) for frame in frames if frame.operation in ("MSG", "HMSG")]


async def publish(client: RawClient, *subjects: bytes) -> None:
    assert await client.ask(b"".join(b"PUB %b 1\r\nx\r\n" % subject for subject in subjects)) == []


async def test_exactly_those_who_lose_their_right_are_closed(start: Start) -> None:
    gone = AccountOptions("GONE")
    running = start(accounts=(A, B, gone), users=users(a="A", moved="A", left="A", b="B", g="GONE", any="$G"))
    clients = {name: await login(running, name) for name in ("a", "moved", "left", "b", "g", "any")}
    for client in clients.values():
        assert await client.ask(b"SUB > 1\r\n") == []
    reload(
        running,
        accounts=(A, B, AccountOptions("NEW")),
        users=users(a="A", moved="B", b="B", any="$G", new="NEW"),
    )
    for name in ("moved", "left", "g"):
        assert b"-ERR" not in await clients[name].rest()
    for name in ("a", "b", "any"):
        assert shown(await clients[name].ask(b"PUB foo 1\r\nx\r\n")) == [(b"foo", b"x")]
    assert await (await login(running, "new")).ask() == []
    assert await (await login(running, "moved")).ask() == []
    assert running.broker.accounts.get("GONE") is None
    assert await (await login(running, "g")).rest() == b"-ERR 'Authorization Violation'\r\n"


async def test_subscriptions_follow_changed_imports(start: Start) -> None:
    running = start(accounts=(A, B), users=users(a="A", b="B"))
    a, b = await login(running, "a"), await login(running, "b")
    await b.ask(b"SUB here.> 1\r\nSUB foo 2\r\n")
    for imports, expected in [
        ((), []),
        ((StreamImport("A", "foo"),), [(b"foo", b"x")]),
        ((StreamImport("A", ">", prefix="here"),), [(b"here.foo", b"x"), (b"here.bar", b"x")]),
        ((StreamImport("A", "bar", "foo"),), [(b"foo", b"x")]),
        ((), []),
    ]:
        reload(running, accounts=(A, msgspec.structs.replace(B, stream_imports=imports)))
        await publish(a, b"foo", b"bar")
        assert shown(await b.ask()) == expected
    assert running.broker.accounts["A"].interest.count == OWN_SUBSCRIPTIONS


async def test_services_and_mappings_follow_a_reload(start: Start) -> None:
    running = start(accounts=(A, B), users=users(a="A", b="B"))
    a, b = await login(running, "a"), await login(running, "b")
    await a.ask(b"SUB q 1\r\nSUB mapped 2\r\n")
    asked = b"SUB inbox 1\r\nPUB q inbox 1\r\n?\r\n"
    assert [frame.headers[:12] for frame in await b.ask(asked)] == [b"NATS/1.0 503"]
    with_import = msgspec.structs.replace(B, service_imports=(ServiceImport("A", "q", "q"),))
    reload(running, accounts=(A, with_import))
    assert await b.ask(b"PUB q inbox 1\r\n?\r\n") == []
    assert shown(await a.ask()) == [(b"q", b"?")]
    mapped = msgspec.structs.replace(A, mappings=(Mapping("q", (Destination("mapped"),)),))
    reload(running, accounts=(mapped, with_import))
    await b.ask(b"PUB q inbox 1\r\n!\r\n")
    assert shown(await a.ask(b"PUB q 1\r\n.\r\n")) == [(b"mapped", b"!"), (b"mapped", b".")]
    reload(running, accounts=(A, B))
    assert [frame.headers[:12] for frame in await b.ask(b"PUB q inbox 1\r\n?\r\n")] == [b"NATS/1.0 503"]


async def test_info_after_a_reload_has_the_limit_of_the_account(start: Start) -> None:
    limited = AccountOptions("A", limits=ClientLimits(max_payload=4))
    running = start(accounts=(limited,), users=users(a="A"))
    client = await login(running, "a")
    await client.ask()
    reload(running, tags=("new",))
    info = await client.line()
    while b'"connect_info"' in info:  # the one that answered CONNECT
        info = await client.line()
    assert b'"max_payload":4,' in info


async def test_limits_follow_a_reload(start: Start) -> None:
    running = start(accounts=(A,), users=users(a="A"))
    a = await login(running, "a")
    await a.ask(b"PUB x 5\r\n12345\r\n")
    reload(running, accounts=(AccountOptions("A", limits=ClientLimits(max_connections=1, max_payload=4)),))
    other = await login(running, "a")
    assert b"maximum account active connections exceeded" in await other.rest()
    await a.send(b"PUB x 5\r\n12345\r\n")
    assert b"Maximum Payload Violation" in await a.rest()


CONFIG = """
jetstream { max_mem: 1G, max_file: 1G, store_dir: "STORE" }
accounts {
  A { users: [{user: a, password: x}], JETSTREAM }
  B { users: [{user: b, password: x}], jetstream: enabled }
}
"""


async def test_streams_of_an_account_come_and_go_with_it(tmp_path: Path) -> None:
    """Its files stay, and its streams are back when it may have some again."""
    config = CONFIG.replace("STORE", str(tmp_path / "store"))
    path = tmp_path / "server.conf"
    path.write_text(config.replace("JETSTREAM", "jetstream: enabled"))
    with running_server("headrace", flags=["-c", str(path)]) as server:
        client = await nats.connect(f"nats://a:x@{server.host}:{server.port}", allow_reconnect=False)
        jetstream = client.jetstream()
        await jetstream.add_stream(name="S", subjects=["s"])
        await jetstream.publish("s", b"kept")

        async def reload_with(text: str, times: int) -> None:
            path.write_text(config.replace("JETSTREAM", text))
            server.process.send_signal(signal.SIGHUP)
            server.wait_for_log("Reloaded server configuration", times)

        async def info() -> str:
            """The answer of the API, once there is one: streams are stopped and read in the background."""
            while True:
                try:
                    return (await client.request("$JS.API.INFO", b"", timeout=30)).data.decode()
                except nats.errors.NoRespondersError:
                    await asyncio.sleep(0.01)

        await reload_with("", 1)
        assert "JetStream not enabled for account" in await info()
        await reload_with("jetstream: {max_streams: 1}", 2)
        while '"streams":1' not in await info():
            await asyncio.sleep(0.01)
        assert (await jetstream.get_msg("S", 1)).data == b"kept"
        await reload_with("jetstream: {max_streams: 2}", 3)
        assert '"max_streams":2' in await info()
        await jetstream.add_stream(name="T", subjects=["t"])
        await client.close()

"""Lame duck, reload, and what the log shows of a connection."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import bcrypt
import msgspec
import pytest

from headrace.config.identity import Permissions, SubjectRules, User
from headrace.config.reload import AUTH_OPTIONS
from tests.broker.conftest import Running, Start

VIOLATION = b"-ERR 'Authorization Violation'\r\n"
HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()


def reload(running: Running, **changes: Any) -> None:
    running.broker.reload(
        msgspec.structs.replace(running.broker.options, **changes),
        auth_changed=not changes.keys().isdisjoint(AUTH_OPTIONS),
        info_changed=True,
    )


async def test_a_lame_duck_tells_its_clients_and_lets_them_go(start: Start) -> None:
    running = start(lame_duck_grace_period=0.05, lame_duck_duration=1.0)
    new, old = await running.raw(protocol=1), await running.raw(protocol=0)
    await new.ask()
    await old.ask()
    draining = asyncio.get_running_loop().create_task(running.broker.drain())
    info = json.loads((await new.line()).removeprefix(b"INFO "))
    assert info["ldm"] is True
    with pytest.raises(ConnectionRefusedError):
        await running.raw()
    assert await new.rest() == b""
    assert await old.rest() == b""
    await draining
    assert {reason for _, reason in running.broker.closed} == {"Server Shutdown"}


async def test_a_lame_duck_without_clients_ends_at_once(start: Start) -> None:
    running = start(lame_duck_grace_period=1000.0, lame_duck_duration=2000.0)
    await asyncio.wait_for(running.broker.drain(), 30)


async def test_a_lame_duck_waits_for_nobody_after_the_last_client(start: Start) -> None:
    running = start(lame_duck_grace_period=0.01, lame_duck_duration=1000.0)
    await running.raw(protocol=0)
    await asyncio.wait_for(running.broker.drain(), 30)


async def test_clients_are_served_during_the_grace_period(start: Start) -> None:
    running = start(lame_duck_grace_period=1000.0, lame_duck_duration=2000.0)
    client = await running.raw(protocol=0)
    await client.ask()
    draining = asyncio.get_running_loop().create_task(running.broker.drain())
    await asyncio.sleep(0)
    assert [frame.payload for frame in await client.ask(b"SUB a 1\r\nPUB a 1\r\nx\r\n")] == [b"x"]
    assert not draining.done()
    draining.cancel()


async def test_a_reload_does_not_end_a_lame_duck(start: Start) -> None:
    running = start(lame_duck_grace_period=1000.0, lame_duck_duration=2000.0)
    client = await running.raw(protocol=1)
    await client.ask()
    draining = asyncio.get_running_loop().create_task(running.broker.drain())
    assert json.loads((await client.line()).removeprefix(b"INFO "))["ldm"] is True
    reload(running, max_payload=5)
    info = json.loads((await client.line()).removeprefix(b"INFO "))
    assert (info["ldm"], info["max_payload"]) == (True, 5)
    draining.cancel()


@pytest.mark.parametrize("limit", [3, 0, -1])
async def test_a_lower_limit_of_connections_closes_the_latest(start: Start, limit: int) -> None:
    running = start()
    clients = [await running.raw(name="x") for _ in range(5)]
    for client in clients:
        await client.ask()
    reload(running, max_connections=limit)
    kept = max(limit, 0)
    for client in clients[kept:]:
        # The INFO that this reload sends to all of them may come first.
        assert (await client.rest()).endswith(b"-ERR 'maximum connections exceeded'\r\n")
    for client in clients[:kept]:
        assert await client.ask() == []
    assert f"Closed {5 - kept} connections to fall within max_connections" in running.log_text()
    assert await (await running.raw()).rest() == b"-ERR 'maximum connections exceeded'\r\n"


async def test_reloaded_limits_hold_at_once(start: Start) -> None:
    running = start()
    client = await running.raw(protocol=1)
    await client.ask()
    reload(running, max_payload=5, max_subscriptions=1, max_control_line=50)
    assert json.loads((await client.line()).removeprefix(b"INFO "))["max_payload"] == 5
    assert await client.ask(b"SUB a 1\r\nPUB b 5\r\n12345\r\n") == []
    (answer,) = await client.ask(b"SUB b 2\r\n")
    assert b"maximum subscriptions" in answer.argument
    await client.send(b"PUB a 6\r\n")
    assert await client.rest() == b"-ERR 'Maximum Payload Violation'\r\n"
    late = await running.raw()
    assert late.info["max_payload"] == 5


async def test_a_client_whose_user_was_removed_is_closed(start: Start) -> None:
    running = start(users=(User("me", "secret"), User("you", "other")))
    me, you = (
        await running.raw(user="me", **{"pass": "secret"}),
        await running.raw(user="you", **{"pass": "other"}),
    )
    assert await me.ask() == await you.ask() == []
    reload(running, users=(User("you", "other"),))
    assert await me.rest() == b""  # without a reason, as in nats-server
    assert await you.ask() == []


async def test_a_client_whose_password_changed_is_closed(start: Start) -> None:
    running = start(username="me", password="secret")
    client = await running.raw(user="me", **{"pass": "secret"})
    await client.ask()
    reload(running, password="changed")
    assert await client.rest() == VIOLATION


async def test_authentication_that_a_reload_brings_closes_the_nameless(start: Start) -> None:
    running = start()
    client = await running.raw(name="x")
    await client.ask()
    reload(running, token="secret")
    assert await client.rest() == VIOLATION


async def is_let_go(client: Any) -> bool:
    """Whether the server refuses the client, at the latest when it does something."""
    await client.send(b"PING\r\n")
    return bool((await client.line()).startswith(b"-ERR 'Auth"))


async def test_authentication_that_a_reload_brings_holds_for_those_without_connect(start: Start) -> None:
    running = start()
    client = await running.raw()
    await client.ask(b"SUB secrets 1\r\n")
    reload(running, token="secret")
    assert await is_let_go(client)


async def test_a_removed_user_is_closed_where_passwords_are_hashed(start: Start) -> None:
    running = start(users=(User("me", HASH), User("you", HASH)))
    me, you = [await running.raw(user=user, **{"pass": "secret"}) for user in ("me", "you")]
    assert await me.ask() == await you.ask() == []
    reload(running, users=(User("you", HASH),))
    assert await me.rest() == b""
    assert await you.ask() == []


async def test_permissions_change_at_once_where_passwords_are_hashed(start: Start) -> None:
    """Comparing all passwords again takes a while, in which nobody may do what is no longer allowed."""
    running = start(users=(User("me", HASH),))
    client = await running.raw(user="me", **{"pass": "secret"})
    assert await client.ask(b"SUB foo 1\r\n") == []
    (connection,) = running.broker.connections.values()
    nothing = Permissions(SubjectRules(None, (">",)), SubjectRules(None, (">",)))
    reload(running, users=(User("me", HASH, permissions=nothing),))
    permissions = connection.link.permissions
    assert permissions is not None
    assert not permissions.may_publish(b"foo")
    assert len(connection.link.subscriptions) == 0
    removed, refused = await client.ask(b"PUB foo 0\r\n\r\n")
    assert removed.argument == b'\'Permissions Violation for Subscription to "foo" (sid "1")\''
    assert refused.argument == b"'Permissions Violation for Publish to \"foo\"'"


async def test_keepalive_can_be_reloaded(start: Start) -> None:
    running = start(ping_interval=0.05)
    reload(running, ping_interval=0.02, ping_max=1)
    client = await running.raw(name="x")
    assert (await client.rest()).endswith(b"-ERR 'Stale Connection'\r\n")


async def test_a_label_names_the_client(start: Start) -> None:
    running = start()
    client = await running.raw(name="my\nname", lang="python3", version="1.2")
    await client.ask()
    (connection,) = running.broker.connections.values()
    port = client.writer.get_extra_info("sockname")[1]
    assert str(connection) == f'127.0.0.1:{port} - cid:{connection.cid} - "v1.2:python3:my\\nname"'
    await client.close()
    await running.until(lambda: not running.broker.connections)
    assert '"v1.2:python3:my\\nname" - Client connection closed: Client Closed' in running.log_text()


async def test_a_trace_shows_operations(start: Start) -> None:
    running = start(trace=True)
    client = await running.raw(name="x")
    await client.ask(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n")
    text = running.log_text()
    for line in (
        "<<- [SUB foo 1]",
        "<<- [PUB foo 2]",
        '<<- MSG_PAYLOAD: ["hi"]',
        "->> [MSG foo 1 2]",
        "<<- [PING]",
    ):
        assert line in text


@pytest.mark.parametrize(
    "secret",
    [
        "hunter2",
        "with spaces in it",
        "abc,hunter2",
        "abc}hunter2",
        'abc"hunter2',
        "abc\\hunter2",
    ],
)
@pytest.mark.parametrize("field", ["pass", "auth_token", "PASS", "jwt", "sig", "nkey"])
async def test_a_trace_hides_secrets(start: Start, secret: str, field: str) -> None:
    running = start(trace=True)
    client = await running.raw(user="somebody", **{field: secret})
    await client.ask()
    text = running.log_text()
    assert "somebody" in text
    assert "REDACTED" in text
    assert "hunter2" not in text
    assert "spaces in it" not in text


@pytest.mark.parametrize(
    "sent",
    [
        b'CONNECT {"user":"me","pass":"hunter2"\r\n',
        b'CONNECT {"user":"me","pass":"hunter2","verbose":"no"}\r\n',
        b'CONNECT {"user":"me","pass":"hunter2","padding":"' + b"x" * 5000 + b'"}\r\n',
    ],
)
async def test_an_error_does_not_show_secrets(start: Start, sent: bytes) -> None:
    running = start()
    client = await running.raw()
    await client.send(sent)
    await client.rest()
    assert "hunter2" not in running.log_text()
    assert "[ERR]" in running.log_text()


async def test_a_refused_user_is_named_without_its_password(start: Start) -> None:
    running = start(username="me", password="secret")
    client = await running.raw(user="intruder", **{"pass": "hunter2"})
    await client.rest()
    assert 'User "intruder"' in running.log_text()
    assert "hunter2" not in running.log_text()

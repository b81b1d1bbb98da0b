"""Accounts share nothing: subjects, queue groups, replies and limits are those of one account."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.config.identity import AccountOptions, ClientLimits, User
from tests.broker.conftest import RawClient, Running, Start
from tests.frames import Frame

A_AND_B: dict[str, Any] = {
    "accounts": (AccountOptions("A"), AccountOptions("B", limits=ClientLimits(1, 2, 10))),
    "users": (
        User("a", "x", account="A"),
        User("b", "x", account="B"),
        User("g", "x"),
        User("s", "x", account="$SYS"),
    ),
}
EVERYBODY = ("a", "b", "g", "s")
VIOLATION = b"-ERR 'Authorization Violation'\r\n"


async def login(running: Running, user: str, **fields: Any) -> RawClient:
    return await running.raw(user=user, **{"pass": "x", "protocol": 1, "no_responders": True, **fields})


def bodies(frames: list[Frame]) -> list[bytes]:
    return [frame.payload for frame in frames if frame.operation == "MSG"]


@pytest.mark.parametrize("sub", [b"SUB > 1\r\n", b"SUB foo 1\r\n", b"SUB * workers 1\r\n"])
async def test_messages_stay_in_their_account(start: Start, sub: bytes) -> None:
    running = start(**A_AND_B)
    clients = {user: await login(running, user) for user in EVERYBODY}
    for client in clients.values():
        assert await client.ask(sub) == []
    for user in EVERYBODY:
        publisher = await login(running, user) if user != "b" else clients["b"]
        await publisher.ask(b"PUB foo 1\r\n" + user.encode() + b"\r\n" if user != "b" else b"")
    await clients["b"].send(b"PUB foo 1\r\nb\r\n")
    for user, client in clients.items():
        assert bodies(await client.ask()) == [user.encode()]


async def test_a_request_has_no_responders_in_another_account(start: Start) -> None:
    running = start(**A_AND_B)
    responder, asker = await login(running, "a"), await login(running, "g")
    await responder.ask(b"SUB service 1\r\n")
    frames = await asker.ask(b"SUB inbox 1\r\nPUB service inbox 0\r\n\r\n")
    assert [frame.headers for frame in frames] == [b"NATS/1.0 503\r\nNats-Subject: service\r\n\r\n"]
    assert await responder.ask() == []


async def test_info_names_the_account(start: Start) -> None:
    running = start(**A_AND_B)
    for user, account in (("a", "A"), ("g", "$G"), ("s", "$SYS")):
        client = await login(running, user)
        await client.send(b"PING\r\n")
        assert await client.line() == b"PONG\r\n"
        info = await client.line()
        assert b'"remote_account":"%s"' % account.encode() in info
        assert (b'"acc_is_sys":true' in info) is (user == "s")


@pytest.mark.parametrize(
    "fields", [{"account": "B"}, {"account": "A"}, {"new_account": True}, {"account": "$SYS"}]
)
async def test_nobody_chooses_an_account_in_connect(start: Start, fields: dict[str, Any]) -> None:
    client = await login(start(**A_AND_B), "a", **fields)
    assert await client.rest() == VIOLATION


async def test_the_limits_of_an_account_are_those_of_its_clients_only(start: Start) -> None:
    running = start(**A_AND_B)
    first, other = await login(running, "b"), await login(running, "a")
    await other.ask(b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nPUB x 11\r\n12345678901\r\n")
    frames = await first.ask(b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n")
    assert [frame.argument for frame in frames] == [b"'maximum subscriptions exceeded'"]
    second = await login(running, "b")
    assert await second.rest() == b"-ERR 'maximum account active connections exceeded'\r\n"
    await first.send(b"PUB x 11\r\n12345678901\r\n")
    assert await first.rest() == b"-ERR 'Maximum Payload Violation'\r\n"
    await running.until(lambda: running.broker.accounts["B"].connections == 0)
    await (await login(running, "b")).ask()


@pytest.mark.parametrize("name", ["$SYS", "OPS"])
async def test_users_of_the_system_account_alone_leave_the_others_in_the_global_one(
    start: Start, name: str
) -> None:
    running = start(
        accounts=(AccountOptions(name),), system_account=name, users=(User("s", "x", account=name),)
    )
    anybody = await running.raw(verbose=False)
    assert await anybody.ask(b"SUB > 1\r\n") == []
    admin = await login(running, "s")
    await admin.ask(b"SUB > 1\r\nPUB foo 0\r\n\r\n")
    assert await anybody.ask() == []
    assert running.broker.accounts["$G"].connections == 1
    for user, password in (("s", "wrong"), ("t", "x"), ("", "x")):
        assert await (await running.raw(user=user, **{"pass": password})).rest() == VIOLATION


async def test_a_client_before_connect_is_in_no_account_if_there_are_users(start: Start) -> None:
    client = await start(**A_AND_B).raw()
    await client.send(b"SUB > 1\r\n")
    assert await client.rest() == VIOLATION

"""Who is let in: user and password, a list of users, a token, bcrypt, and nobody in time."""

from __future__ import annotations

from typing import Any

import bcrypt
import nats.errors
import pytest
from nats.aio.client import Client

from headrace.accounts.authentication import ANONYMOUS, Authenticator, Credentials, Identity, matches
from headrace.config.identity import User
from headrace.config.options import Options
from tests.broker.conftest import HOST, Start
from tests.clients import flush

VIOLATION = b"-ERR 'Authorization Violation'\r\n"


def cheap_hash(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


HASH = cheap_hash("secret")
ONE_USER = {"username": "me", "password": "secret"}
USERS = {"users": (User("me", "secret"), User("you", "other"))}
TOKEN = {"token": "secret"}
HASHED_USER = {"username": "me", "password": HASH}
HASHED_USERS = {"users": (User("me", HASH), User("you", "other"))}
HASHED_TOKEN = {"token": HASH}
ME = {"user": "me", "pass": "secret"}
WITH_TOKEN = {"auth_token": "secret"}


@pytest.mark.parametrize(
    ("options", "credentials", "admitted"),
    [
        (ONE_USER, ME, True),
        (ONE_USER, {"user": "me", "pass": "Secret"}, False),
        (ONE_USER, {"user": "me", "pass": "secret "}, False),
        (ONE_USER, {"user": "me"}, False),
        (ONE_USER, {"user": "you", "pass": "secret"}, False),
        (ONE_USER, {"pass": "secret"}, False),
        (ONE_USER, WITH_TOKEN, False),
        (ONE_USER, {}, False),
        (USERS, ME, True),
        (USERS, {"user": "you", "pass": "other"}, True),
        (USERS, {"user": "you", "pass": "secret"}, False),
        (USERS, {"user": "them", "pass": "secret"}, False),
        (USERS, {}, False),
        ({"users": ()}, {}, False),
        ({"users": ()}, ME, False),
        (TOKEN, WITH_TOKEN, True),
        (TOKEN, {"auth_token": "wrong"}, False),
        (TOKEN, ME, False),
        (TOKEN, {}, False),
        (HASHED_USER, ME, True),
        (HASHED_USER, {"user": "me", "pass": "wrong"}, False),
        (HASHED_USER, {"user": "me", "pass": HASH}, False),
        (HASHED_USERS, ME, True),
        (HASHED_USERS, {"user": "you", "pass": "other"}, True),
        (HASHED_USERS, {"user": "you", "pass": "secret"}, False),
        (HASHED_TOKEN, WITH_TOKEN, True),
        (HASHED_TOKEN, {"auth_token": "wrong"}, False),
        ({"username": "me", "password": "$2a$04$broken"}, ME, False),
        (ONE_USER, {**ME, "account": "A"}, False),
    ],
)
async def test_credentials(
    start: Start, options: dict[str, Any], credentials: dict[str, str], admitted: bool
) -> None:
    running = start(**options)
    client = await running.raw()
    assert client.info["auth_required"] is True
    # What is pipelined behind CONNECT is carried out if it is admitted, and only then.
    await client.connect(**credentials)
    if admitted:
        assert [frame.payload for frame in await client.ask(b"SUB foo 1\r\nPUB foo 1\r\nx\r\n")] == [b"x"]
    else:
        await client.send(b"SUB foo 1\r\nPUB foo 1\r\nx\r\n")
        assert await client.rest() == VIOLATION
        assert running.broker.hub.in_msgs == 0


async def test_nats_py_is_admitted_and_refused(start: Start) -> None:
    running = start(**ONE_USER)
    client = await running.client(user="me", password="secret")
    await flush(client)
    refused = Client()
    with pytest.raises(nats.errors.Error, match="Authorization Violation"):
        await refused.connect(
            f"nats://{HOST}:{running.broker.port}",
            user="me",
            password="wrong",
            allow_reconnect=False,
            error_cb=ignore,
        )
    await refused.close()


async def ignore(_: Exception) -> None:
    pass


@pytest.mark.parametrize("first", [b"PING\r\n", b"SUB foo 1\r\n", b"PUB foo 0\r\n\r\n", b"X"])
async def test_an_operation_before_connect_is_a_violation(start: Start, first: bytes) -> None:
    client = await start(**ONE_USER).raw()
    await client.send(first)
    assert await client.rest() == VIOLATION


async def test_a_client_that_says_nothing_is_let_go(start: Start) -> None:
    running = start(**ONE_USER, auth_timeout=0.05)
    client = await running.raw()
    assert await client.rest() == b"-ERR 'Authentication Timeout'\r\n"
    await running.until(lambda: not running.broker.connections)


async def test_half_a_connect_does_not_stop_the_clock(start: Start) -> None:
    client = await start(**ONE_USER, auth_timeout=0.5).raw()
    await client.send(b'CONNECT {"user":"me"')
    assert await client.rest() == b"-ERR 'Authentication Timeout'\r\n"


async def test_an_admitted_client_is_not_timed_out(start: Start) -> None:
    running = start(**HASHED_USER, auth_timeout=1.5)
    client = await running.raw(**ME)
    await client.ask()
    other = await running.raw()
    await other.rest()  # its time is over, so that of the first would be too
    assert await client.ask() == []


async def test_without_authentication_there_is_no_clock(start: Start) -> None:
    running = start(auth_timeout=0.02)
    client = await running.raw()
    assert len(list(running.broker.connections)) == 1
    assert running.broker.connections[client.info["client_id"]] not in running.broker.auth_timers
    assert await client.ask() == []


async def test_no_auth_user_stands_for_the_nameless(start: Start) -> None:
    running = start(**USERS, no_auth_user="you")
    nameless, early, known = await running.raw(), await running.raw(), await running.raw(**ME)
    assert "auth_required" not in nameless.info
    await nameless.connect()
    assert await nameless.ask() == []
    assert [frame.operation for frame in await early.ask(b"SUB foo 1\r\n")] == ["+OK"]
    assert await known.ask() == []
    users = [connection.user for connection in running.broker.connections.values()]
    assert users == ["you", "you", "me"]


async def test_no_auth_user_connects_only_as_it_may(start: Start) -> None:
    """Also before CONNECT: its first operation is another one."""
    users = (User("page", "word", connection_types=frozenset({"WEBSOCKET"})),)
    running = start(users=users, no_auth_user="page")
    named, silent = await running.raw(), await running.raw()
    await named.connect()
    await silent.send(b"PING\r\n")
    assert await named.rest() == VIOLATION
    assert await silent.rest() == VIOLATION


async def test_no_auth_user_does_not_stand_for_wrong_credentials(start: Start) -> None:
    client = await start(**USERS, no_auth_user="you").raw(user="me", **{"pass": "wrong"})
    assert await client.rest() == VIOLATION


async def test_a_client_that_leaves_during_a_slow_comparison_is_forgotten(start: Start) -> None:
    running = start(username="me", password=bcrypt.hashpw(b"secret", bcrypt.gensalt(8)).decode())
    for _ in range(5):
        client = await running.raw(**ME)
        await client.close()
    await running.until(lambda: not running.broker.connections)
    client = await running.raw(**ME)
    assert await client.ask() == []


async def test_stop_during_a_slow_comparison(start: Start) -> None:
    running = start(username="me", password=bcrypt.hashpw(b"secret", bcrypt.gensalt(8)).decode())
    client = await running.raw(**ME)
    await running.until(lambda: running.broker.connections)
    running.stop()
    assert await client.rest() == b""


@pytest.mark.parametrize("given", ["", "x" * 72, "x" * 73, "x" * 5000, "\x00", "a\x00b", "ü", "\ud800"])
def test_any_password_can_be_compared(given: str) -> None:
    assert not matches(HASH, given)
    assert not matches("plain", given)
    if given and "\x00" not in given and len(given.encode(errors="replace")) <= 72 and given != "\ud800":
        assert matches(cheap_hash(given), given)


@pytest.mark.parametrize(
    "broken", ["$2a$", "$2b$04$", "$2a$99$" + "a" * 53, "$2y$04$" + "!" * 53, "$2a$04$ü" + "a" * 52]
)
def test_a_broken_hash_admits_nobody(broken: str) -> None:
    assert not matches(broken, "secret")
    authenticator = Authenticator(Options(username="me", password=broken))
    assert authenticator.check(Credentials("me", "secret")) is None


@pytest.mark.parametrize(
    ("options", "credentials", "identity"),
    [
        (Options(), Credentials(), ANONYMOUS),
        (Options(), Credentials("me", "any"), Identity("me")),
        (Options(token="t"), Credentials(token="t"), ANONYMOUS),
        (Options(token="t"), Credentials("me", token="t"), ANONYMOUS),
        (Options(token="t"), Credentials("me", "t"), None),
        (Options(username="me", password="secret"), Credentials("me", "secret"), Identity("me")),
        (Options(username="me", password="secret"), Credentials("me", "wrong"), None),
        (Options(username="me", password="secret"), Credentials("you", "secret"), None),
        (Options(username="me", password="secret"), Credentials(), None),
    ],
)
def test_credentials_become_an_identity(
    options: Options, credentials: Credentials, identity: Identity | None
) -> None:
    assert Authenticator(options).check(credentials) == identity


def test_an_identity_is_in_the_global_account_without_limits() -> None:
    identity = Identity("me")
    assert (identity.account, identity.permissions, identity.expires_at) == ("$G", None, None)


def test_credentials_do_not_show_their_secrets() -> None:
    assert "secret" not in repr(Credentials("me", "secret", "secret too"))

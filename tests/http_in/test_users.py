"""A request is the client that it logs in as: its account, its permissions, its limits."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest

from headrace import Server
from headrace.http_in import clients
from tests.http_in.requests import basic, bearer, ndjson, post
from tests.http_in.streams import add_stream, count, message
from tests.interop.tokens import ONE, SYSTEM, account_token, operator_token, user_token
from tests.servers import running_server

USERS = """
accounts {
  SHOP {
    jetstream: enabled
    users: [
      {user: shop, password: s}
      {user: hooks, password: h, permissions: {publish: "hooks.>", subscribe: "_INBOX.>"}}
      {user: mute, password: m, permissions: {subscribe: {deny: ">"}}}
    ]
  }
  BANK {
    jetstream: enabled
    users: [{user: bank, password: b}]
  }
  POOR { users: [{user: poor, password: p}] }
}
http_in { port: -1 }
"""


@pytest.fixture
def bank() -> Iterator[Server]:
    """Two accounts, each with a stream of the same name and subjects."""
    with Server(config=USERS) as server:
        for user in ("shop", "bank"):
            add_stream(
                server.url, subjects=">", no_ack=False, name="ALL", login=login(user)
            ) if False else None
            add_stream(server.url, "ORDERS", "orders.>", login=login(user))
        add_stream(server.url, "HOOKS", "hooks.>", login=login("shop"))
        yield server


def login(user: str) -> dict[str, str]:
    return {"user": user, "password": user[0]}


def test_a_message_is_in_the_account_of_its_user(bank: Server) -> None:
    url = f"{bank.http_in_url}orders.eu"
    assert post(url, b"for the bank", basic("bank", "b")).document["seq"] == 1
    assert (count(bank.url, **login("bank")), count(bank.url, **login("shop"))) == (1, 0)
    assert message(bank.url, 1, **login("bank")).data == b"for the bank"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("shop", "x"),
        basic("shop", ""),
        basic("", ""),
        basic("nobody", "s"),
        bearer("s"),
        {"Authorization": "Basic"},
        {"Authorization": "Basic !!!"},
        {"Authorization": "Basic c2hvcA=="},  # without a colon
        {"Authorization": "Digest x"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic /////w=="},
    ],
)
def test_whoever_cannot_log_in_is_told_how(bank: Server, headers: dict[str, str]) -> None:
    for body in (b"x", b"x" * 10_000_000):  # which is never read
        try:
            reply = post(f"{bank.http_in_url}orders.eu", body, headers)
        except (BrokenPipeError, ConnectionResetError):
            continue  # the server closed it while we were sending
        assert reply.status == 401
        assert reply.headers["www-authenticate"].startswith("Basic ")
    assert count(bank.url, **login("shop")) == 0


def test_permissions_are_those_of_a_client(bank: Server) -> None:
    hooks = basic("hooks", "h")
    assert post(f"{bank.http_in_url}hooks.a", b"x", hooks).document == {"stream": "HOOKS", "seq": 1}
    reply = post(f"{bank.http_in_url}orders.eu", b"x", hooks)
    assert (reply.status, reply.error) == (403, 'Permissions Violation for Publish to "orders.eu"')
    assert post(f"{bank.http_in_url}orders.eu?ack=no", b"x", hooks).status == 403
    assert post(f"{bank.http_in_url}$JS.API.STREAM.DELETE.ORDERS", b"", hooks).status == 403
    assert count(bank.url, **login("shop")) == 0


def test_a_line_that_is_not_permitted_does_not_stop_the_others(bank: Server) -> None:
    lines = [{"subject": "hooks.a" if k % 3 else "orders.eu", "data": "x"} for k in range(600)]
    reply = post(
        f"{bank.http_in_url}",
        ndjson(*lines),
        {**basic("hooks", "h"), "Content-Type": "application/x-ndjson"},
    )
    numbers = iter(range(1, 1000))
    for k, answer in enumerate(reply.lines):
        if k % 3:
            assert answer == {"stream": "HOOKS", "seq": next(numbers)}
        else:
            assert answer["error"]["code"] == 403
    assert (count(bank.url, "HOOKS", **login("shop")), count(bank.url, **login("shop"))) == (400, 0)


def test_whoever_may_not_subscribe_gets_no_acknowledgement(bank: Server) -> None:
    reply = post(f"{bank.http_in_url}orders.eu", b"x", basic("mute", "m"))
    assert (reply.status, "_INBOX" in reply.error) == (403, True)
    assert post(f"{bank.http_in_url}orders.eu?ack=no", b"x", basic("mute", "m")).status == 202


def test_an_account_without_streams_says_so(bank: Server) -> None:
    assert post(f"{bank.http_in_url}orders.eu", b"x", basic("poor", "p")).status == 503


def test_hashed_passwords_work() -> None:
    password = "secret"
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
    with Server(http_in=-1, users=[{"user": "anna", "password": hashed}]) as server:
        add_stream(server.url, login={"user": "anna", "password": password})
        url = f"{server.http_in_url}orders.eu"
        assert post(url, b"x", basic("anna", password)).status == 200
        assert post(url, b"x", basic("anna", "wrong")).status == 401


def test_a_bearer_is_the_token_of_the_server() -> None:
    with Server(http_in=-1, token="s3cret") as server:
        add_stream(server.url, login={"token": "s3cret"})
        url = f"{server.http_in_url}orders.eu"
        assert post(url, b"x", bearer("s3cret")).status == 200
        assert post(url, b"x", bearer("s3cre")).status == 401
        assert post(url, b"x").status == 401


def test_whoever_needs_no_credentials_is_the_user_for_that() -> None:
    with Server(http_in=-1, config=USERS.replace("http_in", "no_auth_user: hooks\nhttp_in")) as server:
        add_stream(server.url, "HOOKS", "hooks.>", login=login("shop"))
        assert post(f"{server.http_in_url}hooks.a", b"x").status == 200
        assert post(f"{server.http_in_url}orders.eu", b"x").status == 403
        assert post(f"{server.http_in_url}hooks.a", b"x", basic("hooks", "wrong")).status == 401


async def test_a_client_is_kept_for_the_next_request_of_the_same_user(bank: Server) -> None:
    """And never for another's: nobody can use what somebody else has logged in to."""
    url = f"{bank.http_in_url}orders.eu"
    for user, password, status in [
        ("shop", "s", 200), ("bank", "b", 200), ("shop", "b", 401), ("shop", "s", 200), ("bank", "s", 401),
    ]:  # fmt: skip
        assert (await asyncio.to_thread(post, url, b"x", basic(user, password))).status == status
    assert await asyncio.to_thread(lambda: count(bank.url, **login("shop"))) == 2
    assert await asyncio.to_thread(lambda: count(bank.url, **login("bank"))) == 1


def test_a_reload_takes_effect_at_once() -> None:
    """Also for a client that is kept: the broker closes it."""
    config = (
        "authorization {{ users: [{{user: anna, password: {password}}}, {{user: eve, password: e}}] }}\n"
        "http_in: '127.0.0.1:-1'\njetstream {{ store_dir: '{store}' }}\n"
    )
    with tempfile.TemporaryDirectory() as store:
        text = config.format(password="old", store=store)
        with running_server("headrace", text) as server:
            url = f"nats://127.0.0.1:{server.port}"
            add_stream(url, login={"user": "eve", "password": "e"})
            (found,) = re.findall(r"messages over HTTP on (\S+)", server.log())
            assert post(f"{found}orders.eu", b"x", basic("anna", "old")).status == 200
            path = Path(server.process.args[server.process.args.index("-c") + 1])
            path.write_text(config.format(password="new", store=store))
            server.process.send_signal(signal.SIGHUP)
            server.wait_for_log("Reloaded server configuration")
            assert post(f"{found}orders.eu", b"x", basic("anna", "old")).status == 401
            assert post(f"{found}orders.eu", b"x", basic("anna", "new")).status == 200


def test_a_lame_duck_takes_nothing_more() -> None:
    with running_server("headrace", "http_in: '127.0.0.1:-1'\nlame_duck_duration: 60s\n") as server:
        (found,) = re.findall(r"messages over HTTP on (\S+)", server.log())
        with socket.create_connection(
            (server.host, server.port)
        ) as client:  # so that it has whom to wait for
            assert client.recv(4) == b"INFO"
            server.process.send_signal(signal.SIGUSR2)
            server.wait_for_log("Entering lame duck mode")
            assert post(f"{found}orders.eu?ack=no", b"x").status == 503


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_connz_shows_who_publishes(host: str) -> None:
    """By the address that its peers know: rules about addresses apply to it."""
    users = [{"user": "anna", "password": "a"}]
    async with Server(host=host, http_in=-1, monitor_port=-1, users=users) as server:
        reply = await asyncio.to_thread(post, f"{server.http_in_url}a?ack=no", b"x", basic("anna", "a"))
        assert reply.status == 202
        shown = await asyncio.to_thread(post, f"{server.monitor_url}/connz?auth=1", method="GET")
        (connection,) = shown.document["connections"]
        assert (connection["name"], connection["authorized_user"]) == ("http_in", "anna")
        assert (connection["ip"], connection["in_msgs"]) == ("127.0.0.1", 1)


def test_the_limits_of_an_account_hold() -> None:
    limits = {"max_payload": 100, "max_connections": 1}
    users = [{"user": "anna", "password": "a"}]
    accounts = {"A": {"jetstream": "enabled", "limits": limits, "users": users}}
    with Server(accounts=accounts, http_in=-1) as server:
        url = f"{server.http_in_url}orders.eu?ack=no"
        assert post(url, b"x" * 101, basic("anna", "a")).status == 413
        assert post(url, b"x" * 100, basic("anna", "a")).status == 202  # by the same client: there is one
        with socket.create_connection((server.host, server.port)) as client:
            client.sendall(b'CONNECT {"user":"anna","pass":"a","verbose":false}\r\nPING\r\n')
            received = client.makefile("rb")
            assert received.readline().startswith(b"INFO ")
            assert b"maximum account active connections exceeded" in received.readline()


def test_a_bearer_is_a_jwt_where_users_have_those() -> None:
    """One that needs no signature; for the others HTTP has no place."""
    accounts = {ONE.public_key: account_token(ONE), SYSTEM.public_key: account_token(SYSTEM)}
    preload = "\n".join(f"{name}: {token}" for name, token in accounts.items())
    config = (
        f"operator: {operator_token()}\nsystem_account: {SYSTEM.public_key}\n"
        f"resolver: MEMORY\nresolver_preload: {{\n{preload}\n}}\nhttp_in: -1\n"
    )
    with Server(config=config) as server:
        url = f"{server.http_in_url}orders.eu?ack=no"
        assert post(url, b"x", bearer(user_token(bearer_token=True))).status == 202
        assert post(url, b"x", bearer(user_token())).status == 401
        assert post(url, b"x", bearer("eyJ.x.y")).status == 401
        assert post(url, b"x", basic("anna", "a")).status == 401
        assert post(url, b"x").status == 401


def test_clients_that_are_kept_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if each request has other credentials, on a server that needs none."""
    monkeypatch.setattr(clients, "MAX_IDLE", 5)
    with Server(http_in=-1, monitor_port=-1) as server:
        for k in range(30):
            assert post(f"{server.http_in_url}a?ack=no", b"x", basic(f"user-{k}", "x")).status == 202
        document = post(f"{server.monitor_url}/connz", method="GET").document
        while document["num_connections"] > 5:  # the broker has yet to see that they have left
            document = post(f"{server.monitor_url}/connz", method="GET").document
        assert document["num_connections"] == 5


def test_credentials_that_are_too_long_are_refused() -> None:
    with Server(http_in=-1, token="s3cret") as server:
        url = f"{server.http_in_url}a?ack=no"
        assert post(url, b"x", bearer("x" * 10_000)).status == 401
        assert post(url, b"x", bearer("s3cret")).status == 202

"""Who gets in: hosts, other sites, logins, sessions, tokens and roles."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import bcrypt
import pytest

from headrace.accounts.credentials import ANONYMOUS, Credentials
from headrace.cli.serve import self_signed
from headrace.config.console import ConsoleOptions
from headrace.config.identity import AccountLimits, AccountOptions, Permissions, SubjectRules, User
from headrace.config.options import Options
from headrace.monitor.console.access import is_our_host, why_off
from headrace.monitor.console.login import FAILURES_OF_ADDRESS, Attempts
from headrace.monitor.console.refusal import Refusal
from headrace.monitor.console.sessions import IDLE_SECONDS, LONGEST_SECONDS, MAX_SESSIONS, Sessions
from headrace.server import Server
from tests.clients import flush
from tests.monitor.conftest import Connecter, Starter
from tests.monitor.console.conftest import StreamServer, Visit
from tests.monitor.fetch import fetch, read_response

ANNA = User(user="anna", password="secret-a")
VIEWER = User(user="viewer", password="secret-v")
LIMITED = User(
    user="limited",
    password="secret-l",
    permissions=Permissions(publish=SubjectRules(allow=("orders.>", "$JS.API.STREAM.LIST"))),
)


async def ask(server: Server, head: str, body: bytes = b"") -> Any:
    """A request with exactly these headers."""
    assert server.monitor is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor.port)
    try:
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        writer.write(f"{head}\r\n{length}Connection: close\r\n\r\n".encode() + body)
        return await read_response(reader)
    finally:
        writer.close()
        await writer.wait_closed()


# -- where it is on


@pytest.mark.parametrize(
    ("options", "is_on"),
    [
        (Options(http_host="127.0.0.1"), True),
        (Options(http_host="::1"), True),
        (Options(http_host="localhost"), True),
        (Options(host="127.0.0.1"), True),
        (Options(host="0.0.0.0"), False),
        (Options(host="127.0.0.1", http_host="0.0.0.0"), False),
        (Options(host="0.0.0.0", token="secret"), True),
        (Options(host="0.0.0.0", users=(ANNA,)), True),
        (Options(http_host="127.0.0.1", console=ConsoleOptions(enabled=False)), False),
    ],
)
def test_it_is_on_where_nobody_else_can_get_in(options: Options, is_on: bool) -> None:
    assert (why_off(options) == "") is is_on


async def test_the_log_says_why_it_is_off(start: Starter, tmp_path: Path) -> None:
    server = await start(host="0.0.0.0")
    assert server.monitor is not None
    response = await fetch(server.monitor.port, "/console")
    assert response.status == 404
    assert "other machines may reach 0.0.0.0, and the server has no users" in response.text
    server.logger.flush()
    assert "The console is off: other machines may reach 0.0.0.0" in (tmp_path / "server.logger").read_text()


# -- other sites


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1:8222", True),
        ("[::1]:8222", True),
        ("192.168.1.7", True),
        ("localhost:8222", True),
        ("LOCALHOST", True),
        ("console.localhost", True),
        ("mill.example.com:443", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
        ("[", False),
        ("user@evil.example", False),
    ],
)
def test_hosts_that_are_ours(host: str, is_ours: bool) -> None:
    options = Options(console=ConsoleOptions(hosts=("mill.example.com",)))
    assert is_our_host(host, options) is is_ours


async def test_a_name_that_was_rebound_to_us_gets_nothing(start: Starter) -> None:
    server = await start()
    for path in ("/console", "/console/app.js", "/console/api/session", "/console/api/view/overview"):
        response = await ask(server, f"GET {path} HTTP/1.1\r\nHost: evil.example")
        assert response.status == 421
        assert "token" not in response.text


@pytest.mark.parametrize(
    "header",
    [
        "Origin: http://evil.example",
        "Origin: null",
        "Origin: http://127.0.0.1",
        "Origin: http://[",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
    ],
)
async def test_other_sites_are_refused(start: Starter, header: str) -> None:
    server = await start()
    assert server.monitor is not None
    host = f"127.0.0.1:{server.monitor.port}"
    for path in ("session", "view/overview", "live/overview"):
        response = await ask(server, f"GET /console/api/{path} HTTP/1.1\r\nHost: {host}\r\n{header}")
        assert response.status == 403
        assert "access-control-allow-origin" not in response.headers


async def test_no_answer_is_open_to_other_sites_or_frames(start: Starter) -> None:
    server = await start()
    for path in ("/console", "/console/style.css", "/console/api/session", "/console/api/view/overview"):
        response = await ask(server, f"GET {path} HTTP/1.1\r\nHost: localhost")
        headers = response.headers
        assert "access-control-allow-origin" not in headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


async def test_a_change_needs_the_token_of_the_page(start: Starter, visit: Visit) -> None:
    server = await start()
    visitor = await visit(server)
    body = {"account": "$G", "subject": "greet", "payload": ""}
    assert (await visitor.post("act/publish", body))[0] == 200
    visitor.token = ""
    assert (await visitor.post("act/publish", body))[0] == 403
    visitor.token = "x" * 43
    assert (await visitor.post("act/publish", body))[0] == 403
    await visitor.arrive()
    text = b'{"account": "$G", "subject": "greet"}'
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        head = (
            f"POST /console/api/act/publish HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\n"
            f"X-Headrace-Console: {visitor.token}"
        )
        assert (await ask(server, head, text)).status == 415


# -- logging in


async def test_a_server_with_users_shows_nothing_before_the_login(start: Starter, visit: Visit) -> None:
    server = await start(users=(ANNA,))
    visitor = await visit(server)
    _, session = await visitor.get("session")
    assert session["needs_login"]
    assert session["viewer"] is None
    assert "token" not in session
    for name in ("overview", "streams", "connections", "messages", "nothing"):
        assert (await visitor.get(f"view/{name}"))[0] == 401
        assert (await visitor.get(f"live/{name}"))[0] == 401
    assert (await visitor.post("act/publish", {}))[0] in (401, 403)
    assert await visitor.log_in(user="anna", password="wrong") == 401
    assert await visitor.log_in(user="anna", password="secret-a") == 200
    overview = await visitor.view("overview")
    assert overview["connections"] == 0
    assert (await visitor.post("logout", {}))[0] == 200
    assert (await visitor.get("view/overview"))[0] == 401


@pytest.mark.parametrize(
    ("options", "credentials"),
    [
        ({"token": "t0ken"}, {"token": "t0ken"}),
        ({"username": "one", "password": "pass"}, {"user": "one", "password": "pass"}),
        (
            {"users": (User(user="b", password=bcrypt.hashpw(b"pass", bcrypt.gensalt(4)).decode()),)},
            {"user": "b", "password": "pass"},
        ),
    ],
    ids=["token", "one user", "bcrypt"],
)
async def test_every_kind_of_user_logs_in(
    start: Starter, visit: Visit, options: dict[str, Any], credentials: dict[str, str]
) -> None:
    visitor = await visit(await start(**options))
    assert await visitor.log_in(**dict.fromkeys(credentials, "wrong")) == 401
    assert await visitor.log_in(**credentials) == 200
    assert (await visitor.get("view/overview"))[0] == 200


async def test_a_cookie_is_for_this_page_alone(start: Starter, visit: Visit) -> None:
    server = await start(users=(ANNA,), http_base_path="/mill")
    assert server.monitor is not None
    body = b'{"user": "anna", "password": "secret-a"}'
    head = "POST /mill/console/api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
    cookie = (await ask(server, head, body)).headers["set-cookie"]
    name, _, value = cookie.partition(";")[0].partition("=")
    assert len(value) >= 43
    assert "; HttpOnly" in cookie
    assert "; SameSite=Strict" in cookie
    assert "; Path=/mill/console;" in cookie
    assert "Secure" not in cookie  # over https it is
    get = "GET /mill/console/api/view/overview HTTP/1.1\r\nHost: localhost\r\nCookie: "
    assert (await ask(server, f"{get}{name}={value}")).status == 200
    for forged in (f"{name}={value[:-1]}", f"{name}=", f"other={value}", f"{name}={'A' * 43}", "=;=;;;"):
        assert (await ask(server, get + forged)).status == 401


async def test_over_https_the_cookie_is_secure(start: Starter, tmp_path: Path) -> None:
    settings, authority = self_signed(str(tmp_path / "tls"), "127.0.0.1")
    server = await start(users=(ANNA,), http_port=0, https_port=-1, tls=settings)
    assert server.monitor is not None
    context = ssl.create_default_context(cafile=authority)
    address = f"https://127.0.0.1:{server.monitor.port}/console/api/login"
    body = {"user": "anna", "password": "secret-a"}
    async with aiohttp.ClientSession() as client, client.post(address, json=body, ssl=context) as response:
        assert response.status == 200
        assert "; Secure" in response.headers["Set-Cookie"]


def test_sessions_expire_on_the_server() -> None:
    now = 0.0
    sessions = Sessions(lambda: now)
    used, unused = (sessions.open(ANONYMOUS, Credentials(), 1) for _ in range(2))
    assert used.id != unused.id
    while now + IDLE_SECONDS < LONGEST_SECONDS:
        now += IDLE_SECONDS
        assert sessions.find(used.id) is used
    assert sessions.find(unused.id) is None
    now = LONGEST_SECONDS + 1
    assert sessions.find(used.id) is None
    assert len(sessions) == 0
    first = sessions.open(ANONYMOUS, Credentials(), 1)
    for _ in range(MAX_SESSIONS):
        now += 0.001
        sessions.open(ANONYMOUS, Credentials(), 1)
    assert len(sessions) == MAX_SESSIONS
    assert sessions.find(first.id) is None


def test_attempts_are_limited_and_forgotten() -> None:
    now = 0.0
    attempts = Attempts(lambda: now)
    for _ in range(FAILURES_OF_ADDRESS):
        attempts.check("a")
        attempts.note_failure("a")
    with pytest.raises(Refusal, match="Too many failed attempts"):
        attempts.check("a")
    attempts.check("b")
    now = 61.0
    attempts.check("a")
    for number in range(5000):
        attempts.note_failure(str(number))
    with pytest.raises(Refusal):
        attempts.check("c")  # of all addresses together
    assert len(attempts._failures) <= 1000


async def test_too_many_wrong_passwords_are_not_even_compared(start: Starter, visit: Visit) -> None:
    visitor = await visit(await start(users=(ANNA,)))
    for _ in range(FAILURES_OF_ADDRESS):
        assert await visitor.log_in(user="anna", password="wrong") == 401
    assert await visitor.log_in(user="anna", password="secret-a") == 429


async def test_many_passwords_at_once_are_not_compared_either(start: Starter, visit: Visit) -> None:
    hashed = bcrypt.hashpw(b"pass", bcrypt.gensalt(4)).decode()
    visitor = await visit(await start(users=(User(user="b", password=hashed),)))
    attempts = [visitor.post("login", {"user": "b", "password": str(number)}) for number in range(30)]
    statuses = [status for status, _ in await asyncio.gather(*attempts)]
    assert statuses.count(401) == FAILURES_OF_ADDRESS
    assert statuses.count(429) == 30 - FAILURES_OF_ADDRESS


async def test_logins_that_succeed_are_not_counted(start: Starter, visit: Visit) -> None:
    visitor = await visit(await start(token="t0ken"))
    for _ in range(3 * FAILURES_OF_ADDRESS):
        assert await visitor.log_in(token="t0ken") == 200


async def test_a_user_of_the_only_account_sees_the_server(start: Starter, visit: Visit) -> None:
    server = await start(users=(ANNA, LIMITED))
    anna, limited = await visit(server), await visit(server)
    assert await anna.log_in(user="anna", password="secret-a") == 200
    assert await limited.log_in(user="limited", password="secret-l") == 200
    assert "usage" in await anna.view("overview")
    assert "usage" not in await limited.view("overview")
    _, session = await anna.get("session")
    assert [one["name"] for one in session["viewer"]["accounts"]] == ["$G"]


async def test_a_session_ends_when_the_user_loses_its_right(start: Starter, visit: Visit) -> None:
    server = await start(users=(ANNA, VIEWER))
    anna, viewer = await visit(server), await visit(server)
    assert await anna.log_in(user="anna", password="secret-a") == 200
    assert await viewer.log_in(user="viewer", password="secret-v") == 200

    async with anna.client.get(f"{anna.base}/api/live/overview") as live:
        assert (await live.content.readuntil(b"\n\n")).startswith(b"event: view\n")
        options = server.options
        changed = type(options)(
            **{name: getattr(options, name) for name in options.__struct_fields__} | {"users": (VIEWER,)}
        )
        server.broker.reload(changed, auth_changed=True, info_changed=False)
        rest = await live.content.read()  # it ends
        assert b"event: refused\n" in rest
    assert (await anna.get("view/overview"))[0] == 401
    assert (await viewer.get("view/overview"))[0] == 200


# -- roles and accounts


async def test_a_read_only_user_sees_and_changes_nothing(streams: StreamServer, visit: Visit) -> None:
    server = await streams(users=(ANNA, VIEWER), console=ConsoleOptions(read_only=("viewer",)))
    visitor = await visit(server)
    assert await visitor.log_in(user="viewer", password="secret-v") == 200
    _, session = await visitor.get("session")
    assert session["viewer"]["is_read_only"]
    assert (await visitor.view("streams"))["streams"] == []
    for name in ("publish", "stream.purge", "connection.close", "key.put", "consumer.delete", "request"):
        status, message = await visitor.refused(name, account="$G", subject="x")
        assert (status, "read-only" in message) == (403, True)


async def test_the_permissions_of_the_user_apply(streams: StreamServer, visit: Visit) -> None:
    server = await streams(users=(ANNA, LIMITED))
    anna, limited = await visit(server), await visit(server)
    assert await anna.log_in(user="anna", password="secret-a") == 200
    assert await limited.log_in(user="limited", password="secret-l") == 200
    await anna.act(
        "request",
        account="$G",
        subject="$JS.API.STREAM.CREATE.S",
        payload='{"name":"S","subjects":["orders.*"]}',
    )
    assert (await limited.act("publish", account="$G", subject="orders.a"))["seq"] == "1"
    assert len((await limited.view("streams"))["streams"]) == 1
    for name, parameters in (
        ("stream", {"stream": "S"}),
        ("messages", {"stream": "S"}),
        ("message", {"stream": "S", "seq": 1}),
        ("subjects", {"stream": "S"}),
        ("consumers", {"stream": "S"}),
        ("consumers", {}),
        ("connections", {}),
    ):
        status, document = await limited.get(f"view/{name}", params={"account": "$G", **parameters})
        assert status == 403, name
        assert document["error"]["message"].startswith("Permissions Violation for Publish to"), name
    assert await limited.refused("publish", account="$G", subject="other") == (
        403,
        'Permissions Violation for Publish to "other"',
    )
    status, _ = await limited.refused("stream.purge", account="$G", stream="S", confirm="S")
    assert status == 403
    status, _ = await limited.refused("message.delete", account="$G", stream="S", seq="1")
    assert status == 403
    assert (await anna.view("messages", account="$G", stream="S"))["messages"][0]["seq"] == "1"


async def test_the_overview_and_tables_show_what_the_permissions_allow(
    streams: StreamServer, visit: Visit, connect: Connecter
) -> None:
    rights = {
        "hooks": ("hooks.>",),
        "lister": ("$JS.API.STREAM.LIST",),
        "watcher": ("$SYS.REQ.ACCOUNT.PING.CONNZ",),
    }
    users = [
        User(user=name, password="p", permissions=Permissions(publish=SubjectRules(allow=allow)))
        for name, allow in rights.items()
    ]
    server = await streams(users=(ANNA, *users))
    client = await connect(server.broker.port, user="anna", password="secret-a")
    await client.jetstream().add_stream(name="PAYROLL", subjects=["pay"])
    report = {"id": "q", "stream": "PAYROLL", "table": "secret/pay", "seq": 0}
    await client.publish("$HEADRACE.LANDING.PAYROLL", json.dumps(report).encode())
    await flush(client)
    visitors = {name: await visit(server) for name in rights}
    for name, visitor in visitors.items():
        assert await visitor.log_in(user=name, password="p") == 200

    for view in ("overview", "tables"):
        status, document = await visitors["hooks"].get(f"view/{view}")
        assert (status, document["error"]["message"]) == (
            403,
            'Permissions Violation for Publish to "$JS.API.STREAM.LIST"',
        )
    assert (await visitors["watcher"].get("view/tables"))[0] == 403
    overview = await visitors["watcher"].view("overview")
    assert (overview["hidden"], "streams" in overview, overview["connections"]) == (["streams"], False, 1)
    assert [row["table"] for row in (await visitors["lister"].view("tables"))["tables"]] == ["secret/pay"]
    overview = await visitors["lister"].view("overview")
    assert (overview["hidden"], overview["streams"]["count"]) == (["traffic"], 1)
    assert {"sample", "connections", "subscriptions", "slow"}.isdisjoint(overview)


async def test_a_user_sees_its_account_and_an_operator_all(streams: StreamServer, visit: Visit) -> None:
    accounts = (
        AccountOptions("RED", jetstream=AccountLimits()),
        AccountOptions("BLUE", jetstream=AccountLimits()),
        AccountOptions("SYS"),
    )
    users = tuple(User(user=name.lower(), password="p", account=name) for name in ("RED", "BLUE", "SYS"))
    server = await streams(accounts=accounts, users=users, system_account="SYS")
    red, blue, operator = [await visit(server) for _ in range(3)]
    for visitor, name in ((red, "red"), (blue, "blue"), (operator, "sys")):
        assert await visitor.log_in(user=name, password="p") == 200
    config = '{"name":"%s","subjects":["a"]}'
    for visitor, account in ((red, "RED"), (blue, "BLUE")):
        subject = f"$JS.API.STREAM.CREATE.OF_{account}"
        await visitor.act("request", account=account, subject=subject, payload=config % f"OF_{account}")

    def names(document: Any) -> list[str]:
        return [stream["name"] for stream in document["streams"]]

    assert names(await red.view("streams")) == ["OF_RED"]
    assert names(await operator.view("streams")) == ["OF_BLUE", "OF_RED"]
    assert names(await operator.view("streams", account="BLUE")) == ["OF_BLUE"]
    for name, parameters in (
        ("streams", {}),
        ("stream", {"stream": "OF_BLUE"}),
        ("messages", {"stream": "OF_BLUE"}),
        ("overview", {}),
        ("connections", {}),
        ("tables", {}),
        ("buckets", {}),
    ):
        status, _ = await red.get(f"view/{name}", params={"account": "BLUE", **parameters})
        assert status == 404, name
    assert (await red.refused("publish", account="BLUE", subject="a"))[0] == 404
    assert (await red.refused("stream.delete", account="BLUE", stream="OF_BLUE", confirm="OF_BLUE"))[0] == 404
    _, session = await red.get("session")
    assert [one["name"] for one in session["viewer"]["accounts"]] == ["RED"]
    assert "usage" not in await red.view("overview")
    await operator.act("stream.delete", account="BLUE", stream="OF_BLUE", confirm="OF_BLUE")
    assert names(await operator.view("streams")) == ["OF_RED"]

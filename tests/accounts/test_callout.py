"""Authorization callouts with a service that answers, against headrace and against nats-server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import nats
import pytest

from headrace.keys import claims as c
from headrace.keys.jwt import decode_as, encode, encode_base64url
from headrace.keys.nkeys import KeyPair
from headrace.keys.xkeys import open_box, seal
from tests.clients import flush
from tests.interop.tokens import ONE, SYSTEM, TWO, USER, account_token, memory_settings, pair, user_token
from tests.servers import Server, ServerKind, running_server

ISSUER, OTHER_ISSUER = pair("account", 70), pair("account", 71)
SERVICE_XKEY = pair("curve", 72)
VIOLATION = b"-ERR 'Authorization Violation'\r\n"
KINDS: list[ServerKind] = ["headrace", "nats-server"]

ACCOUNTS = """
accounts {
  AUTH { users: [ { user: service, password: word } ] }
  APP { users: [ { user: app, password: word } ] }
}
"""


def configuration(extra: str = "") -> str:
    return (
        f"{ACCOUNTS}\ndebug: true\nauthorization {{ timeout: 30\n"
        f"auth_callout {{ issuer: {ISSUER.public_key}, account: AUTH, auth_users: [ service ] {extra} }} }}"
    )


Answer = Callable[[c.AuthorizationRequestClaims], bytes]


def permit(
    request: c.AuthorizationRequestClaims,
    *,
    issuer: KeyPair = ISSUER,
    signer: KeyPair = ISSUER,
    account: str = "APP",
    subject: str = "",
    audience: str = "",
    error: str = "",
    issuer_account: str = "",
    signer_account: str = "",
    **user: Any,
) -> bytes:
    """The answer of a service that admits the client, unless the arguments spoil it."""
    nkey = request.nats.user_nkey
    expires, name = user.pop("expires", 0), user.pop("name", "")
    claims = c.UserClaims(
        subject=user.pop("user", nkey),
        audience=account,
        name=name,
        expires=expires,
        nats=c.User(**{**c.NO_LIMITS, **user}, issuer_account=issuer_account),
    )
    response = c.AuthorizationResponseClaims(
        subject=subject or nkey,
        audience=audience or request.nats.server_id.id,
        nats=c.AuthorizationResponse(
            jwt="" if error else encode(claims, issuer), error=error, issuer_account=signer_account
        ),
    )
    return encode(response, signer).encode()


@contextlib.asynccontextmanager
async def service(
    server: Server, answer: Answer, **login: Any
) -> AsyncIterator[list[c.AuthorizationRequestClaims]]:
    """Answers requests; yields those that came."""
    requests: list[c.AuthorizationRequestClaims] = []

    async def on_request(message: Any) -> None:
        payload = message.data
        if message.headers:
            payload = open_box(payload, SERVICE_XKEY, message.headers["Nats-Server-Xkey"])
        requests.append(decode_as(c.AuthorizationRequestClaims, payload.decode()))
        reply = answer(requests[-1])
        if message.headers and login.get("encrypts", True):
            reply = seal(reply, SERVICE_XKEY, message.headers["Nats-Server-Xkey"])
        await message.respond(reply)

    given = {name: value for name, value in login.items() if name != "encrypts"}
    client = await nats.connect(
        f"nats://{server.host}:{server.port}",
        **(given or {"user": "service", "password": "word"}),
        allow_reconnect=False,
    )
    await client.subscribe("$SYS.REQ.USER.AUTH", cb=on_request)
    await flush(client)
    try:
        yield requests
    finally:
        await client.close()


async def talk(server: Server, data: bytes = b"", **connect: Any) -> bytes:
    """What a client gets after its CONNECT and a PING, up to the PONG or the end."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    info = json.loads((await reader.readline())[5:])
    if callable(connect.get("sig")):
        connect["sig"] = connect["sig"](info)
    fields = {"verbose": False, "pedantic": False, "headers": True, **connect}
    writer.write(b"CONNECT " + json.dumps(fields).encode() + b"\r\n" + data + b"PING\r\n")
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while b"PONG\r\n" not in received and (piece := await asyncio.wait_for(reader.read(4096), 30)):
            received += piece
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return received.replace(b"PING\r\n", b"")  # which comes after two seconds


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Any:
    with running_server(request.param, configuration()) as running:
        yield running


@pytest.fixture(scope="module", params=KINDS)
def encrypting(request: pytest.FixtureRequest) -> Any:
    with running_server(request.param, configuration(f", xkey: {SERVICE_XKEY.public_key}")) as running:
        yield running


async def test_the_service_says_who_a_client_is(server: Server) -> None:
    async with service(server, lambda request: permit(request, name="anna")) as requests:
        assert await talk(server, user="x", **{"pass": "secret"}, name="client") == b"PONG\r\n"
    (request,) = requests
    assert request.subject == ISSUER.public_key
    assert request.audience == "nats-authorization-request"
    assert request.issuer == request.nats.server_id.id
    assert 29 <= request.expires - request.issued_at <= 31
    assert (request.nats.connect_opts.user, request.nats.connect_opts.password) == ("x", "secret")
    information = request.nats.client_info
    assert (information.host, information.user, information.name) == ("127.0.0.1", "x", "client")
    assert (information.kind, information.type) == ("Client", "nats")
    assert request.nats.server_id.version == "2.15.1"
    assert request.nats.server_id.xkey == ""


async def test_its_client_is_in_the_account_that_it_names(server: Server) -> None:
    async with service(server, permit):
        data = b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n"
        assert await talk(server, data, auth_token="t") == b"MSG foo 1 2\r\nhi\r\nPONG\r\n"


SPOILED: dict[str, Answer] = {
    "error": lambda request: permit(request, error="no"),
    "empty": lambda request: b"",
    "nonsense": lambda request: b"nonsense",
    "binary": lambda request: b"\x00\xff",
    "issuer of the user": lambda request: permit(request, issuer=OTHER_ISSUER),
    "signer of the answer": lambda request: permit(request, signer=OTHER_ISSUER),
    "signer of the answer who names the issuer": lambda request: permit(
        request, signer=OTHER_ISSUER, signer_account=ISSUER.public_key
    ),
    "another user in the answer": lambda request: permit(request, subject=USER.public_key),
    "another user in the token": lambda request: permit(request, user=USER.public_key),
    "another server": lambda request: permit(request, audience=pair("server", 1).public_key),
    "no server": lambda request: permit(request, audience="x"),
    "no account": lambda request: permit(request, account="NONE"),
    "account left out": lambda request: permit(request, account=""),
    "expired": lambda request: permit(request, expires=5),
    "issuer account": lambda request: permit(request, issuer_account=OTHER_ISSUER.public_key),
    "times": lambda request: permit(request, times=[c.TimeRange(start="12:00:00", end="12:00:00")]),
    "bad permissions": lambda request: permit(request, pub=c.SubjectList(allow=["a b c"])),
}


@pytest.mark.parametrize("answer", SPOILED.values(), ids=SPOILED)
async def test_an_answer_that_is_wrong_refuses(server: Server, answer: Answer) -> None:
    async with service(server, answer) as requests:
        assert await talk(server, user="x") == VIOLATION
    assert len(requests) == 1


async def test_an_answer_cannot_be_replayed(server: Server) -> None:
    answers: list[bytes] = []

    def answer(request: c.AuthorizationRequestClaims) -> bytes:
        answers.append(permit(request))
        return answers[0]

    async with service(server, answer):
        assert await talk(server, user="x") == b"PONG\r\n"
        assert await talk(server, user="x") == VIOLATION


async def test_a_user_of_the_configuration_is_asked_for_too(server: Server) -> None:
    async with service(server, lambda request: permit(request, error="no")) as requests:
        assert await talk(server, user="app", **{"pass": "word"}) == VIOLATION
        assert await talk(server, user="service", **{"pass": "word"}) == b"PONG\r\n"
    assert [request.nats.client_info.user for request in requests] == ["app"]


async def test_a_client_is_cut_off_when_its_token_expires(server: Server) -> None:
    async with service(server, lambda request: permit(request, expires=int(time.time()) + 4)):
        reader, writer = await asyncio.open_connection(server.host, server.port)
        await reader.readline()
        writer.write(b'CONNECT {"verbose":false,"user":"x"}\r\nPING\r\n')
        assert await asyncio.wait_for(reader.readline(), 30) == b"PONG\r\n"
        rest = await asyncio.wait_for(reader.read(), 30)
        assert rest.endswith(b"-ERR 'User Authentication Expired'\r\n")
        writer.close()


@pytest.mark.parametrize("encrypts", [True, False])
async def test_requests_are_encrypted_for_a_service_with_a_curve_key(
    encrypting: Server, encrypts: bool
) -> None:
    async with service(encrypting, permit, user="service", password="word", encrypts=encrypts) as requests:
        assert await talk(encrypting, user="x", **{"pass": "secret"}) == b"PONG\r\n"
    assert requests[0].nats.connect_opts.password == "secret"
    assert requests[0].nats.server_id.xkey[0] == "X"


async def test_an_answer_of_another_curve_key_is_refused(encrypting: Server) -> None:
    stranger = KeyPair.create("curve")

    def answer(request: c.AuthorizationRequestClaims) -> bytes:
        return seal(permit(request), stranger, request.nats.server_id.xkey)

    async with service(encrypting, answer, user="service", password="word", encrypts=False):
        assert await talk(encrypting, user="x") == VIOLATION


# -- operator mode

SENTINEL = user_token(bearer_token=True, signer=ONE)
SERVICE_USER = pair("user", 73)
OPERATOR_SETTINGS = memory_settings(
    account_token(SYSTEM, "SYS"),
    account_token(
        ONE,
        "auth",
        authorization=c.ExternalAuthorization(
            auth_users=[SERVICE_USER.public_key], allowed_accounts=[TWO.public_key]
        ),
    ),
    account_token(TWO, "app"),
    account_token(OTHER_ISSUER, "other"),
    extra="authorization { timeout: 30 }",
)


@pytest.fixture(scope="module", params=KINDS)
def operated(request: pytest.FixtureRequest) -> Any:
    with running_server(request.param, OPERATOR_SETTINGS) as running:
        yield running


def service_login() -> dict[str, Any]:
    token = user_token(SERVICE_USER, signer=ONE)
    return {
        "user_jwt_cb": lambda: token.encode(),
        "signature_cb": lambda nonce: encode_base64url(SERVICE_USER.sign(nonce.encode())).encode(),
    }


async def test_in_operator_mode_the_account_of_a_user_asks(operated: Server) -> None:
    def answer(request: c.AuthorizationRequestClaims) -> bytes:
        return permit(request, issuer=TWO, signer=ONE, account="")

    login = service_login()
    client = nats.NATS()
    requests: list[c.AuthorizationRequestClaims] = []

    async def on_request(message: Any) -> None:
        requests.append(decode_as(c.AuthorizationRequestClaims, message.data.decode()))
        await message.respond(answers[len(requests) - 1](requests[-1]))

    answers: list[Answer] = [
        answer,
        lambda request: permit(request, issuer=ONE, signer=ONE, account=""),
        lambda request: permit(request, issuer=OTHER_ISSUER, signer=ONE, account=""),
        lambda request: permit(request, issuer=TWO, signer=OTHER_ISSUER, account=""),
        lambda request: permit(
            request, issuer=ONE, signer=OTHER_ISSUER, signer_account=ONE.public_key, account=""
        ),
        lambda request: permit(request, issuer=ONE, signer=ONE, signer_account=TWO.public_key, account=""),
    ]
    await client.connect(
        f"nats://{operated.host}:{operated.port}",
        user_jwt_cb=lambda: bytearray(login["user_jwt_cb"]()),
        signature_cb=lambda nonce: login["signature_cb"](nonce),
        allow_reconnect=False,
    )
    await client.subscribe("$SYS.REQ.USER.AUTH", cb=on_request)
    await flush(client)
    try:
        assert await talk(operated, jwt=SENTINEL, user="x") == b"PONG\r\n"
        assert await talk(operated, jwt=SENTINEL) == b"PONG\r\n"
        assert await talk(operated, jwt=SENTINEL) == VIOLATION, "an account that is not allowed"
        assert await talk(operated, jwt=SENTINEL) == VIOLATION, "signed by somebody else"
        assert await talk(operated, jwt=SENTINEL) == VIOLATION, "who says to be of the account"
        assert await talk(operated, jwt=SENTINEL) == VIOLATION, "in the name of another account"
        assert requests[0].subject == ONE.public_key
        assert requests[0].nats.connect_opts.jwt == SENTINEL
        signed = {"sig": lambda info: encode_base64url(USER.sign(info["nonce"].encode()))}
        assert await talk(operated, jwt=user_token(signer=TWO), **signed) == b"PONG\r\n"
        assert len(requests) == len(answers), "the other account has no service"
    finally:
        await client.close()

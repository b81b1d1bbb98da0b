"""Operator mode while clients are connected: expiry, revocation, new tokens of accounts."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.accounts.authentication import Authenticator
from headrace.accounts.claim_account import trace_of
from headrace.accounts.claims_directory import AccountInvalid, ClaimsDirectory
from headrace.accounts.credentials import SILENCE, Credentials, Refused
from headrace.accounts.operator_mode import OperatorAuthenticator
from headrace.accounts.resolvers import MemoryResolver
from headrace.accounts.templates import MAX_EXPANSIONS, fill_in
from headrace.accounts.trust import Trust
from headrace.config.identity import TraceOptions
from headrace.config.operators.trust import ResolverOptions, TrustOptions
from headrace.config.options import Options
from headrace.errors import UsageError
from headrace.go_formats import quote
from headrace.keys import claims as c
from headrace.keys.claims import MessageTrace
from headrace.keys.creds import format_creds
from headrace.keys.jwt import decode, decode_as, encode_base64url
from headrace.keys.nkeys import KeyPair
from tests.broker.conftest import RawClient, Running, Start
from tests.interop.tokens import (
    ISSUED_AT,
    LATE,
    ONE,
    OTHER_OPERATOR,
    OTHER_USER,
    SCOPED,
    SIGNER,
    SYSTEM,
    TWO,
    USER,
    account_token,
    operator_token,
    user_token,
)

VIOLATION = b"-ERR 'Authorization Violation'\r\n"


def trust_of(*tokens: str, **more: Any) -> dict[str, Any]:
    preload = {decode(token).subject: token for token in (account_token(SYSTEM), *tokens)}
    trust = TrustOptions(
        operators=(operator_token(),), resolver=ResolverOptions("memory"), preload=preload, **more
    )
    return {"trust": trust, "system_account": SYSTEM.public_key}


async def enter(running: Running, token: str, user: KeyPair = USER) -> RawClient:
    client = await running.raw()
    signature = encode_base64url(user.sign(client.info["nonce"].encode()))
    await client.connect(jwt=token, sig=signature)
    return client


def update(running: Running, token: str) -> None:
    """As if a resolver had got it."""
    mode = running.broker.operator_mode
    assert mode is not None
    mode.directory.update(decode(token).subject, token)
    running.broker.hub.flush()


def reasons(running: Running) -> list[str]:
    return [reason for _, reason in running.broker.closed]


async def test_nats_py_logs_in_with_a_creds_file(start: Start, tmp_path: Path) -> None:
    running = start(**trust_of(account_token(ONE, "one")))
    creds = tmp_path / "anna.creds"
    creds.write_text(format_creds(user_token(), USER))
    client = await running.client(user_credentials=str(creds))
    subscription = await client.subscribe("foo")
    await client.publish("foo", b"hi")
    assert (await subscription.next_msg(20)).data == b"hi"
    connection = next(iter(running.broker.connections.values()))
    assert (connection.identity.account, connection.user) == (ONE.public_key, USER.public_key)


async def test_a_user_is_cut_off_when_its_token_expires(start: Start) -> None:
    running = start(**trust_of(account_token(ONE)))
    expires = int(time.time()) + 3
    client = await enter(running, user_token(expires=expires))
    stays = await enter(running, user_token(expires=LATE))
    assert await client.ask() == []
    assert await client.rest() == b"-ERR 'User Authentication Expired'\r\n"
    assert time.time() >= expires
    assert await stays.ask() == []
    await running.until(lambda: len(running.broker.closed) == 1)
    assert reasons(running) == ["Authentication Expired"]


async def test_a_user_is_cut_off_when_its_time_of_day_is_over(start: Start) -> None:
    running = start(**trust_of(account_token(ONE)))
    now = time.gmtime(time.time() + 3)
    before = time.gmtime(time.time() - 3600)
    span = c.TimeRange(start=time.strftime("%H:%M:%S", before), end=time.strftime("%H:%M:%S", now))
    client = await enter(running, user_token(times=[span], times_location="UTC"))
    assert await client.rest() == b"-ERR 'User Authentication Expired'\r\n"


async def test_a_revocation_closes_exactly_those_that_it_names(start: Start) -> None:
    running = start(**trust_of(account_token(ONE), account_token(TWO)))
    revoked = await enter(running, user_token())
    newer = await enter(running, user_token(issued_at=ISSUED_AT + 50))
    other = await enter(running, user_token(OTHER_USER), OTHER_USER)
    elsewhere = await enter(running, user_token(signer=TWO))
    for client in (revoked, newer, other, elsewhere):
        assert await client.ask() == []
    update(running, account_token(ONE, revocations={USER.public_key: ISSUED_AT + 10}))
    assert await revoked.rest() == b"-ERR 'User Authentication Revoked'\r\n"
    for client in (newer, other, elsewhere):
        assert await client.ask() == []
    assert reasons(running) == ["Credentials Revoked"]
    again = await enter(running, user_token())
    assert await again.rest() == VIOLATION


async def test_all_can_be_revoked(start: Start) -> None:
    running = start(**trust_of(account_token(ONE)))
    clients = [await enter(running, user_token()), await enter(running, user_token(OTHER_USER), OTHER_USER)]
    for client in clients:
        assert await client.ask() == []
    update(running, account_token(ONE, revocations={"*": ISSUED_AT}))
    for client in clients:
        assert await client.rest() == b"-ERR 'User Authentication Revoked'\r\n"


async def test_an_account_that_expires_takes_its_users_with_it(start: Start) -> None:
    running = start(**trust_of(account_token(ONE, expires=int(time.time()) + 3), account_token(TWO)))
    client, other = await enter(running, user_token()), await enter(running, user_token(signer=TWO))
    assert await other.ask() == []
    assert await client.rest() == b"-ERR 'Account Authentication Expired'\r\n"
    late = await enter(running, user_token())
    assert await late.rest() == VIOLATION
    assert await other.ask() == []


@pytest.mark.parametrize(
    ("signing_keys", "token", "stays"),
    [
        ([], user_token(signer=SIGNER, account=ONE), False),
        ([SIGNER.public_key], user_token(signer=SIGNER, account=ONE), True),
        ([c.UserScope(key=SIGNER.public_key)], user_token(signer=SIGNER, account=ONE), False),
        ([], user_token(), True),
    ],
)
async def test_a_signing_key_takes_its_users_with_it(
    start: Start, signing_keys: list[Any], token: str, stays: bool
) -> None:
    running = start(**trust_of(account_token(ONE, signing_keys=[SIGNER.public_key])))
    client = await enter(running, token)
    assert await client.ask() == []
    update(running, account_token(ONE, signing_keys=signing_keys, description="new"))
    if stays:
        assert await client.ask() == []
    else:
        assert await client.rest() == b""
        assert reasons(running) == ["Authentication Failure"]


async def test_bearer_tokens_end_when_the_account_allows_none(start: Start) -> None:
    running = start(**trust_of(account_token(ONE)))
    bearer, other = await enter(running, user_token(bearer_token=True)), await enter(running, user_token())
    assert await bearer.ask() == []
    update(running, account_token(ONE, limits={"disallow_bearer": True}))
    assert await bearer.rest() == VIOLATION
    assert await other.ask() == []


async def test_a_lower_limit_closes_the_latest(start: Start) -> None:
    running = start(**trust_of(account_token(ONE)))
    first, second, third = [await enter(running, user_token()) for _ in range(3)]
    for client in (first, second, third):
        assert await client.ask() == []
    update(running, account_token(ONE, limits={"conn": 2}))
    assert await third.rest() == b"-ERR 'maximum account active connections exceeded'\r\n"
    assert await first.ask() == []
    assert await second.ask() == []


async def test_a_lower_limit_of_payload_and_subscriptions_holds_at_once(start: Start) -> None:
    running = start(**trust_of(account_token(ONE)))
    few, many = await enter(running, user_token()), await enter(running, user_token())
    await few.ask(b"SUB a 1\r\n")
    await many.ask(b"SUB a 1\r\nSUB b 2\r\n")
    update(running, account_token(ONE, limits={"subs": 2, "payload": 4}))
    assert b"maximum subscriptions exceeded" in await many.rest()
    await few.send(b"PUB x 5\r\nhello\r\n")
    assert await few.rest() == b"-ERR 'Maximum Payload Violation'\r\n"


async def test_a_new_token_of_another_operator_changes_nothing(start: Start) -> None:
    running = start(**trust_of(account_token(ONE)))
    client = await enter(running, user_token())
    assert await client.ask() == []
    for token in (
        account_token(ONE, signer=OTHER_OPERATOR, revocations={"*": LATE}),
        account_token(ONE, expires=1, revocations={"*": LATE}),
    ):
        with pytest.raises(Exception, match="account validation failed"):
            update(running, token)
    assert await client.ask() == []


async def test_a_reload_takes_other_tokens_and_closes_whose_account_is_gone(start: Start) -> None:
    running = start(**trust_of(account_token(ONE), account_token(TWO)))
    one, two = await enter(running, user_token()), await enter(running, user_token(signer=TWO))
    assert await one.ask() == []
    assert await two.ask() == []
    options = Options(port=running.broker.port, **trust_of(account_token(TWO, description="new")))
    running.broker.reload(options, auth_changed=True, info_changed=False)
    assert (await one.rest()).endswith(VIOLATION)
    assert await two.ask() == []


async def test_the_log_says_why_and_the_client_is_not_told(start: Start) -> None:
    running = start(trace=True, **trust_of(account_token(ONE, "one")))
    expected = {
        "Authentication requires a user JWT": "",
        "claim is expired": user_token(expires=5),
        "Account JWT lookup error: account missing": user_token(signer=TWO),
        "User JWT issuer is not known": user_token(signer=SIGNER, account=ONE),
        "Bad src Ip 127.0.0.1": user_token(src=["10.0.0.0/8"]),
        "Connection type not allowed": user_token(allowed_connection_types=["MQTT"]),
    }
    for reason, token in expected.items():
        client = await enter(running, token)
        assert await client.rest() == VIOLATION
        assert reason in running.log_text()
    for token in filter(None, expected.values()):
        assert token not in running.log_text()


async def test_the_log_names_the_user_who_needs_a_new_token_without_debugging(start: Start) -> None:
    running = start(**trust_of(account_token(ONE, "one")))
    spoiled = {
        "User JWT no longer valid: claim is expired": user_token(name="expi\nred", expires=5),
        "User JWT issuer is not known": user_token(name="unknown", signer=SIGNER, account=ONE),
        "Account JWT lookup error": user_token(name="elsewhere", signer=TWO),
    }
    for reason, token in spoiled.items():
        client = await enter(running, token)
        assert await client.rest() == VIOLATION
        name = quote(decode_as(c.UserClaims, token).name)
        (line,) = [line for line in running.log_text().splitlines() if reason in line and "[ERR]" in line]
        assert f"(user {name}, {quote(USER.public_key)}, of account" in line


# -- without a server


def check(*tokens: str, jwt: str, user: KeyPair = USER, **more: Any) -> object:
    options = Options(**trust_of(*tokens))
    directory = ClaimsDirectory(Trust(options.trust), MemoryResolver(options.trust.preload), SILENCE)
    authenticator: Authenticator = OperatorAuthenticator(options, directory)
    signature = encode_base64url(user.sign(b"nonce"))
    return authenticator.check(
        Credentials(**{"jwt": jwt, "sig": signature, "nonce": "nonce", "host": "127.0.0.1", **more})
    )


@given(
    st.text(max_size=100) | st.sampled_from(["a.b.c", "..", "eyJ.eyJ.x", user_token()[:-3]]),
    st.text(max_size=90),
)
def test_junk_is_refused_and_raises_nothing(jwt: str, sig: str) -> None:
    assert check(account_token(ONE), jwt=jwt, sig=sig) is None


def test_a_user_has_what_its_token_says() -> None:
    token = user_token(
        pub=c.SubjectList(allow=["a.>"], deny=["a.b"]),
        resp=c.ResponsePermission(max=5, ttl=2_000_000_000),
        subs=3,
        payload=100,
        expires=LATE,
        tags=["x:y"],
    )
    identity: Any = check(account_token(ONE), jwt=token)
    assert identity.permissions.publish.allow == ("a.>",)
    assert identity.permissions.publish.deny == ("a.b",)
    assert identity.permissions.subscribe is None
    assert (identity.permissions.responses.max_messages, identity.permissions.responses.seconds) == (5, 2.0)
    assert (identity.limits.subscriptions, identity.limits.payload) == (3, 100)
    assert (identity.expires_at, identity.tags, identity.name) == (LATE, ("x:y",), "anna")


def test_a_user_without_permissions_has_those_of_its_account() -> None:
    defaults = c.PermissionClaims(sub=c.SubjectList(deny=["secret"]))
    identity: Any = check(account_token(ONE, default_permissions=defaults), jwt=user_token())
    assert identity.permissions.subscribe.deny == ("secret",)
    assert identity.has_default_permissions


TEMPLATE = c.UserLimits(
    pub=c.SubjectList(
        allow=[
            "{{name()}}.{{subject()}}",
            "{{account-name()}}.{{ account-subject() }}",
            "{{tag(a)}}.{{tag(b)}}",
        ],
        deny=["{{account-tag(x)}}.no"],
    )
)


def filled(user: str, template: c.UserLimits = TEMPLATE, *, tags: tuple[str, ...] = ("x:z",)) -> c.UserLimits:
    account = decode_as(c.AccountClaims, account_token(ONE, "one", tags=list(tags)))
    return fill_in(template, decode_as(c.UserClaims, user), account)


def test_a_template_is_filled_in() -> None:
    token = user_token(signer=SCOPED, account=ONE, is_scoped=True, tags=["a:1", "a:2", "b:3", "b:4"])
    assert filled(token).pub.allow == [
        f"anna.{USER.public_key}",
        f"one.{ONE.public_key}",
        "1.3",
        "1.4",
        "2.3",
        "2.4",
    ]
    assert filled(token).pub.deny == ["z.no"]


def test_a_template_that_allows_nothing_denies_everything() -> None:
    template = c.UserLimits(sub=c.SubjectList(allow=["{{tag(none)}}.x"]))
    assert filled(user_token(), template).sub == c.SubjectList(allow=[], deny=[">"])


@pytest.mark.parametrize("deny", ["{{tag(none)}}", "{{nonsense()}}", "{{name()}}..x"])
def test_a_template_whose_denials_make_no_sense_is_refused(deny: str) -> None:
    with pytest.raises(Refused):
        filled(user_token(), c.UserLimits(pub=c.SubjectList(deny=[deny])))


def test_a_template_does_not_grow_beyond_all_bounds() -> None:
    tags = [f"a:{number}" for number in range(70)]
    template = c.UserLimits(pub=c.SubjectList(allow=["{{tag(a)}}.{{tag(a)}}.{{tag(a)}}"]))
    assert MAX_EXPANSIONS < 70**3
    with pytest.raises(Refused):
        filled(user_token(tags=tags), template)


# -- activation tokens


def activation(exporter: KeyPair, importer: KeyPair, subject: str = "private.>", **fields: Any) -> str:
    from headrace.keys.jwt import encode

    expires, issuer_account = fields.pop("expires", 0), fields.pop("issuer_account", "")
    claims = c.ActivationClaims(
        subject=importer.public_key,
        expires=expires,
        nats=c.Activation(subject=subject, kind="stream", issuer_account=issuer_account),
    )
    return encode(claims, fields.pop("signer", exporter), issued_at=ISSUED_AT)


def imports_of(token: str, **export: Any) -> int:
    exporter = account_token(
        TWO,
        signing_keys=[SIGNER.public_key],
        exports=[c.Export(subject="private.>", type="stream", **{"token_req": True, **export})],
    )
    importer = account_token(
        ONE, imports=[c.Import(subject="private.x", account=TWO.public_key, type="stream", token=token)]
    )
    options = Options(**trust_of(exporter, importer))
    directory = ClaimsDirectory(Trust(options.trust), MemoryResolver(options.trust.preload), SILENCE)
    return len(directory.options_of(directory.find(ONE.public_key))[0].stream_imports)


def test_a_private_export_needs_an_activation_token() -> None:
    assert imports_of(activation(TWO, ONE)) == 1
    assert imports_of("") == 0
    assert imports_of("", token_req=False) == 1


def test_a_signing_key_may_sign_an_activation() -> None:
    assert imports_of(activation(TWO, ONE, signer=SIGNER, issuer_account=TWO.public_key)) == 1
    assert imports_of(activation(TWO, ONE, expires=LATE)) == 1


def test_an_activation_that_is_revoked_or_over_does_not_count() -> None:
    assert imports_of(activation(TWO, ONE), revocations={ONE.public_key: ISSUED_AT}) == 0
    assert imports_of(activation(TWO, ONE), revocations={"*": ISSUED_AT}) == 0
    assert imports_of(activation(TWO, ONE), revocations={ONE.public_key: ISSUED_AT - 1}) == 1
    assert imports_of(activation(TWO, ONE, expires=5)) == 0


async def test_an_import_ends_when_its_activation_expires(start: Start) -> None:
    """While both accounts, and their clients, stay."""
    token = activation(TWO, ONE, expires=int(time.time()) + 4)
    entry = c.Import(subject="private.>", account=TWO.public_key, token=token, type="stream")
    export = c.Export(subject="private.>", type="stream", token_req=True)
    running = start(**trust_of(account_token(ONE, imports=[entry]), account_token(TWO, exports=[export])))
    importer, exporter = await enter(running, user_token()), await enter(running, user_token(signer=TWO))
    await importer.ask(b"SUB private.> 1\r\n")
    await exporter.ask(b"PUB private.a 2\r\nhi\r\n")
    assert [frame.operation for frame in await importer.ask()] == ["MSG"]
    account = running.broker.accounts[ONE.public_key]
    await running.until(lambda: not account.options.stream_imports)
    await exporter.ask(b"PUB private.a 2\r\nhi\r\n")
    assert "MSG" not in [frame.operation for frame in await importer.ask()]


@pytest.mark.parametrize(
    "token",
    [
        activation(TWO, SYSTEM),  # of somebody else, replayed
        activation(ONE, ONE),  # signed by the importer itself
        activation(TWO, ONE, "other.>"),  # for something else
        activation(TWO, ONE, signer=SCOPED, issuer_account=TWO.public_key),  # by a key that it does not have
        user_token(),
    ],
)
def test_an_account_with_an_activation_that_is_not_for_it_is_refused(token: str) -> None:
    counted = 0
    with contextlib.suppress(AccountInvalid):
        counted = imports_of(token)
    assert counted == 0


@pytest.mark.parametrize(
    ("preload", "error"),
    [
        ({}, f"Can't set system account: account missing: {SYSTEM.public_key}"),
        (
            {SYSTEM.public_key: account_token(SYSTEM, expires=5)},
            f"Can't set system account: account validation failed: {SYSTEM.public_key}",
        ),
        (
            {SYSTEM.public_key: account_token(SYSTEM, signer=OTHER_OPERATOR)},
            f"Can't set system account: account validation failed: {SYSTEM.public_key}",
        ),
    ],
)
async def test_a_system_account_that_cannot_be_trusted_keeps_the_server_from_starting(
    start: Start, preload: dict[str, str], error: str
) -> None:
    trust = TrustOptions(operators=(operator_token(),), resolver=ResolverOptions("memory"), preload=preload)
    with pytest.raises(UsageError) as raised:
        start(trust=trust, system_account=SYSTEM.public_key)
    assert str(raised.value) == error
    assert raised.value.hint


async def test_new_default_permissions_of_an_account_hold_at_once(start: Start) -> None:
    running = start(**trust_of(account_token(ONE)))
    client = await enter(running, user_token())
    own = await enter(running, user_token(sub=c.SubjectList(allow=["secret"])))
    await client.ask(b"SUB secret 1\r\nSUB open 2\r\n")
    await own.ask(b"SUB secret 1\r\n")
    update(
        running,
        account_token(ONE, default_permissions=c.PermissionClaims(sub=c.SubjectList(deny=["secret"]))),
    )
    frames = await client.ask(b"PUB open 2\r\nhi\r\nPUB secret 2\r\nno\r\n")
    assert [frame.operation for frame in frames].count("MSG") == 1
    assert [frame.operation for frame in await own.ask()] == ["MSG"], "it has permissions of its own"


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        (None, TraceOptions()),
        (MessageTrace(dest="traces"), TraceOptions("traces", 100)),
        (MessageTrace(dest="traces", sampling=7), TraceOptions("traces", 7)),
        (MessageTrace(dest="traces", sampling=-5), TraceOptions("traces", 100)),
        (MessageTrace(dest="traces", sampling=101), TraceOptions("traces", 100)),
        (MessageTrace(dest="traces.*", sampling=7), TraceOptions()),
        (MessageTrace(), TraceOptions()),
    ],
)
def test_where_a_token_sends_traces(claims: MessageTrace | None, expected: TraceOptions) -> None:
    assert trace_of(claims) == expected

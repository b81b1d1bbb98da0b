"""Operator mode: tokens of users and accounts."""

from __future__ import annotations

from typing import Any

from headrace.keys import claims as c
from headrace.keys.jwt import encode
from tests.interop.session import Session, closed, connect_line, opened, part, pub, send, session
from tests.interop.signatures import signature
from tests.interop.tokens import (
    ISSUED_AT,
    LATE,
    LOST,
    ONE,
    OPERATOR_SIGNER,
    OTHER_USER,
    REVOKED,
    SCOPED,
    SIGNER,
    STRANGER,
    SYSTEM,
    TWO,
    USER,
    account_token,
    login,
    memory_settings,
    operator_token,
    pair,
    user_token,
)

LOOP = b"SUB foo 1\r\n" + pub(b"foo", b"hi")

BEARERS, EXPIRED, FEW, SMALL = (pair("account", number) for number in range(50, 54))

TEMPLATE = c.UserLimits(
    subs=3,
    data=-1,
    payload=64,
    pub=c.SubjectList(allow=["own.{{name()}}.>", "tag.{{tag(team)}}", "all"], deny=["own.{{name()}}.secret"]),
    sub=c.SubjectList(allow=["own.{{name()}}.>", "{{account-name()}}.>", "tag.{{tag(team)}}", "all"]),
)

ACCOUNTS = memory_settings(
    account_token(SYSTEM, "SYS"),
    account_token(
        ONE,
        "one",
        signing_keys=[SIGNER.public_key, c.UserScope(key=SCOPED.public_key, role="r", template=TEMPLATE)],
        revocations={REVOKED.public_key: ISSUED_AT + 100},
    ),
    account_token(TWO, "two", signer=OPERATOR_SIGNER),
    account_token(BEARERS, "bearers", limits={"disallow_bearer": True}),
    account_token(EXPIRED, "expired", expires=ISSUED_AT + 1),
    account_token(FEW, "few", limits={"conn": 1, "subs": 2, "payload": 16}),
    account_token(SMALL, "small", revocations={"*": ISSUED_AT + 100}),
)

STRICT_OPERATOR = operator_token(strict_signing_key_usage=True)
STRICT = memory_settings(
    account_token(SYSTEM, "SYS", signer=OPERATOR_SIGNER, signing_keys=[SIGNER.public_key]),
    account_token(ONE, "one", signer=OPERATOR_SIGNER, signing_keys=[SIGNER.public_key]),
    operator=STRICT_OPERATOR,
)

PINNED = memory_settings(
    account_token(SYSTEM, "SYS"),
    account_token(ONE, "one"),
    account_token(TWO, "two"),
    extra=f"resolver_pinned_accounts: [{ONE.public_key}]",
)

SENTINEL = memory_settings(
    account_token(SYSTEM, "SYS"),
    account_token(ONE, "one"),
    extra=f"default_sentinel: {user_token(bearer_token=True)}",
)

ANNA = user_token()
HEADER, PAYLOAD, SIGNATURE = ANNA.split(".")


def _scoped(**fields: object) -> str:
    return user_token(signer=SCOPED, account=ONE, is_scoped=True, **fields)  # type: ignore[arg-type]


# (settings, what is sent first)
LOGINS: dict[str, tuple[str, bytes]] = {
    "user": (ACCOUNTS, login(ANNA)),
    "user_verbose": (ACCOUNTS, login(ANNA, verbose=True)),
    "user_with_name_and_password": (ACCOUNTS, login(ANNA, user="x", **{"pass": "y"})),
    "user_of_signing_key": (ACCOUNTS, login(user_token(signer=SIGNER, account=ONE))),
    "user_of_operator_signing_key": (ACCOUNTS, login(user_token(signer=TWO))),
    "system_user": (ACCOUNTS, login(user_token(signer=SYSTEM))),
    "signature_padded": (ACCOUNTS, login(ANNA, sig=signature(USER, padded=True))),
    "signature_missing": (ACCOUNTS, connect_line(jwt=ANNA)),
    "signature_of_another": (ACCOUNTS, login(ANNA, OTHER_USER)),
    "signature_no_base64": (ACCOUNTS, login(ANNA, sig="%%%")),
    "token_missing": (ACCOUNTS, connect_line()),
    "token_missing_but_nkey": (ACCOUNTS, connect_line(nkey=USER.public_key, sig=signature(USER))),
    "token_missing_but_password": (ACCOUNTS, connect_line(user="x", **{"pass": "y"})),
    "token_empty": (ACCOUNTS, login("")),
    "token_of_two_parts": (ACCOUNTS, login(f"{HEADER}.{PAYLOAD}")),
    "token_of_four_parts": (ACCOUNTS, login(f"{ANNA}.x")),
    "token_of_dots": (ACCOUNTS, login("..")),
    "token_nonsense": (ACCOUNTS, login("nonsense")),
    "token_without_signature": (ACCOUNTS, login(f"{HEADER}.{PAYLOAD}.")),
    "token_with_other_signature": (
        ACCOUNTS,
        login(f"{HEADER}.{PAYLOAD}.{user_token(name='b').split('.')[2]}"),
    ),
    "token_with_other_payload": (
        ACCOUNTS,
        login(f"{HEADER}.{user_token(name='b').split('.')[1]}.{SIGNATURE}"),
    ),
    "token_with_padding": (ACCOUNTS, login(f"{ANNA}==")),
    "token_binary": (ACCOUNTS, login("\u0000\u2603\ufffd")),
    "token_of_an_account": (ACCOUNTS, login(account_token(ONE))),
    "token_of_an_operator": (ACCOUNTS, login(operator_token())),
    "token_is_a_number": (ACCOUNTS, connect_line(jwt=5)),
    "account_unknown": (ACCOUNTS, login(user_token(signer=STRANGER))),
    "account_expired": (ACCOUNTS, login(user_token(signer=EXPIRED))),
    "signing_key_unknown": (ACCOUNTS, login(user_token(signer=LOST, account=ONE))),
    "signing_key_without_account": (ACCOUNTS, login(user_token(signer=SIGNER))),
    "signing_key_of_another_account": (ACCOUNTS, login(user_token(signer=SIGNER, account=TWO))),
    "issuer_account_is_nonsense": (
        ACCOUNTS,
        login(
            encode(
                c.UserClaims(subject=USER.public_key, nats=c.User(issuer_account="../x")), ONE, issued_at=1
            )
        ),
    ),
    "own_account_named": (ACCOUNTS, login(user_token(account=ONE))),
    "expired": (ACCOUNTS, login(user_token(expires=ISSUED_AT + 1))),
    "expires_later": (ACCOUNTS, login(user_token(expires=LATE))),
    "not_yet": (ACCOUNTS, login(user_token(not_before=LATE))),
    "not_before_past": (ACCOUNTS, login(user_token(not_before=ISSUED_AT))),
    "revoked": (ACCOUNTS, login(user_token(REVOKED), REVOKED)),
    "revoked_but_newer": (ACCOUNTS, login(user_token(REVOKED, issued_at=ISSUED_AT + 101), REVOKED)),
    "revoked_at_that_second": (ACCOUNTS, login(user_token(REVOKED, issued_at=ISSUED_AT + 100), REVOKED)),
    "all_revoked": (ACCOUNTS, login(user_token(signer=SMALL))),
    "all_revoked_but_newer": (ACCOUNTS, login(user_token(signer=SMALL, issued_at=ISSUED_AT + 101))),
    "bearer": (ACCOUNTS, connect_line(jwt=user_token(bearer_token=True))),
    "bearer_with_wrong_signature": (ACCOUNTS, login(user_token(bearer_token=True), OTHER_USER)),
    "bearer_not_allowed": (ACCOUNTS, connect_line(jwt=user_token(signer=BEARERS, bearer_token=True))),
    "no_bearer_where_not_allowed": (ACCOUNTS, login(user_token(signer=BEARERS))),
    "type_standard": (ACCOUNTS, login(user_token(allowed_connection_types=["STANDARD"]))),
    "type_small_letters": (ACCOUNTS, login(user_token(allowed_connection_types=["standard"]))),
    "type_other": (ACCOUNTS, login(user_token(allowed_connection_types=["WEBSOCKET"]))),
    "type_unknown": (ACCOUNTS, login(user_token(allowed_connection_types=["X"]))),
    "type_unknown_and_standard": (ACCOUNTS, login(user_token(allowed_connection_types=["X", "STANDARD"]))),
    "type_unknown_and_other": (ACCOUNTS, login(user_token(allowed_connection_types=["X", "MQTT"]))),
    "src": (ACCOUNTS, login(user_token(src=["127.0.0.0/8"]))),
    "src_second": (ACCOUNTS, login(user_token(src=["10.0.0.0/8", "127.0.0.1/32"]))),
    "src_host_bits": (ACCOUNTS, login(user_token(src=["127.0.0.55/24"]))),
    "src_other": (ACCOUNTS, login(user_token(src=["10.0.0.0/8"]))),
    "src_v6": (ACCOUNTS, login(user_token(src=["::1/128"]))),
    "src_nonsense": (ACCOUNTS, login(user_token(src=["nonsense"]))),
    "src_without_mask": (ACCOUNTS, login(user_token(src=["127.0.0.1"]))),
    "times_all_day": (
        ACCOUNTS,
        login(
            user_token(
                times=[
                    c.TimeRange(start="00:00:00", end="12:00:00"),
                    c.TimeRange(start="11:59:59", end="23:59:59"),
                ]
            )
        ),
    ),
    "times_beyond_midnight": (
        ACCOUNTS,
        login(user_token(times=[c.TimeRange(start="12:00:01", end="12:00:00")], times_location="Asia/Tokyo")),
    ),
    "times_none": (ACCOUNTS, login(user_token(times=[c.TimeRange(start="12:00:00", end="12:00:00")]))),
    "times_nonsense": (ACCOUNTS, login(user_token(times=[c.TimeRange(start="noon", end="25:00:00")]))),
    "times_zone_nonsense": (
        ACCOUNTS,
        login(
            user_token(
                times=[c.TimeRange(start="00:00:00", end="23:59:59")], times_location="../../etc/passwd"
            )
        ),
    ),
    "permission_with_spaces": (ACCOUNTS, login(user_token(pub=c.SubjectList(allow=["a b c"])))),
    "permission_empty": (ACCOUNTS, login(user_token(sub=c.SubjectList(allow=[""])))),
    "permission_publish_queue": (ACCOUNTS, login(user_token(pub=c.SubjectList(allow=["a b"])))),
    "proxy_required": (ACCOUNTS, login(user_token(proxy_required=True))),
    "scoped_with_limits": (ACCOUNTS, login(user_token(signer=SCOPED, account=ONE))),
    "scoped_with_bearer": (ACCOUNTS, login(_scoped(bearer_token=True))),
    "scoped_name_makes_deny_invalid": (ACCOUNTS, login(_scoped(name="a b"))),
    "scoped_without_name": (ACCOUNTS, login(_scoped(name=""))),
    "account_named": (ACCOUNTS, login(ANNA, account="X")),
    "bad_protocol": (ACCOUNTS, login(ANNA, protocol=3)),
    "strict_signing_key": (STRICT, login(user_token(signer=SIGNER, account=ONE))),
    "strict_own_key": (STRICT, login(user_token())),
    "pinned": (PINNED, login(ANNA)),
    "pinned_not": (PINNED, login(user_token(signer=TWO))),
    "pinned_system": (PINNED, login(user_token(signer=SYSTEM))),
    "sentinel": (SENTINEL, connect_line()),
    "sentinel_for_nonsense": (SENTINEL, connect_line(jwt="nonsense")),
    "sentinel_not_for_tokens": (SENTINEL, login(ANNA, OTHER_USER)),
    "sentinel_ping": (SENTINEL, b"PING\r\n"),
    "first_is_ping": (ACCOUNTS, b"PING\r\n"),
}

FEW_USER = login(user_token(signer=FEW))

SESSIONS: list[Session] = [
    *(session(f"jwt_{name}", data, LOOP, settings=text) for name, (text, data) in LOGINS.items()),
    session("jwt_info", opened(), settings=ACCOUNTS, whole_info=True),
    session("jwt_info_connected", login(ANNA, protocol=1), b"PING\r\n", settings=ACCOUNTS, whole_info=True),
    session(
        "jwt_info_system",
        login(user_token(signer=SYSTEM), protocol=1),
        b"PING\r\n",
        settings=ACCOUNTS,
        whole_info=True,
    ),
    session(
        "jwt_accounts_are_apart",
        login(ANNA) + b"SUB foo 1\r\n",
        send(login(user_token(signer=TWO)) + b"SUB foo 1\r\n", "b"),
        send(login(user_token(OTHER_USER), OTHER_USER) + pub(b"foo", b"x"), "c"),
        settings=ACCOUNTS,
    ),
    session(
        "jwt_again_in_another_account",
        login(ANNA),
        LOOP,
        login(user_token(signer=TWO)),
        LOOP,
        settings=ACCOUNTS,
    ),
    session("jwt_again_without_token", login(ANNA), connect_line(jwt=""), settings=ACCOUNTS),
    session("jwt_again_keeps_fields", login(ANNA), b"CONNECT {}\r\n", LOOP, settings=ACCOUNTS),
    session("jwt_refused_before_the_rest", part(login("x") + LOOP), closed(), settings=ACCOUNTS),
    session("jwt_connections_over_the_limit", FEW_USER, send(FEW_USER, "b"), settings=ACCOUNTS),
    session(
        "jwt_subscriptions_of_account", FEW_USER, b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n", settings=ACCOUNTS
    ),
    session(
        "jwt_payload_of_account", FEW_USER, pub(b"a", b"x" * 16), pub(b"a", b"x" * 17), settings=ACCOUNTS
    ),
    session(
        "jwt_subscriptions_of_user",
        login(user_token(subs=1)),
        b"SUB a 1\r\nSUB b 2\r\n",
        settings=ACCOUNTS,
    ),
    session(
        "jwt_payload_of_user",
        login(user_token(payload=8)),
        pub(b"a", b"x" * 8),
        pub(b"a", b"x" * 9),
        settings=ACCOUNTS,
    ),
    session(
        "jwt_stricter_of_user_and_account",
        login(user_token(signer=FEW, payload=100, subs=1)),
        b"SUB a 1\r\nSUB b 2\r\n",
        pub(b"a", b"x" * 17),
        settings=ACCOUNTS,
    ),
    session(
        "jwt_subscriptions_of_scope",
        login(_scoped(tags=["team:red"])),
        b"SUB own.anna.a 1\r\nSUB own.anna.b 2\r\nSUB own.anna.c 3\r\nSUB own.anna.d 4\r\n",
        settings=ACCOUNTS,
    ),
    session(
        "jwt_payload_of_scope",
        login(_scoped(tags=["team:red"])),
        pub(b"own.anna.x", b"x" * 64),
        pub(b"own.anna.x", b"x" * 65),
        settings=ACCOUNTS,
    ),
]


def written_out(**fields: Any) -> str:
    """The token of a user with exactly these fields, also those that others leave out."""
    nats = {**c.NO_LIMITS, "type": "user", **fields}
    return encode(c.GenericClaims(subject=USER.public_key, nats=nats), ONE, issued_at=ISSUED_AT)


NETWORKS = (
    "127.0.0.1",
    "127.0.0.1/33",
    "::ffff:127.0.0.1/128",
    "::ffff:127.0.0.0/104",
    "::ffff:10.0.0.0/104",
    "::ffff:0:0/96",
    "::/0",
    "0.0.0.0/0",
)

EMPTY_LISTS: tuple[dict[str, list[str]], ...] = (
    {"allow": []},
    {"allow": [], "deny": []},
    {"allow": [], "deny": ["a"]},
    {"deny": ["a"]},
    {"allow": ["a"], "deny": []},
)

SESSIONS += [
    session(
        "jwt_permissions_of_user",
        login(user_token(pub=c.SubjectList(allow=["a.>"], deny=["a.b"]), sub=c.SubjectList(allow=["a.>"]))),
        b"SUB a.> 1\r\nSUB b 2\r\n",
        pub(b"a.x", b"") + pub(b"a.b", b"") + pub(b"b", b""),
        settings=ACCOUNTS,
    ),
    *(
        session(
            f"jwt_permissions_with_empty_lists_{number}",
            login(written_out(pub=lists, sub=lists)),
            b"SUB a 1\r\nSUB b 2\r\nSUB * 3\r\n",
            send(pub(b"a", b"") + pub(b"b", b""), any_order=True),
            settings=ACCOUNTS,
        )
        for number, lists in enumerate(EMPTY_LISTS)
    ),
    session("jwt_payload_below_none", login(written_out(payload=-2)), LOOP, settings=ACCOUNTS),
    session(
        "jwt_subscriptions_below_none",
        part(login(written_out(subs=-2))),
        closed(),
        settings=ACCOUNTS,
        only_closes=True,
    ),
    *(
        session(f"jwt_number_too_large_{name}", login(written_out(**{name: 2**63})), LOOP, settings=ACCOUNTS)
        for name in ("subs", "data", "payload")
    ),
    session(
        "jwt_times_with_one_digit",
        login(written_out(times=[{"start": "0:00:00", "end": "23:59:59"}])),
        LOOP,
        settings=ACCOUNTS,
    ),
    *(
        session(f"jwt_source_{number}", login(written_out(src=[network])), settings=ACCOUNTS)
        for number, network in enumerate(NETWORKS)
    ),
    session(
        "jwt_permissions_of_scope",
        login(_scoped(tags=["team:red", "team:blue", "other:x"])),
        b"SUB own.anna.x 1\r\nSUB one.y 2\r\nSUB own.bert.x 3\r\nSUB tag.green 4\r\n",
        pub(b"own.anna.x", b"")
        + pub(b"own.anna.secret", b"")
        + pub(b"tag.blue", b"")
        + pub(b"tag.green", b""),
        settings=ACCOUNTS,
    ),
    session(
        "jwt_scope_without_tags",
        login(_scoped()),
        b"SUB tag.x 1\r\nSUB all 2\r\n",
        pub(b"tag.x", b"") + pub(b"all", b""),
        settings=ACCOUNTS,
    ),
]

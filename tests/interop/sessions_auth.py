"""Authentication and permissions: who gets in, who is refused with what, and what the admitted may do."""

from tests.interop import settings
from tests.interop.session import (
    Session,
    bytewise,
    closed,
    connect,
    connect_line,
    hpub,
    opened,
    part,
    pub,
    quiet,
    send,
    session,
)

LOOP = b"SUB foo 1\r\n" + pub(b"foo", b"hi")


def _login(user: str, password: str = "word", **options: object) -> bytes:
    return connect_line(user=user, **{"pass": password}, **options)


# (settings, what is sent first)
LOGINS: dict[str, tuple[str, bytes]] = {
    "password": (settings.USER_AND_PASSWORD, _login("derek", "s3cr3t")),
    "password_verbose": (settings.USER_AND_PASSWORD, _login("derek", "s3cr3t", verbose=True)),
    "password_protocol_1": (settings.USER_AND_PASSWORD, _login("derek", "s3cr3t", protocol=1)),
    "password_wrong": (settings.USER_AND_PASSWORD, _login("derek", "S3CR3T")),
    "password_wrong_verbose": (
        settings.USER_AND_PASSWORD,
        _login("derek", "wrong", verbose=True, protocol=1),
    ),
    "password_prefix": (settings.USER_AND_PASSWORD, _login("derek", "s3cr3")),
    "password_longer": (settings.USER_AND_PASSWORD, _login("derek", "s3cr3tt")),
    "password_empty": (settings.USER_AND_PASSWORD, _login("derek", "")),
    "password_missing": (settings.USER_AND_PASSWORD, connect_line(user="derek")),
    "user_wrong": (settings.USER_AND_PASSWORD, _login("Derek", "s3cr3t")),
    "user_missing": (settings.USER_AND_PASSWORD, connect_line(**{"pass": "s3cr3t"})),
    "credentials_missing": (settings.USER_AND_PASSWORD, connect_line()),
    "token_instead_of_password": (settings.USER_AND_PASSWORD, connect_line(auth_token="s3cr3t")),
    "password_and_token": (settings.USER_AND_PASSWORD, _login("derek", "s3cr3t", auth_token="x")),
    "bad_json": (settings.USER_AND_PASSWORD, b"CONNECT {\r\n"),
    "bad_protocol": (settings.USER_AND_PASSWORD, _login("derek", "s3cr3t", protocol=3)),
    "bad_protocol_and_password": (settings.USER_AND_PASSWORD, _login("derek", "wrong", protocol=3)),
    "no_responders_without_headers": (
        settings.USER_AND_PASSWORD,
        _login("derek", "s3cr3t", no_responders=True, headers=False),
    ),
    "account_named": (settings.USER_AND_PASSWORD, _login("derek", "s3cr3t", account="X")),
    "first_is_ping": (settings.USER_AND_PASSWORD, b"PING\r\n"),
    "first_is_pub": (settings.USER_AND_PASSWORD, pub(b"foo", b"hi")),
    "first_is_sub": (settings.USER_AND_PASSWORD, b"SUB foo 1\r\n"),
    "first_is_nonsense": (settings.USER_AND_PASSWORD, b"nonsense\r\n"),
    "first_is_newline": (settings.USER_AND_PASSWORD, b"\r\n"),
    "first_is_misspelt_connect": (settings.USER_AND_PASSWORD, b"CONECT {}\r\n"),
    "token": (settings.TOKEN, connect_line(auth_token="t0k3n")),
    "token_wrong": (settings.TOKEN, connect_line(auth_token="T0K3N")),
    "token_empty": (settings.TOKEN, connect_line(auth_token="")),
    "token_missing": (settings.TOKEN, connect_line()),
    "token_as_password": (settings.TOKEN, _login("derek", "t0k3n")),
    "token_as_user": (settings.TOKEN, connect_line(user="t0k3n")),
    "bcrypt": (settings.BCRYPT, _login("derek", "secret")),
    "bcrypt_wrong": (settings.BCRYPT, _login("derek", "Secret")),
    "bcrypt_hash_as_password": (settings.BCRYPT, _login("derek", settings.BCRYPT_SECRET)),
    "users_plain": (settings.USERS, _login("plain")),
    "users_hashed": (settings.USERS, _login("hashed", "secret")),
    "users_hashed_wrong": (settings.USERS, _login("hashed", "word")),
    "users_unknown": (settings.USERS, _login("stranger")),
    "users_password_of_another": (settings.USERS, _login("plain", "secret")),
    "no_auth_user": (settings.NO_AUTH_USER, connect_line()),
    "no_auth_user_protocol_1": (settings.NO_AUTH_USER, connect_line(protocol=1)),
    "no_auth_user_logs_in": (settings.NO_AUTH_USER, _login("boss")),
    "no_auth_user_wrong_password": (settings.NO_AUTH_USER, _login("boss", "wrong")),
    "no_auth_user_unknown_user": (settings.NO_AUTH_USER, _login("stranger")),
    "no_auth_user_token": (settings.NO_AUTH_USER, connect_line(auth_token="x")),
    "no_auth_user_without_connect": (settings.NO_AUTH_USER, b"PING\r\n"),
    "accounts_protocol_1": (settings.ACCOUNTS, _login("two", protocol=1)),
    "accounts_unknown_user": (settings.ACCOUNTS, _login("three")),
    "accounts_no_credentials": (settings.ACCOUNTS, connect_line()),
}

LOGIN: list[Session] = [
    *(session(f"auth_{name}", data, LOOP, settings=text) for name, (text, data) in LOGINS.items()),
    session("auth_timeout", part(b""), closed(), settings=settings.SHORT_AUTH_TIMEOUT),
    session(
        "auth_timeout_with_half_a_connect", part(b"CONNECT {"), closed(), settings=settings.SHORT_AUTH_TIMEOUT
    ),
    session(
        "auth_no_timeout_once_connected",
        part(_login("derek", "s3cr3t")),
        *[quiet()] * 5,
        LOOP,
        settings=settings.SHORT_AUTH_TIMEOUT,
    ),
    session(
        "auth_refused_before_the_rest",
        part(_login("derek", "wrong") + LOOP),
        closed(),
        settings=settings.USER_AND_PASSWORD,
    ),
    session(
        "auth_accepted_with_the_rest", _login("derek", "s3cr3t") + LOOP, settings=settings.USER_AND_PASSWORD
    ),
    session("auth_bytewise", bytewise(_login("derek", "s3cr3t")), LOOP, settings=settings.USER_AND_PASSWORD),
    session(
        "auth_again_wrong",
        _login("derek", "s3cr3t"),
        _login("derek", "wrong"),
        settings=settings.USER_AND_PASSWORD,
    ),
    session(
        "auth_again_right",
        _login("derek", "s3cr3t"),
        LOOP,
        _login("derek", "s3cr3t"),
        LOOP,
        settings=settings.USER_AND_PASSWORD,
    ),
    session(
        "auth_again_without_fields_keeps_them",
        _login("derek", "s3cr3t"),
        b"CONNECT {}\r\n",
        LOOP,
        settings=settings.USER_AND_PASSWORD,
    ),
    session("auth_again_as_another", _login("plain"), LOOP, _login("nobody"), LOOP, settings=settings.USERS),
    session(
        "auth_no_auth_user_pub_without_connect",
        b"SUB guest.x 1\r\n" + pub(b"guest.x", b"hi"),
        pub(b"boss.x", b"no"),
        settings=settings.NO_AUTH_USER,
    ),
]

LOGIN += [
    session(
        "auth_no_auth_user_connects_later_and_loses_subscriptions",
        b"SUB guest.x 1\r\n",
        connect(),
        pub(b"guest.x", b"hi"),
        settings=settings.NO_AUTH_USER,
    ),
]

PERMISSIONS: list[Session] = [
    session(
        "permission_publish_allowed",
        _login("limited"),
        b"SUB open.> 1\r\n",
        pub(b"open.x", b"hi"),
        settings=settings.USERS,
    ),
    session(
        "permission_publish_refused",
        _login("limited"),
        send(_login("plain") + b"SUB > 1\r\n", "b"),
        pub(b"closed.x", b"hi"),
        settings=settings.USERS,
    ),
    session(
        "permission_publish_refused_verbose",
        _login("limited", verbose=True),
        pub(b"closed.x", b"hi"),
        pub(b"open.x", b"hi"),
        settings=settings.USERS,
    ),
    session(
        "permission_publish_denied",
        _login("limited"),
        send(_login("plain") + b"SUB > 1\r\n", "b"),
        pub(b"open.secret", b"hi"),
        pub(b"open.x", b"hi"),
        settings=settings.USERS,
    ),
    session(
        "permission_publish_header_refused",
        _login("limited"),
        hpub(b"closed", b"NATS/1.0\r\n\r\n", b"hi"),
        settings=settings.USERS,
    ),
    session(
        "permission_publish_wildcard_refused",
        _login("limited"),
        pub(b">", b"hi"),
        pub(b"open.*", b"hi"),
        settings=settings.USERS,
    ),
    session(
        "permission_reply_is_not_checked",
        _login("limited"),
        b"SUB open.x 1\r\n",
        pub(b"open.x", b"hi", b"closed.reply"),
        settings=settings.USERS,
    ),
    session(
        "permission_publish_odd_subject_is_quoted",
        _login("limited"),
        pub(b'a"b\\c\x01\xff\x00', b""),
        pub("☃é".encode(), b""),
        settings=settings.USERS,
    ),
    session(
        "permission_subscribe_refused",
        _login("limited"),
        b"SUB closed 1\r\n",
        pub(b"open.x", b"hi"),
        settings=settings.USERS,
    ),
    session(
        "permission_subscribe_refused_verbose",
        _login("limited", verbose=True),
        b"SUB closed 1\r\nSUB open.x 2\r\n",
        settings=settings.USERS,
    ),
    session(
        "permission_subscribe_refused_with_queue",
        _login("limited"),
        b"SUB closed q 1\r\n",
        settings=settings.USERS,
    ),
    session(
        "permission_subscribe_denied", _login("limited"), b"SUB open.secret 1\r\n", settings=settings.USERS
    ),
    session(
        "permission_subscribe_wider_than_allowed",
        _login("limited"),
        b"SUB > 1\r\nSUB * 2\r\nSUB open.* 3\r\n",
        settings=settings.USERS,
    ),
    session(
        "permission_wildcard_does_not_deliver_denied",
        _login("limited"),
        b"SUB open.> 1\r\n",
        send(_login("plain") + pub(b"open.secret", b"no") + pub(b"open.x", b"yes"), "b"),
        settings=settings.USERS,
    ),
    session(
        "permission_queue_allowed_only_as_queue",
        _login("limited"),
        b"SUB shared 1\r\n",
        b"SUB shared workers 2\r\n",
        b"SUB shared others 3\r\n",
        settings=settings.USERS,
    ),
    session(
        "permission_queue_denied",
        _login("limited"),
        b"SUB open.q hidden 1\r\n",
        b"SUB open.q seen 2\r\n",
        settings=settings.USERS,
    ),
    session(
        "permission_nothing",
        _login("nobody"),
        b"SUB a 1\r\n",
        pub(b"a", b"x"),
        b"PING\r\n",
        settings=settings.USERS,
    ),
    session(
        "permission_subscribe_invalid_subject",
        _login("limited"),
        b"SUB a..b 1\r\n",
        b"SUB open..b 1\r\n",
        settings=settings.USERS,
    ),
    session(
        "permission_no_responders_refused",
        _login("limited", no_responders=True),
        b"SUB _INBOX.x 1\r\n",
        pub(b"closed", b"", b"_INBOX.x"),
        pub(b"open.x", b"", b"_INBOX.x"),
        settings=settings.USERS,
    ),
    session(
        "permission_responses",
        _login("responder"),
        b"SUB service 1\r\n",
        pub(b"reply.1", b"too early"),
        send(_login("plain") + b"SUB reply.* 1\r\n" + pub(b"service", b"?", b"reply.1"), "b"),
        pub(b"reply.1", b"one"),
        pub(b"reply.1", b"two"),
        pub(b"reply.1", b"three"),
        pub(b"reply.2", b"never asked"),
        settings=settings.USERS,
    ),
    session(
        "permission_guest",
        connect(),
        b"SUB guest.x 1\r\nSUB other 2\r\n",
        pub(b"guest.x", b"hi"),
        pub(b"other", b"hi"),
        settings=settings.NO_AUTH_USER,
    ),
]

ACCOUNTS: list[Session] = [
    session(
        "account_separates_subjects",
        _login("two"),
        b"SUB foo 1\r\n",
        send(_login("one") + b"SUB foo 1\r\n", "b"),
        send(pub(b"foo", b"x"), "b"),
        pub(b"foo", b"y"),
        settings=settings.ACCOUNTS,
    ),
    session(
        "account_connections_over_the_limit",
        _login("one"),
        send(_login("one"), "b"),
        send(_login("one"), "c"),
        send(_login("two"), "d"),
        settings=settings.ACCOUNTS,
    ),
    session(
        "account_subscriptions_over_the_limit",
        _login("one"),
        b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n",
        settings=settings.ACCOUNTS,
    ),
    session(
        "account_payload_limit",
        _login("one", protocol=1),
        pub(b"a", b"x" * 16),
        pub(b"a", b"x" * 17),
        settings=settings.ACCOUNTS,
    ),
    session(
        "account_switched_by_second_connect",
        _login("one"),
        b"SUB foo 1\r\n",
        _login("two"),
        b"SUB foo 2\r\n",
        send(_login("one") + pub(b"foo", b"x"), "b"),
        settings=settings.ACCOUNTS,
    ),
    session("account_needs_login", opened(), settings=settings.ACCOUNTS),
]

SESSIONS: list[Session] = LOGIN + PERMISSIONS + ACCOUNTS

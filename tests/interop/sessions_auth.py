"""Authentication: who gets in, and who is refused with what."""

from tests.interop import settings
from tests.interop.session import (
    Session,
    bytewise,
    closed,
    connect,
    connect_line,
    part,
    pub,
    quiet,
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
}

SESSIONS: list[Session] = [
    *(session(f"auth_{name}", data, LOOP, settings=text) for name, (text, data) in LOGINS.items()),
    session("auth_timeout", part(b""), closed(), settings=settings.SHORT_AUTH_TIMEOUT),
    session(
        "auth_timeout_with_half_a_connect", part(b"CONNECT {"), closed(), settings=settings.SHORT_AUTH_TIMEOUT
    ),
    session(
        "auth_no_timeout_once_connected",
        part(_login("derek", "s3cr3t")),
        *[quiet()] * 35,  # longer than the timeout
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
    session(
        "auth_again_as_another",
        _login("plain"),
        LOOP,
        _login("hashed", "secret"),
        LOOP,
        settings=settings.USERS,
    ),
    session(
        "auth_no_auth_user_pub_without_connect",
        b"SUB guest.x 1\r\n" + pub(b"guest.x", b"hi"),
        pub(b"boss.x", b"no"),
        settings=settings.NO_AUTH_USER,
    ),
    session(
        "auth_no_auth_user_connects_later_and_loses_subscriptions",
        b"SUB guest.x 1\r\n",
        connect(),
        pub(b"guest.x", b"hi"),
        settings=settings.NO_AUTH_USER,
    ),
]

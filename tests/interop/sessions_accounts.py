"""Accounts: who is in which, what they see of each other, and what the configuration refuses."""

from tests.interop import settings
from tests.interop.session import Session, closed, connect_line, part, pub, send, session

ACCOUNTS = settings.SEVERAL_ACCOUNTS
SYSTEM_ONLY = settings.SYSTEM_ACCOUNT_ONLY


def login(user: str, password: str = "x", **options: object) -> bytes:
    return connect_line(user=user, **{"pass": password}, **options)


def two(name: str, first: str, second: str, *data: bytes) -> Session:
    """The first subscribes, the second publishes."""
    return session(
        f"accounts_{name}",
        send(login(first) + b"SUB foo 1\r\nSUB f.> 2\r\nSUB foo q 3\r\n"),
        send(login(second) + b"SUB foo 9\r\n", "b"),
        *(send(one, "b", any_order=True) for one in data or (pub(b"foo", b"hi") + pub(b"f.x", b"hi"),)),
        send(pub(b"foo", b"own"), any_order=True),
        settings=ACCOUNTS,
    )


PAIRS = [("a", "a2"), ("a", "b"), ("b", "a"), ("a", "g"), ("g", "a"), ("s", "a"), ("a", "s"), ("g", "g2")]

# (settings, what is sent first)
LOGINS: dict[str, tuple[str, bytes]] = {
    **{f"user_{name}": (ACCOUNTS, login(name, protocol=1)) for name in ("a", "b", "g", "s", "limited")},
    "wrong_password": (ACCOUNTS, login("a", "y")),
    "unknown": (ACCOUNTS, login("nobody")),
    "nobody": (ACCOUNTS, connect_line()),
    "account_as_user": (ACCOUNTS, login("A")),
    "names_its_account": (ACCOUNTS, login("a", account="A")),
    "names_another_account": (ACCOUNTS, login("a", account="B")),
    "new_account": (ACCOUNTS, login("a", new_account=True)),
    "names_no_account": (ACCOUNTS, login("a", account="")),
    "no_auth_user": (settings.ACCOUNTS_NO_AUTH_USER, connect_line(protocol=1)),
    "no_auth_user_without_connect": (settings.ACCOUNTS_NO_AUTH_USER, b"SUB x 1\r\n" + pub(b"x")),
    "no_auth_user_other": (settings.ACCOUNTS_NO_AUTH_USER, login("b", protocol=1)),
    "no_auth_user_password_only": (settings.ACCOUNTS_NO_AUTH_USER, connect_line(**{"pass": "x"})),
    "only_system_anybody": (SYSTEM_ONLY, connect_line(protocol=1)),
    "only_system_without_connect": (SYSTEM_ONLY, b"PING\r\n"),
    "only_system_admin": (SYSTEM_ONLY, login("s", protocol=1)),
    "only_system_wrong": (SYSTEM_ONLY, login("s", "y")),
    "only_system_stranger": (SYSTEM_ONLY, login("t")),
    "only_system_token": (SYSTEM_ONLY, connect_line(auth_token="x")),
    "only_system_password": (SYSTEM_ONLY, connect_line(**{"pass": "x"})),
    "named_system": (settings.NAMED_SYSTEM_ACCOUNT, login("s", protocol=1)),
    "named_system_anybody": (settings.NAMED_SYSTEM_ACCOUNT, connect_line(protocol=1)),
    "without_users": (settings.ACCOUNTS_WITHOUT_USERS, connect_line(protocol=1)),
    "without_users_named": (settings.ACCOUNTS_WITHOUT_USERS, login("a", protocol=1)),
}

SESSIONS: list[Session] = [
    *(two(f"{first}_and_{second}", first, second) for first, second in PAIRS),
    *(
        session(f"accounts_login_{name}", data, b"PING\r\n", settings=text, whole_info=True)
        for name, (text, data) in LOGINS.items()
    ),
    two("request_stays", "a", "b", b"SUB in 8\r\n", pub(b"foo", b"q", b"in"), pub(b"bar", b"q", b"in")),
    session(
        "accounts_no_responders_next_door",
        send(login("a") + b"SUB svc 1\r\n"),
        send(login("b", no_responders=True) + b"SUB in 1\r\n" + pub(b"svc", b"q", b"in"), "b"),
        settings=ACCOUNTS,
    ),
    session(
        "accounts_again_as_another",
        login("a") + b"SUB foo 1\r\n",
        login("b"),
        pub(b"foo", b"hi"),
        send(login("a") + pub(b"foo", b"there"), "b"),
        settings=ACCOUNTS,
    ),
    session("accounts_max_payload", login("limited") + pub(b"foo", b"123456"), settings=ACCOUNTS),
    session("accounts_max_payload_exactly", login("limited") + pub(b"foo", b"12345"), settings=ACCOUNTS),
    session(
        "accounts_max_subscriptions",
        login("limited") + b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nUNSUB 1\r\nSUB d 4\r\n",
        settings=ACCOUNTS,
    ),
    session(
        "accounts_max_connections",
        login("limited"),
        part(login("limited"), "b"),
        closed("b"),
        send(login("a"), "c"),
        settings=ACCOUNTS,
    ),
]

"""Permissions to subscribe, without queues: wildcards on both sides, and what is then delivered."""

from tests.interop import settings
from tests.interop.session import Session, connect, hpub, opened, pub, send, session
from tests.interop.sessions_permissions_publish import login

SUBJECTS: dict[str, tuple[bytes, ...]] = {
    "literal": (b"a.b", b"a.c", b"a", b"a.b.c"),
    "one_token": (b"c.x", b"c.*", b"c", b"c.x.y", b"*.x", b"*.b"),
    "tail": (b"d.x", b"d.>", b"d.*", b"d.*.x", b"d.x.>", b"d"),
    "everything": (b"*", b"*.*", b">", b"*.>", b"*.*.*"),
    "first_token": (b"*.e", b"x.e", b"x.y.e"),
    "nested": (b"a.*", b"a.>", b"a.b.*", b"a.*.c", b"a.b.>", b"a.secret", b"a.*.*"),
    "invalid": (b"a..b", b".a", b"a.", b">.a", b"a.>.b"),
    "odd": (b"a.b*", b"*a.b", b"d.>>", b"$SYS.>", b"$JS.API.>", b"default.>"),
}
USERS = ("sub_allow", "sub_deny", "sub_both", "sub_all", "default", "importer", "pub_both")
PUBLISHED = (b"a.b", b"a.b.c", b"a.c", b"a.secret", b"c.x", b"d.x", b"d.x.y", b"x.e", b"out.x", b"default.x")


TABLE: list[Session] = [
    session(
        f"permission_subscribe_{user}_{name}",
        login(user) + b"".join(b"SUB %b %d\r\n" % (subject, sid) for sid, subject in enumerate(subjects)),
        send(login("plain") + b"".join(pub(subject, b"x") for subject in PUBLISHED), "b", any_order=True),
        settings=settings.PERMISSION_RULES,
    )
    for user in USERS
    for name, subjects in SUBJECTS.items()
]

OTHERS: list[Session] = [
    session(
        "permission_subscribe_same_sid_after_refusal",
        login("sub_allow", verbose=True),
        b"SUB no 1\r\nSUB a.b 1\r\nSUB a.b 1\r\nUNSUB 1\r\nSUB no 1\r\n",
        settings=settings.PERMISSION_RULES,
    ),
    session(
        "permission_subscribe_denied_do_not_count_for_the_maximum",
        login("sub_both"),
        b"SUB a.> 1\r\nUNSUB 1 2\r\n",
        send(
            login("plain")
            + b"".join(pub(b"a." + word, b"x") for word in (b"secret", b"1", b"secret", b"2", b"3")),
            "b",
        ),
        settings=settings.PERMISSION_RULES,
    ),
    session(
        "permission_subscribe_denied_with_headers",
        login("sub_both", headers=True),
        b"SUB a.> 1\r\n",
        send(
            login("plain", headers=True)
            + hpub(b"a.secret", b"NATS/1.0\r\n\r\n", b"no")
            + hpub(b"a.x", b"NATS/1.0\r\n\r\n", b"yes"),
            "b",
        ),
        settings=settings.PERMISSION_RULES,
    ),
    session(
        "permission_subscribe_denied_before_and_after_others",
        send(login("plain") + b"SUB a.> 1\r\n", "b"),
        login("sub_both") + b"SUB a.> 1\r\n",
        send(login("plain") + pub(b"a.secret", b"x"), "c"),
        send(b"UNSUB 1\r\n", "b"),
        send(pub(b"a.secret", b"x") + pub(b"a.open", b"x"), "c"),
        b"UNSUB 1\r\n",
        send(pub(b"a.open", b"x"), "c"),
        settings=settings.PERMISSION_RULES,
    ),
    session(
        "permission_subscribe_as_guest",
        connect(),
        b"SUB a.> 1\r\nSUB b 2\r\nSUB a.secret 3\r\n",
        send(login("plain") + pub(b"a.secret", b"x") + pub(b"a.x", b"x"), "b"),
        settings=settings.PERMISSION_RULES,
    ),
    *(
        session(
            f"permission_first_operation_{name}",
            opened("b"),
            send(login("plain"), "b"),
            first,
            send(pub(b"a.secret", b"x") + pub(b"a.x", b"x"), "b"),
            login(user),
            b"SUB a.secret 8\r\nSUB a.> 9\r\n",
            send(pub(b"a.secret", b"x"), "b"),
            settings=settings.PERMISSION_RULES,
        )
        for name, first, user in [
            ("subscribes", b"SUB a.secret 1\r\nSUB a.> 2\r\n", "sub_both"),
            ("subscribes_then_another_user", b"SUB a.secret 1\r\nSUB a.> 2\r\n", "plain"),
            ("subscribes_then_fewer_rights", b"SUB a.> 2\r\nSUB b.> 3\r\n", "sub_allow"),
            ("publishes", pub(b"a.x", b"x"), "sub_both"),
            ("pings", b"PING\r\n", "sub_both"),
            ("unsubscribes", b"UNSUB 1\r\n", "sub_both"),
        ]
    ),
    session(
        "permission_connection_type_allowed",
        login("standard") + b"SUB default.x 1\r\n" + pub(b"default.x", b"hi") + pub(b"other", b"no"),
        settings=settings.PERMISSION_RULES,
    ),
    session("permission_connection_type_refused", login("browser"), settings=settings.PERMISSION_RULES),
    session(
        "permission_connection_type_refused_verbose",
        login("browser", verbose=True),
        settings=settings.PERMISSION_RULES,
    ),
]

ACCOUNT: list[Session] = [
    session(
        f"permission_by_default_of_the_account_{name}",
        hello + b"SUB a.> 1\r\nSUB a.secret 2\r\n",
        pub(b"a.x", b"x") + pub(b"b.x", b"x") + pub(b"a.secret", b"x"),
        settings=settings.ACCOUNT_PERMISSIONS,
    )
    for name, hello in [
        ("guest", connect().data),
        ("guest_without_connect", b""),
        ("named", login("a")),
        ("own", login("b")),
    ]
]

SESSIONS: list[Session] = TABLE + OTHERS + ACCOUNT

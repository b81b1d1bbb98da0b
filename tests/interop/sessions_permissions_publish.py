"""Permissions to publish: which subjects, with which replies, and what is said to those who may not."""

from tests.interop import settings
from tests.interop.session import Session, connect_line, hpub, pub, send, session


def login(user: str, **options: object) -> bytes:
    return connect_line(user=user, **{"pass": "word"}, **options)


WATCHED = send(login("plain") + b"SUB > 1\r\n", "b")

SUBJECTS: dict[str, tuple[bytes, ...]] = {
    "literal": (b"a.b", b"a.c", b"a", b"a.b.c", b"A.b"),
    "one_token": (b"c.x", b"c", b"c.x.y", b"c.*", b"c.>"),
    "tail": (b"d.x", b"d.x.y.z", b"d", b"d.>", b"dd.x"),
    "first_token": (b"x.e", b"*.e", b"x.y.e", b">"),
    "empty_tokens": (b"a..b", b".a", b"a.", b"d..x"),
    "odd_tokens": (b"a.b*", b"*a.b", b"c.>>", b"d.**", b'a."b"'),
    "nested": (b"a.b.c", b"a.secret", b"a.secret.x", b"a.b", b"a.*", b"a.b.*", b"a.>"),
    "reserved": (b"$SYS.x", b"$JS.API.INFO", b"$NRG.x", b"_GR_.x.y", b"default.x"),
}
USERS = ("pub_allow", "pub_deny", "pub_both", "pub_all", "pub_wild", "default", "importer", "sub_allow")

TABLE: list[Session] = [
    session(
        f"permission_publish_{user}_{name}",
        WATCHED,
        login(user),
        b"".join(pub(subject, b"x") for subject in subjects),
        settings=settings.PERMISSION_RULES,
    )
    for user in USERS
    for name, subjects in SUBJECTS.items()
]

REPLIES: list[Session] = [
    session(
        f"permission_publish_reply_{name}",
        WATCHED,
        login("pub_both", verbose=verbose),
        pub(subject, b"x", reply),
        settings=settings.PERMISSION_RULES,
    )
    for name, subject, reply, verbose in [
        ("elsewhere", b"a.x", b"not.allowed", False),
        ("elsewhere_verbose", b"a.x", b"not.allowed", True),
        ("denied", b"a.x", b"a.secret", False),
        ("reserved", b"a.x", b"_R_.x", False),
        ("of_acknowledgement", b"a.x", b"$JS.ACK.x", False),
        ("reserved_and_refused", b"b.x", b"_R_.x", False),
        ("reserved_and_refused_verbose", b"b.x", b"_R_.x", True),
    ]
]

OTHERS: list[Session] = [
    session(
        "permission_publish_many_in_one_packet",
        WATCHED,
        login("pub_both") + b"".join(pub(b"a.%d" % (k % 9), b"x") + pub(b"b", b"x") for k in range(50)),
        settings=settings.PERMISSION_RULES,
    ),
    session(
        "permission_publish_headers",
        WATCHED,
        login("pub_both", headers=True),
        hpub(b"a.x", b"NATS/1.0\r\nA: b\r\n\r\n", b"yes") + hpub(b"b.x", b"NATS/1.0\r\n\r\n", b"no"),
        settings=settings.PERMISSION_RULES,
    ),
    session(
        "permission_publish_pedantic",
        login("pub_both", pedantic=True),
        pub(b"a.*", b"x") + pub(b"b.*", b"x") + pub(b"a.>", b"x"),
        settings=settings.PERMISSION_RULES,
    ),
    session(
        "permission_publish_no_responders",
        login("sub_both", headers=True, no_responders=True),
        b"SUB _INBOX.1 1\r\n" + pub(b"nobody", b"x", b"_INBOX.1"),
        settings=settings.PERMISSION_RULES,
    ),
    session(
        "permission_publish_no_responders_if_denied_to_all",
        login("plain", headers=True, no_responders=True),
        send(login("sub_both") + b"SUB a.> 1\r\n", "b"),
        b"SUB _INBOX.1 1\r\n" + pub(b"a.secret", b"x", b"_INBOX.1") + pub(b"a.open", b"x", b"_INBOX.1"),
        settings=settings.PERMISSION_RULES,
    ),
    *(
        session(
            f"permission_spoofed_header_{name.decode().lower()}",
            WATCHED,
            login("pub_both", headers=True),
            hpub(b"a.x", b"NATS/1.0\r\n" + name + b": " + value + b"\r\n\r\n", b"x", b"_INBOX.1"),
            hpub(b"b.x", b"NATS/1.0\r\n" + name + b": " + value + b"\r\n\r\n", b"x"),
            settings=settings.PERMISSION_RULES,
        )
        for name, value in [
            (b"Nats-Request-Info", b'{"acc":"$SYS","user":"plain","start":"2026-01-01T00:00:00Z"}'),
            (b"Nats-Pending-Size", b"1"),
            (b"Nats-Subject", b"a.secret"),
            (b"Nats-Stream-Source", b"S 1"),
            (b"Nats-Service-Error-Code", b"500"),
        ]
    ),
]

SESSIONS: list[Session] = TABLE + REPLIES + OTHERS

"""Permissions of queue groups: rules that name a queue, and members that may not get a message."""

from tests.interop import settings
from tests.interop.session import Session, pub, send, session
from tests.interop.sessions_permissions_publish import login

QUEUES = (
    b"",
    b"v1",
    b"v2",
    b"v.x",
    b"v.x.y",
    b"v",
    b"v.*",
    b"v.>",
    b"*",
    b">",
    b"q1",
    b"q2",
    b"_sys_",
    b"a..b",
)
SUBJECTS: dict[str, tuple[bytes, ...]] = {
    "queue_allow": (b"foo", b"bar", b"baz", b"qux", b"bux", b"w.x", b"w.x.y", b"w.*", b"w.>", b"*", b">"),
    "queue_deny": (b"foo", b"bar", b"x.a", b"x.*", b"baz", b"y", b"z.a", b"z.*", b"*", b">"),
    "sub_both": (b"a.secret", b"a.x", b"a.*", b"a.>", b"b"),
}
NAMES = {
    b"*": "one_token",
    b">": "everything",
    b"x.*": "x_any",
    b"z.*": "z_any",
    b"w.*": "w_any",
    b"w.>": "w_tail",
}
PUBLISHED = (
    b"foo",
    b"bar",
    b"baz",
    b"qux",
    b"bux",
    b"w.x",
    b"x.a",
    b"y",
    b"z.a",
    b"z.b",
    b"a.secret",
    b"a.x",
)


def _name(subject: bytes) -> str:
    named = NAMES.get(subject) or subject.decode()
    return named.replace("*", "any").replace(">", "tail").replace(".", "_")


TABLE: list[Session] = [
    session(
        f"permission_{user}_{_name(subject)}",
        login(user)
        + b"".join(b"SUB %b %b %d\r\n" % (subject, queue, sid) for sid, queue in enumerate(QUEUES)),
        send(login("plain") + b"".join(pub(published, b"x") for published in PUBLISHED), "b", any_order=True),
        settings=settings.PERMISSION_RULES,
    )
    for user, subjects in SUBJECTS.items()
    for subject in subjects
]

MEMBERS: list[Session] = [
    session(
        f"permission_queue_member_{name}",
        login("plain") + b"SUB a.> workers 1\r\n",
        send(login("sub_both") + b"SUB a.> workers 1\r\n", "b"),
        send(login("plain") + pub(published, b"x") * 20, "c"),
        settings=settings.PERMISSION_RULES,
    )
    for name, published in [("denied", b"a.secret"), ("denied_below", b"a.b.c")]
] + [
    session(
        "permission_queue_only_member_denied",
        login("sub_both") + b"SUB a.> workers 1\r\nSUB a.* others 2\r\n",
        send(login("plain") + pub(b"a.secret", b"x") + pub(b"a.b.c", b"x") + pub(b"a.b.c.d", b"x"), "b"),
        settings=settings.PERMISSION_RULES,
    ),
    session(
        "permission_queue_denied_by_name_in_a_wildcard",
        login("queue_deny") + b"SUB > q1 1\r\nSUB > q2 2\r\nSUB > q3 3\r\n",
        send(
            login("plain") + b"".join(pub(subject, b"x") for subject in (b"foo", b"x.a", b"y", b"w")),
            "b",
            any_order=True,
        ),
        settings=settings.PERMISSION_RULES,
    ),
]

SESSIONS: list[Session] = TABLE + MEMBERS

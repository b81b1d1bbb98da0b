"""`allow_responses`: who may answer, how often, and to what."""

from tests.interop import settings
from tests.interop.session import Session, pub, send, session
from tests.interop.sessions_permissions_publish import login

USERS = ("answers", "answers_two", "answers_always", "answers_late", "answers_not")


def ask(*replies: bytes) -> bytes:
    return b"".join(pub(b"service", b"?", reply) for reply in replies)


# The client sends every first step, the user answers with every second.
SCRIPTS: dict[str, tuple[bytes, ...]] = {
    "none_asked": (b"", pub(b"r.1", b"x") + pub(b"service", b"x")),
    "once": (ask(b"r.1"), pub(b"r.1", b"1") + pub(b"r.1", b"2") + pub(b"r.1", b"3") + pub(b"r.2", b"x")),
    "two_requests": (
        ask(b"r.1", b"r.2"),
        pub(b"r.2", b"1") + pub(b"r.1", b"1") + pub(b"r.2", b"2") + pub(b"r.1", b"2"),
    ),
    "asked_again": (
        ask(b"r.1", b"r.1"),
        pub(b"r.1", b"1") + pub(b"r.1", b"2"),
        ask(b"r.1"),
        pub(b"r.1", b"3") + pub(b"r.1", b"4"),
    ),
    "wildcard_reply": (ask(b"r.*", b"r.>"), pub(b"r.1", b"x") + pub(b"r.*", b"x") + pub(b"r.>", b"x")),
    "without_reply": (pub(b"service", b"x"), pub(b"r.1", b"x")),
}


TABLE: list[Session] = [
    session(
        f"permission_responses_{user}_{name}",
        login(user) + b"SUB service 1\r\n",
        send(login("plain") + b"SUB r.> 1\r\n", "b"),
        *(send(step, "b") if place % 2 == 0 else send(step) for place, step in enumerate(steps)),
        settings=settings.PERMISSION_RULES,
    )
    for user in USERS
    for name, steps in SCRIPTS.items()
]

OTHERS: list[Session] = [
    session(
        f"permission_responses_to_rules_{name}",
        login("answers_some") + b"SUB service 1\r\n",
        send(login("plain") + b"SUB *.1 1\r\n" + ask(reply), "b"),
        pub(reply, b"1") + pub(reply, b"2"),
        settings=settings.PERMISSION_RULES,
    )
    for name, reply in [("allowed", b"ok.1"), ("denied", b"no.1"), ("neither", b"other.1")]
] + [
    session(
        "permission_responses_of_another_connection",
        login("answers") + b"SUB service 1\r\n",
        send(login("answers"), "c"),
        send(login("plain") + b"SUB r.1 1\r\n" + ask(b"r.1"), "b"),
        send(pub(b"r.1", b"not asked"), "c"),
        pub(b"r.1", b"asked"),
        settings=settings.PERMISSION_RULES,
    ),
    session(
        "permission_responses_in_a_queue_group",
        login("answers") + b"SUB service workers 1\r\n",
        send(login("plain") + b"SUB r.1 1\r\n" + ask(b"r.1"), "b"),
        pub(b"r.1", b"1") + pub(b"r.1", b"2"),
        settings=settings.PERMISSION_RULES,
    ),
    session(
        "permission_responses_end_with_a_second_connect",
        login("answers") + b"SUB service 1\r\n",
        send(login("plain") + b"SUB r.1 1\r\n" + ask(b"r.1"), "b"),
        login("answers"),
        pub(b"r.1", b"1"),
        settings=settings.PERMISSION_RULES,
    ),
    session(
        "permission_responses_reply_with_reply",
        login("answers") + b"SUB service 1\r\n",
        send(login("plain") + b"SUB r.1 1\r\n" + ask(b"r.1"), "b"),
        pub(b"r.1", b"1", b"r.2"),
        settings=settings.PERMISSION_RULES,
    ),
    session(
        "permission_responses_to_oneself",
        login("answers_some") + b"SUB ok.x 1\r\n" + pub(b"ok.x", b"?", b"r.1") + pub(b"r.1", b"1") * 2,
        settings=settings.PERMISSION_RULES,
    ),
]

SESSIONS: list[Session] = TABLE + OTHERS

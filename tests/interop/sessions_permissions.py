"""Permissions and accounts: what those who got in may do, and whom they can reach."""

from tests.interop import settings
from tests.interop.session import Session, connect, connect_line, hpub, opened, pub, send, session

LOOP = b"SUB foo 1\r\n" + pub(b"foo", b"hi")


def _login(user: str, password: str = "word", **options: object) -> bytes:
    return connect_line(user=user, **{"pass": password}, **options)


PERMISSIONS: list[Session] = [
    session(
        "permission_change_with_second_connect",
        _login("plain"),
        LOOP,
        _login("nobody"),
        LOOP,
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_guest_without_connect",
        b"SUB guest.x 1\r\n" + pub(b"guest.x", b"hi"),
        pub(b"boss.x", b"no"),
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_publish_allowed",
        _login("limited"),
        b"SUB open.> 1\r\n",
        pub(b"open.x", b"hi"),
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_publish_refused",
        _login("limited"),
        send(_login("plain") + b"SUB > 1\r\n", "b"),
        pub(b"closed.x", b"hi"),
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_publish_refused_verbose",
        _login("limited", verbose=True),
        pub(b"closed.x", b"hi"),
        pub(b"open.x", b"hi"),
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_publish_denied",
        _login("limited"),
        send(_login("plain") + b"SUB > 1\r\n", "b"),
        pub(b"open.secret", b"hi"),
        pub(b"open.x", b"hi"),
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_publish_header_refused",
        _login("limited"),
        hpub(b"closed", b"NATS/1.0\r\n\r\n", b"hi"),
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_publish_wildcard_refused",
        _login("limited"),
        pub(b">", b"hi"),
        pub(b"open.*", b"hi"),
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_reply_is_not_checked",
        _login("limited"),
        b"SUB open.x 1\r\n",
        pub(b"open.x", b"hi", b"closed.reply"),
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_publish_odd_subject_is_quoted",
        _login("limited"),
        pub(b'a"b\\c\x01\xff\x00', b""),
        pub("☃é".encode(), b""),
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_subscribe_refused",
        _login("limited"),
        b"SUB closed 1\r\n",
        pub(b"open.x", b"hi"),
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_subscribe_refused_verbose",
        _login("limited", verbose=True),
        b"SUB closed 1\r\nSUB open.x 2\r\n",
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_subscribe_refused_with_queue",
        _login("limited"),
        b"SUB closed q 1\r\n",
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_subscribe_denied",
        _login("limited"),
        b"SUB open.secret 1\r\n",
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_subscribe_wider_than_allowed",
        _login("limited"),
        b"SUB > 1\r\nSUB * 2\r\nSUB open.* 3\r\n",
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_wildcard_does_not_deliver_denied",
        _login("limited"),
        b"SUB open.> 1\r\n",
        send(_login("plain") + pub(b"open.secret", b"no") + pub(b"open.x", b"yes"), "b"),
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_queue_allowed_only_as_queue",
        _login("limited"),
        b"SUB shared 1\r\n",
        b"SUB shared workers 2\r\n",
        b"SUB shared others 3\r\n",
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_queue_denied",
        _login("limited"),
        b"SUB open.q hidden 1\r\n",
        b"SUB open.q seen 2\r\n",
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_nothing",
        _login("nobody"),
        b"SUB a 1\r\n",
        pub(b"a", b"x"),
        b"PING\r\n",
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_subscribe_invalid_subject",
        _login("limited"),
        b"SUB a..b 1\r\n",
        b"SUB open..b 1\r\n",
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_no_responders_refused",
        _login("limited", no_responders=True),
        b"SUB _INBOX.x 1\r\n",
        pub(b"closed", b"", b"_INBOX.x"),
        pub(b"open.x", b"", b"_INBOX.x"),
        settings=settings.PERMISSIONS,
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
        settings=settings.PERMISSIONS,
    ),
    session(
        "permission_guest",
        connect(),
        b"SUB guest.x 1\r\nSUB other 2\r\n",
        pub(b"guest.x", b"hi"),
        pub(b"other", b"hi"),
        settings=settings.PERMISSIONS,
    ),
]

ACCOUNTS: list[Session] = [
    session("account_unknown_user", _login("three"), LOOP, settings=settings.ACCOUNTS),
    session("account_without_credentials", connect(), LOOP, settings=settings.ACCOUNTS),
    session(
        "account_in_info",
        _login("one", protocol=1),
        b"PING\r\n",
        LOOP,
        settings=settings.ACCOUNTS,
        whole_info=True,
    ),
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

SESSIONS: list[Session] = PERMISSIONS + ACCOUNTS

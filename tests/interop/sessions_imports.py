"""Exports and imports: what crosses from one account to another, and how it looks there."""

from tests.interop import settings
from tests.interop.session import Session, Step, hpub, pub, send, session
from tests.interop.sessions_accounts import login

HEADERS = b"NATS/1.0\r\nKey: value\r\n\r\n"


def crossing(name: str, *steps: Step | bytes, first: bytes = b"", text: str = settings.IMPORTS) -> Session:
    """`a` is in the exporting account, `b` in the importing one; plain bytes are sent by a."""
    return session(
        f"imports_{name}",
        send(login("a", no_responders=True)),
        send(login("b", no_responders=True) + first, "b"),
        *steps,
        settings=text,
    )


# A subscription in the importing account.
SUBSCRIPTIONS: dict[str, bytes] = {
    "same": b"SUB open.x 1\r\n",
    "same_wildcard": b"SUB open.* 1\r\n",
    "same_full": b"SUB open.> 1\r\n",
    "superset": b"SUB > 1\r\n",
    "superset_token": b"SUB *.* 1\r\n",
    "overlap": b"SUB *.x 1\r\n",
    "overlap_full": b"SUB *.x.> 1\r\n",
    "prefix": b"SUB pre.pub.x 1\r\n",
    "prefix_wildcard": b"SUB pre.*.x 1\r\n",
    "prefix_full": b"SUB pre.> 1\r\n",
    "prefix_original": b"SUB pub.x 1\r\n",
    "to": b"SUB to.x 1\r\n",
    "to_original": b"SUB lit 1\r\n",
    "mapped": b"SUB swap.y.x 1\r\n",
    "mapped_wildcard": b"SUB swap.*.x 1\r\n",
    "mapped_full": b"SUB swap.> 1\r\n",
    "private": b"SUB private 1\r\n",
    "by_token": b"SUB for.B 1\r\n",
    "by_token_wildcard": b"SUB for.* 1\r\n",
    "not_imported": b"SUB hidden 1\r\n",
    "queue": b"SUB open.> q 1\r\n",
    "queue_mapped": b"SUB swap.*.* q 1\r\n",
    "twice": b"SUB open.x 1\r\nSUB open.* 2\r\nSUB open.> 3\r\n",
    "unsubscribed": b"SUB open.> 1\r\nUNSUB 1\r\n",
    "auto_unsubscribe": b"SUB open.> 1\r\nUNSUB 1 1\r\n",
    "same_sid": b"SUB open.x 1\r\nSUB open.y 1\r\n",
}
MESSAGES = b"".join(
    pub(subject, b"m")
    for subject in (
        b"open.x",
        b"open.x.y",
        b"pub.x",
        b"lit",
        b"swap.x.y",
        b"private",
        b"for.B",
        b"for.C",
        b"hidden",
    )
)

# The answers of a service that `a` publishes, once it has been asked.
REQUESTS: dict[str, tuple[bytes, bytes]] = {
    "single": (b"one", b"PUB in 0\r\n\r\n"),
    "moved": (b"local.moved", b""),
    "wildcard": (b"rpc.x", b""),
    "swapped": (b"fn.x.y", b""),
    "shared": (b"shared", b""),
    "private": (b"secret", b""),
    "by_token": (b"mine.B", b""),
    "chained": (b"far", b""),
}

SERVICE_STEPS: dict[str, tuple[Step | bytes, ...]] = {
    "nobody": (send(pub(b"one", b"q", b"in"), "b"),),
    "nobody_moved": (send(pub(b"local.moved", b"q", b"in"), "b"),),
    "not_imported": (b"SUB other 1\r\n", send(pub(b"other", b"q", b"in"), "b")),
    "without_reply": (b"SUB one 1\r\n", send(pub(b"one", b"q"), "b")),
    "headers_without_reply": (b"SUB one 1\r\n", send(hpub(b"one", HEADERS, b"q"), "b")),
    "spoofed_info": (
        b"SUB one 1\r\n",
        send(hpub(b"one", b'NATS/1.0\r\nNats-Request-Info: {"acc":"A"}\r\nK: v\r\n\r\n', b"q"), "b"),
    ),
    "own_subject_in_the_other_account": (b"SUB local.moved 1\r\n", send(pub(b"local.moved", b"q"), "b")),
    "also_at_home": (b"SUB one 1\r\n", send(b"SUB one 2\r\n" + pub(b"one", b"q"), "b")),
    "at_home_only": (send(b"SUB one 2\r\n" + pub(b"one", b"q", b"in"), "b"),),
    "wildcards": (
        b"SUB rpc.> 1\r\n",
        send(pub(b"rpc.x", b"1") + pub(b"rpc.x.y", b"2") + pub(b"rpc", b"3"), "b"),
    ),
    "swap": (b"SUB fn.> 1\r\nSUB nf.> 2\r\n", send(pub(b"fn.x.y", b"q"), "b")),
    "private": (b"SUB secret 1\r\n", send(pub(b"secret", b"q"), "b")),
    "by_token": (b"SUB mine.> 1\r\n", send(pub(b"mine.B", b"1") + pub(b"mine.C", b"2"), "b")),
    "queue": (b"SUB one q 1\r\n", send(pub(b"one", b"1") + pub(b"one", b"2"), "b")),
    "not_passed_on_as_a_stream": (
        b"SUB both 1\r\n",
        send(b"SUB from.both 2\r\n" + pub(b"both", b"request"), "b"),
        pub(b"both", b"message"),
    ),
    "stream_back": (
        send(b"SUB open.x 2\r\n", "b"),
        pub(b"open.x", b"m", b"reply"),
        hpub(b"open.x", HEADERS, b"m"),
    ),
    "reply_is_not_mapped_for_streams": (
        send(b"SUB open.x 2\r\n", "b"),
        b"SUB reply 5\r\n" + pub(b"open.x", b"m", b"reply"),
        send(pub(b"reply", b"answer"), "b"),
    ),
    "reserved_reply": (send(pub(b"one", b"q", b"_R_.x.y"), "b"),),
    "unknown_response": (pub(b"_R_.abcdef.ghijkl", b"x"),),
    "mapped_in_the_exporting_account": (b"SUB mapped.x 1\r\n", send(pub(b"map.x", b"q"), "b")),
    "no_auto_unsubscribe_by_imports": (
        send(b"SUB open.x 1\r\nUNSUB 1 2\r\n", "b"),
        pub(b"open.x", b"1") + pub(b"open.x", b"2") + pub(b"open.x", b"3"),
        send(pub(b"open.x", b"own 1") + pub(b"open.x", b"own 2"), "b"),
        pub(b"open.x", b"4"),
    ),
}

SESSIONS: list[Session] = [
    *(
        crossing(f"stream_{name}", send(MESSAGES, any_order=True), first=data)
        for name, data in SUBSCRIPTIONS.items()
    ),
    *(crossing(f"service_{name}", *steps, first=b"SUB in 7\r\n") for name, steps in SERVICE_STEPS.items()),
]

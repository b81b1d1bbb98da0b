"""Subject mappings: of the global account and of others, with wildcards, functions, weights and clusters."""

from tests.interop import settings
from tests.interop.session import Session, connect_line, pub, send, session
from tests.interop.sessions_accounts import login

EVERYTHING = b"SUB > 1\r\n"

PUBLISHED: dict[str, bytes] = {
    "literal": b"plain",
    "wildcard": b"one.x",
    "swapped": b"two.x.y",
    "mustache": b"three.x.y",
    "full": b"rest.x.y.z",
    "partition": b"part.some.thing",
    "split": b"split.a-b",
    "slice": b"slice.abcd",
    "left": b"left.abcd",
    "constant": b"const.x",
    "whole": b"whole.weight",
    "none_left": b"lost",
    "all_lost_but_source": b"stay.x",
    "cluster": b"clustered",
    "not_mapped": b"other",
    "too_short": b"two.x",
    "too_long": b"one.x.y",
    "chain": b"chain.first",
    "wildcard_published": b"one.*",
    "jetstream_prefix": b"$one.x",
}

SESSIONS: list[Session] = [
    *(
        session(
            f"mappings_{name}", connect_line() + EVERYTHING, pub(subject, b"m"), settings=settings.MAPPINGS
        )
        for name, subject in PUBLISHED.items()
    ),
    session(
        "mappings_no_responders",
        connect_line(no_responders=True) + b"SUB in 1\r\n" + pub(b"one.x", b"q", b"in"),
        pub(b"plain", b"q", b"in"),
        settings=settings.MAPPINGS,
    ),
    session(
        "mappings_reply_is_not_mapped",
        connect_line() + EVERYTHING,
        pub(b"other", b"q", b"plain"),
        settings=settings.MAPPINGS,
    ),
    session("mappings_verbose", connect_line(verbose=True), pub(b"plain"), settings=settings.MAPPINGS),
    session(
        "mappings_pedantic",
        connect_line(pedantic=True),
        pub(b"one.*") + pub(b"one.x"),
        settings=settings.MAPPINGS,
    ),
    session(
        "mappings_before_permissions_of_subjects",
        connect_line(),
        pub(b"reserved", b"m"),
        settings=settings.MAPPINGS,
    ),
    *(
        session(
            f"mappings_of_an_account_{user}",
            send(login(user) + EVERYTHING),
            pub(b"mapped", b"m") + pub(b"map.x", b"n"),
            settings=settings.IMPORTS,
        )
        for user in ("a", "b")
    ),
]

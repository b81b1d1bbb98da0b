"""Limits: sizes, lines, connections, subscriptions, silence; what is said at each, and whether it closes."""

from tests.interop import settings
from tests.interop.session import (
    Session,
    closed,
    connect,
    connect_line,
    hang_up,
    hpub,
    opened,
    part,
    pub,
    send,
    session,
    stall,
)

BLOCK = b"NATS/1.0\r\n\r\n"

# Sizes that are no sizes, or too large for anything. Nothing may be allocated for them.
SIZES: dict[str, bytes] = {
    "negative": b"-1",
    "plus_sign": b"+2",
    "letters": b"two",
    "digits_and_letters": b"2x",
    "hexadecimal": b"0x2",
    "fraction": b"2.0",
    "just_over_the_default": b"1048577",
    "nine_digits": b"999999999",
    "ten_digits": b"1000000000",
    "two_to_the_31": b"2147483648",
    "two_to_the_32": b"4294967296",
    "two_to_the_32_and_two": b"4294967298",
    "two_to_the_63": b"9223372036854775808",
    "two_to_the_64_and_two": b"18446744073709551618",
    "a_hundred_digits": b"9" * 100,
    "arabic_digits": "٢".encode(),
}


def _sub_line(length: int) -> bytes:
    """A SUB whose argument has exactly this length."""
    return b"SUB " + b"s" * (length - 2) + b" 1\r\n"


SUB_LINES = {"at": 4096, "one_over": 4097, "far_over": 6000}

PAYLOAD: list[Session] = [
    *(session(f"size_pub_{name}", connect(), b"PUB foo %s\r\nhi\r\n" % size) for name, size in SIZES.items()),
    *(
        session(f"size_hpub_{name}", connect(), b"HPUB foo 0 %s\r\nhi\r\n" % size)
        for name, size in SIZES.items()
    ),
    *(
        session(f"size_hpub_header_{name}", connect(), b"HPUB foo %s 2\r\nhi\r\n" % size)
        for name, size in SIZES.items()
    ),
    session(
        "payload_at_the_limit", connect(), b"SUB foo 1\r\n", pub(b"foo", b"x" * 64), settings=settings.LIMITS
    ),
    session(
        "payload_over_the_limit",
        connect(),
        b"SUB foo 1\r\n",
        pub(b"foo", b"x" * 65),
        settings=settings.LIMITS,
    ),
    session(
        "payload_over_the_limit_before_it_is_sent",
        connect(),
        part(b"PUB foo 65\r\n"),
        closed(),
        settings=settings.LIMITS,
    ),
    session("payload_over_the_limit_without_connect", b"PUB foo 65\r\n", settings=settings.LIMITS),
    session("payload_headers_count", connect(), hpub(b"foo", BLOCK, b"x" * 53), settings=settings.LIMITS),
    session(
        "payload_headers_at_the_limit",
        connect(),
        b"SUB foo 1\r\n",
        hpub(b"foo", BLOCK, b"x" * 52),
        settings=settings.LIMITS,
    ),
    session("payload_default_limit", connect(), send(b"SUB foo 1\r\n", "b"), pub(b"foo", b"x" * 1048576)),
    session("payload_over_default_limit", connect(), part(b"PUB foo 1048577\r\n"), closed()),
    session(
        "payload_over_the_limit_in_pedantic_mode",
        connect(pedantic=True),
        part(b"PUB foo.* 65\r\n"),
        closed(),
        settings=settings.LIMITS,
    ),
    session(
        "payload_large_in_odd_pieces",
        connect(),
        b"SUB foo 1\r\n",
        send(pub(b"foo", bytes(range(251)) * 400), chunks=(1, 5000, 77, 33000)),
    ),
    session("payload_large_many", connect(), send(b"SUB foo 1\r\n", "b"), pub(b"foo", b"y" * 100_000) * 10),
]

LINES: list[Session] = [
    *(session(f"line_sub_{name}", connect(), _sub_line(length)) for name, length in SUB_LINES.items()),
    *(
        session(f"line_sub_in_pieces_{name}", connect(), send(_sub_line(length), chunks=(1000,)))
        for name, length in SUB_LINES.items()
    ),
    session("line_pub_over", connect(), b"PUB " + b"s" * 4100 + b" 0\r\n\r\n"),
    session("line_hpub_over", connect(), b"HPUB " + b"s" * 4100 + b" 0 0\r\n\r\n"),
    session("line_unsub_over", connect(), b"UNSUB " + b"1" * 4100 + b"\r\n"),
    session("line_info_over", connect(), b"INFO " + b"1" * 4100 + b"\r\n"),
    session("line_err_over", connect(), b"-ERR " + b"1" * 4100 + b"\r\n"),
    session("line_connect_over", connect_line(name="x" * 5000)),
    session(
        "line_spaces_before_the_argument_do_not_count",
        connect(),
        b"SUB " + b" " * 5000 + b"foo 1\r\n",
        pub(b"foo", b"hi"),
    ),
    session("line_spaces_after_the_argument_count", connect(), b"SUB foo 1" + b" " * 5000 + b"\r\n"),
    session("line_ping_is_endless", connect(), b"PING" + b"x" * 9000 + b"\r\n"),
    session("line_pong_is_endless", connect(), b"PONG" + b"x" * 9000 + b"\r\n"),
    session("line_ok_is_endless", connect(), b"+OK" + b"x" * 9000 + b"\r\n"),
    session("line_unfinished_and_over", connect(), part(b"SUB " + b"x" * 5000), closed()),
    session("line_configured_at", connect(), _sub_line(256), settings=settings.LIMITS),
    session("line_configured_over", connect(), _sub_line(257), settings=settings.LIMITS),
    session("line_configured_connect_over", connect(name="x" * 256), settings=settings.LIMITS),
    session(
        "line_configured_longer", connect(), _sub_line(8192), _sub_line(8193), settings=settings.LONG_LINES
    ),
    session(
        "line_configured_longer_connect",
        connect(name="x" * 6000),
        pub(b"foo", b""),
        settings=settings.LONG_LINES,
    ),
]

SUBSCRIPTIONS: list[Session] = [
    session(
        "subscriptions_at_the_limit",
        connect(),
        b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n",
        pub(b"c", b"x"),
        settings=settings.LIMITS,
    ),
    session(
        "subscriptions_over_the_limit",
        connect(),
        b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nSUB d 4\r\n",
        pub(b"d", b"x"),
        pub(b"a", b"x"),
        settings=settings.LIMITS,
    ),
    session(
        "subscriptions_over_the_limit_verbose",
        connect(verbose=True),
        b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nSUB d 4\r\n",
        settings=settings.LIMITS,
    ),
    session(
        "subscriptions_freed_by_unsub",
        connect(),
        b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nUNSUB 1\r\nSUB d 4\r\n",
        pub(b"d", b"x"),
        settings=settings.LIMITS,
    ),
    session(
        "subscriptions_freed_by_max",
        connect(),
        b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nUNSUB 1 1\r\n",
        pub(b"a", b"x"),
        b"SUB d 4\r\n",
        pub(b"d", b"x"),
        settings=settings.LIMITS,
    ),
    session(
        "subscriptions_duplicate_sid_at_the_limit",
        connect(),
        b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nSUB c 3\r\n",
        settings=settings.LIMITS,
    ),
    session(
        "subscriptions_bad_subject_is_not_counted",
        connect(),
        b"SUB a..b 1\r\nSUB a 1\r\nSUB b 2\r\nSUB c 3\r\n",
        settings=settings.LIMITS,
    ),
    session(
        "subscriptions_bad_subject_at_the_limit",
        connect(),
        b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nSUB a..b 4\r\n",
        settings=settings.LIMITS,
    ),
    session(
        "subscriptions_are_counted_per_connection",
        connect(),
        b"SUB a 1\r\nSUB a 2\r\nSUB a 3\r\n",
        send(b"SUB a 1\r\n", "b"),
        settings=settings.LIMITS,
    ),
    session(
        "subscriptions_again_after_connect",
        connect(),
        b"SUB a 1\r\nSUB a 2\r\nSUB a 3\r\n",
        connect(),
        b"SUB a 4\r\nSUB b 5\r\n",
        settings=settings.LIMITS,
    ),
    session(
        "subscription_tokens_at_the_limit",
        connect(),
        b"SUB a.b.c.d 1\r\n",
        pub(b"a.b.c.d", b"x"),
        settings=settings.LIMITS,
    ),
    session(
        "subscription_tokens_over_the_limit",
        connect(verbose=True),
        b"SUB a.b.c.d.e 1\r\n",
        b"SUB a.b.c.d.> q 1\r\n",
        pub(b"a.b.c.d.e", b"x"),
        settings=settings.LIMITS,
    ),
]

CONNECTIONS: list[Session] = [
    session(
        "connections_over_the_limit",
        opened(),
        opened("b"),
        opened("c"),
        send(b"PING\r\n", "b"),
        settings=settings.FEW_CONNECTIONS,
    ),
    session(
        "connections_over_the_limit_says_info_first",
        opened(),
        opened("b"),
        closed("c"),
        settings=settings.FEW_CONNECTIONS,
    ),
    session(
        "connections_freed_by_hang_up",
        opened(),
        connect("b"),
        hang_up("b"),
        connect("c"),
        settings=settings.FEW_CONNECTIONS,
    ),
    session(
        "connections_freed_by_an_error",
        opened(),
        send(b"what?\r\n", "b"),
        connect("c"),
        settings=settings.FEW_CONNECTIONS,
    ),
]

TIME: list[Session] = [
    session(
        "stale_connection", part(connect_line()), closed(), settings=settings.IMPATIENT, keeps_pings=True
    ),
    session(
        "stale_connection_without_connect", part(b""), closed(), settings=settings.IMPATIENT, keeps_pings=True
    ),
    session(
        "stale_connection_only_reads",
        part(connect_line() + b"SUB foo 1\r\n"),
        closed(),
        settings=settings.IMPATIENT,
        keeps_pings=True,
    ),
    session(
        "slow_consumer_is_closed",
        connect(),
        connect("b"),
        send(b"SUB foo 1\r\n", "b"),
        stall("b"),
        *(send(pub(b"foo", b"z" * 60_000) * 64) for _ in range(6)),
        closed("b"),
        send(b"PING\r\n"),
        settings=settings.SMALL_PENDING,
        only_closes=True,
    ),
]

SESSIONS: list[Session] = PAYLOAD + LINES + SUBSCRIPTIONS + CONNECTIONS + TIME

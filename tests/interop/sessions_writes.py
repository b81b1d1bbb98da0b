"""Writes: the same bytes in other pieces mean the same; and what follows a fatal operation in one write."""

from tests.interop import settings
from tests.interop.session import (
    Session,
    bytewise,
    closed,
    connect,
    connect_line,
    hang_up,
    hpub,
    part,
    pub,
    quiet,
    send,
    session,
)

CONVERSATION = (
    connect_line(verbose=True)
    + b"PING\r\n"
    + b"SUB foo.* 1\r\nsub\tbar  q\t2\r\n"
    + pub(b"foo.x", b"hello\r\nworld", b"reply.to")
    + hpub(b"bar", b"NATS/1.0\r\nA: b\r\n\r\n", b"payload")
    + b"UNSUB 2 2\r\n"
    + pub(b"bar", b"")
    + pub(b"bar", b"gone")
    + b"SUB bad..subject 3\r\n"
    + b"+OK\r\nPONG\r\nunsub 1\r\n"
    + pub(b"foo.y", b"unheard")
    + b"PING\r\n"
)

LARGE = b"".join(pub(b"big.%d" % number, b"%d" % number * 3000) for number in range(8))

# Sizes of the writes; each is repeated until the data ends.
PIECES: dict[str, tuple[int, ...]] = {
    "whole": (),
    "bytewise": (1,),
    "two_by_two": (2,),
    "three_by_three": (3,),
    "sevens": (7,),
    "odd": (1, 13, 2, 64, 5),
    "around_lines": (47, 1, 1),
    "half": (200,),
}

# Operations that end the connection; what trails them must not be answered and must not reach others.
FATAL: dict[str, bytes] = {
    "parse_error": b"nonsense\r\n",
    "bad_sub_arguments": b"SUB foo\r\n",
    "bad_pub_size": b"PUB foo x\r\n",
    "bad_payload_end": b"PUB foo 2\r\nhiXX",
    "payload_too_large": b"PUB foo 2000000\r\n",
    "bad_connect": b"CONNECT {\r\n",
    "bad_protocol": connect_line(protocol=5),
    "no_responders_without_headers": connect_line(no_responders=True, headers=False),
    "bad_info": b"INFO x\r\n",
    "header_without_support": connect_line(headers=False) + b"HPUB foo 0 0\r\n\r\n",
    "header_longer_than_total": b"HPUB foo 5 2\r\nhi\r\n",
    "bad_unsub_arguments": b"UNSUB 1 2 3\r\n",
}

SESSIONS: list[Session] = [
    *(
        session(f"writes_conversation_{name}", send(CONVERSATION, chunks=sizes))
        for name, sizes in PIECES.items()
    ),
    *(
        session(f"writes_large_payloads_{name}", connect(), b"SUB big.* 1\r\n", send(LARGE, chunks=sizes))
        for name, sizes in {
            "whole": (),
            "thousands": (1000,),
            "odd": (1, 4095, 4096, 17),
            "big": (60000,),
        }.items()
    ),
    *(
        session(
            f"writes_trailing_after_{name}",
            connect(),
            connect("b"),
            send(b"SUB > 1\r\n", "b"),
            part(data + b"PING\r\nSUB foo 1\r\n" + pub(b"foo", b"trailing")),
            closed(),
            send(b"PING\r\n", "b"),
        )
        for name, data in FATAL.items()
    ),
    session(
        "writes_before_a_fatal_operation_count",
        connect(),
        send(b"SUB > 1\r\n", "b"),
        part(pub(b"foo", b"one") + b"PING\r\n" + pub(b"foo", b"two") + b"nonsense\r\n"),
        closed(),
        send(b"PING\r\n", "b"),
    ),
    session("writes_err_from_client_closes", connect(), part(b"-ERR 'bye'\r\n"), closed()),
    session("writes_bad_payload_end_is_noticed_at_once", connect(), part(b"PUB foo 2\r\nhiX"), closed()),
    session(
        "writes_last_words_are_answered",
        connect(),
        b"SUB foo 1\r\n",
        hang_up(data=pub(b"foo", b"x") + b"PING\r\n"),
    ),
    session(
        "writes_last_words_are_delivered",
        connect(),
        connect("b"),
        send(b"SUB foo 1\r\n", "b"),
        hang_up(data=pub(b"foo", b"bye")),
        send(b"PING\r\n", "b"),
    ),
    session(
        "writes_payload_and_next_operation",
        connect(),
        b"SUB foo 1\r\n",
        part(b"PUB foo 3\r\nab"),
        part(b"c\r"),
        b"\nPING\r\n",
    ),
    session(
        "writes_cut_between_operations",
        connect(),
        part(b"SUB foo 1\r\n"),
        part(b"PUB foo 2\r\n"),
        part(b"hi\r\n"),
        quiet(lines=2),
    ),
    session(
        "writes_cut_inside_sizes", connect(), b"SUB foo 1\r\n", part(b"PUB foo 1"), b"0\r\n0123456789\r\n"
    ),
    session(
        "writes_payload_of_exactly_one_buffer",
        connect(),
        b"SUB foo 1\r\n",
        send(pub(b"foo", b"x" * 32768), chunks=(32768,)),
    ),
    session(
        "writes_two_connections_interleaved",
        connect(),
        connect("b"),
        send(b"SUB foo 1\r\n", "b"),
        part(b"PUB foo 4\r\nab"),
        send(pub(b"foo", b"mine"), "b"),
        b"cd\r\n",
    ),
    session(
        "writes_hang_up_in_the_middle_of_a_payload",
        connect(),
        connect("b"),
        send(b"SUB foo 1\r\n", "b"),
        part(b"PUB foo 4\r\nab"),
        quiet("b"),
    ),
    session(
        "writes_limits_bytewise",
        bytewise(connect_line()),
        bytewise(b"PUB foo 65\r\n"),
        settings=settings.LIMITS,
    ),
]

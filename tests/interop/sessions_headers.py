"""Headers: HPUB's sizes, what counts as a header block, and who receives it."""

from tests.interop import settings
from tests.interop.session import Session, bytewise, connect, hpub, pub, send, session

BLOCK = b"NATS/1.0\r\nName: Value\r\n\r\n"
EMPTY_BLOCK = b"NATS/1.0\r\n\r\n"

# Each published to a subscriber with headers (a) and to one without (b).
OPERATIONS: dict[str, bytes] = {
    "simple": hpub(b"foo", BLOCK, b"hi"),
    "lowercase": b"hpub foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    "with_reply": hpub(b"foo", BLOCK, b"hi", b"bar"),
    "tabs": b"HPUB\tfoo\tbar\t12\t14\r\nNATS/1.0\r\n\r\nhi\r\n",
    "bare_newline": b"HPUB foo 12 14\nNATS/1.0\r\n\r\nhi\r\n",
    "no_payload": hpub(b"foo", BLOCK),
    "empty_block": hpub(b"foo", EMPTY_BLOCK, b"hi"),
    "empty_block_no_payload": hpub(b"foo", EMPTY_BLOCK),
    "zero_length_header": hpub(b"foo", b"", b"hi"),
    "zero_length_everything": hpub(b"foo", b"", b""),
    "header_is_whole_message": b"HPUB foo 5 5\r\nhello\r\n",
    "header_longer_than_total": b"HPUB foo 6 5\r\nhello\r\n",
    "header_size_negative": b"HPUB foo -1 5\r\nhello\r\n",
    "total_size_negative": b"HPUB foo 0 -5\r\nhello\r\n",
    "header_size_of_letters": b"HPUB foo x 5\r\nhello\r\n",
    "total_size_of_letters": b"HPUB foo 0 x\r\nhello\r\n",
    "header_size_with_leading_zeros": b"HPUB foo 0012 00014\r\nNATS/1.0\r\n\r\nhi\r\n",
    "header_size_of_ten_digits": b"HPUB foo 0000000012 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    "no_argument": b"HPUB\r\n",
    "only_space": b"HPUB \r\n",
    "one_argument": b"HPUB foo\r\n",
    "two_arguments": b"HPUB foo 5\r\nhello\r\n",
    "five_arguments": b"HPUB foo bar 12 14 1\r\nNATS/1.0\r\n\r\nhi\r\n",
    "without_version_line": hpub(b"foo", b"Name: Value\r\n\r\n", b"hi"),
    "wrong_version": hpub(b"foo", b"NATS/9.9\r\n\r\n", b"hi"),
    "without_final_empty_line": hpub(b"foo", b"NATS/1.0\r\nName: Value\r\n", b"hi"),
    "bare_newlines_inside": hpub(b"foo", b"NATS/1.0\nName: Value\n\n", b"hi"),
    "no_colon": hpub(b"foo", b"NATS/1.0\r\nName Value\r\n\r\n", b"hi"),
    "space_before_colon": hpub(b"foo", b"NATS/1.0\r\nName : Value\r\n\r\n", b"hi"),
    "no_space_after_colon": hpub(b"foo", b"NATS/1.0\r\nName:Value\r\n\r\n", b"hi"),
    "repeated_names": hpub(b"foo", b"NATS/1.0\r\nA: 1\r\nA: 2\r\na: 3\r\n\r\n", b"hi"),
    "status_line": hpub(b"foo", b"NATS/1.0 100 Idle Heartbeat\r\n\r\n", b""),
    "unicode": hpub(b"foo", "NATS/1.0\r\nÄ: ☃\r\n\r\n".encode(), b"hi"),
    "binary": hpub(b"foo", bytes(range(256)), b"hi"),
    "payload_that_looks_like_a_header": hpub(b"foo", EMPTY_BLOCK, BLOCK),
    "long_block": hpub(b"foo", b"NATS/1.0\r\n" + b"Name: Value\r\n" * 500 + b"\r\n", b"hi"),
    "payload_longer_than_size": b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhiya\r\n",
    "payload_ends_with_bare_newline": b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\n",
    "invalid_subject": hpub(b"foo..bar", BLOCK, b"hi"),
    "ordinary_publish": pub(b"foo", b"hi"),
    "ordinary_publish_of_a_block": pub(b"foo", BLOCK),
    "trace_header_without_interest": hpub(b"nobody", b"NATS/1.0\r\nNats-Trace-Dest: trace.to\r\n\r\n", b"hi"),
}

NO_HEADERS = {"headers": False}

SESSIONS: list[Session] = [
    *(
        session(
            f"headers_{name}",
            connect(),
            connect("b", headers=False),
            send(b"SUB foo 2\r\n", "b"),
            b"SUB foo 1\r\n",
            data,
        )
        for name, data in OPERATIONS.items()
    ),
    session("headers_bytewise", connect(), b"SUB foo 1\r\n", bytewise(hpub(b"foo", BLOCK, b"hi", b"bar"))),
    session("headers_from_client_without_them", connect(headers=False), hpub(b"foo", BLOCK, b"hi")),
    session("headers_from_client_without_them_bad_arguments", connect(headers=False), b"HPUB nonsense\r\n"),
    session(
        "headers_stripped_to_nothing",
        connect(),
        send(b'CONNECT {"verbose":false}\r\nSUB foo 1\r\n', "b"),
        hpub(b"foo", BLOCK),
    ),
    session(
        "headers_stripped_with_reply",
        connect(),
        connect("b", headers=False),
        send(b"SUB foo 1\r\n", "b"),
        hpub(b"foo", BLOCK, b"hi", b"r"),
    ),
    session(
        "headers_stripped_in_queue",
        connect(),
        connect("b", headers=False),
        send(b"SUB foo q 1\r\n", "b"),
        hpub(b"foo", BLOCK, b"hi"),
    ),
    session(
        "headers_no_responders_for_hpub",
        connect(no_responders=True),
        b"SUB r 1\r\n",
        hpub(b"foo", BLOCK, b"hi", b"r"),
    ),
    session(
        "headers_then_plain",
        connect(),
        b"SUB foo 1\r\n",
        hpub(b"foo", BLOCK, b"hi") + pub(b"foo", b"plain") + hpub(b"foo", EMPTY_BLOCK),
    ),
    session(
        "headers_unsupported_by_server", connect(), hpub(b"foo", BLOCK, b"hi"), settings=settings.NO_HEADERS
    ),
    session("headers_unsupported_no_responders", connect(no_responders=True), settings=settings.NO_HEADERS),
    session(
        "headers_unsupported_plain_works",
        connect(),
        b"SUB foo 1\r\n",
        pub(b"foo", b"hi"),
        settings=settings.NO_HEADERS,
    ),
]

"""Subjects: which are valid where, and what matches what."""

from tests.interop.session import Session, connect, hpub, pub, send, session

# Subscribed to as they are; then published to as they are; then to an ordinary subject.
ODD_SUBJECTS: dict[str, bytes] = {
    "plain": b"foo.bar",
    "one_letter": b"x",
    "many_tokens": b".".join([b"t"] * 60),
    "long_token": b"t" * 1000,
    "leading_dot": b".foo",
    "trailing_dot": b"foo.",
    "two_dots": b"foo..bar",
    "only_dot": b".",
    "only_dots": b"...",
    "star": b"*",
    "greater": b">",
    "star_first": b"*.bar",
    "star_last": b"foo.*",
    "stars": b"*.*",
    "greater_last": b"foo.>",
    "greater_in_the_middle": b"foo.>.bar",
    "greater_first_of_two": b">.foo",
    "two_greaters": b">.>",
    "star_then_greater": b"*.>",
    "star_inside_token": b"fo*.bar",
    "greater_inside_token": b"foo>.bar",
    "two_stars_token": b"**",
    "two_greaters_token": b"foo.>>",
    "case_matters": b"FOO.Bar",
    "unicode": "grüße.☃".encode(),
    "invalid_utf8": b"foo.\xff\xfe",
    "nul": b"foo.\x00",
    "control_characters": b"foo.\x01\x7f",
    "dollar": b"$x.y",
    "sys_like": b"$SYS.foo",
    "js_like": b"$JS.foo",
    "punctuation": b"a-b_c:d/e\\f@g#h",
    "quotes": b"'\"`",
    "braces": b"{{wildcard(1)}}",
    "spaces_are_arguments": b"foo bar",
}

# Reserved for the server's own use; publishing there, or with such a reply, is refused.
RESERVED: dict[str, bytes] = {
    "gateway_subject": pub(b"_GR_.abc.def.foo", b"x"),
    "gateway_subject_short": pub(b"_GR_.x", b"x"),
    "gateway_subject_bare": pub(b"_GR_", b"x"),
    "gateway_new_subject": pub(b"$GNR.abc.def.foo", b"x"),
    "raft_subject": pub(b"$NRG.foo", b"x"),
    "service_reply": pub(b"foo", b"x", b"_R_.abc"),
    "service_reply_short": pub(b"foo", b"x", b"_R_"),
    "service_reply_only_prefix": pub(b"foo", b"x", b"_R_."),
    "ack_reply_only_prefix": pub(b"foo", b"x", b"$JS.ACK."),
    "ack_reply_shortest": pub(b"foo", b"x", b"$JS.ACK.x"),
    "ack_subject": pub(b"$JS.ACK.s.c.1.1.1.1.1", b"+ACK"),
    "ack_reply": pub(b"foo", b"x", b"$JS.ACK.s.c.1.1.1.1.1"),
    "gateway_reply": pub(b"foo", b"x", b"_GR_.abc.def.foo"),
    "gateway_new_reply": pub(b"foo", b"x", b"$GNR.abc.def.foo"),
}

# (subscription, subjects that are published to, in order)
MATCHES: dict[str, tuple[bytes, list[bytes]]] = {
    "star_is_one_token": (b"foo.*", [b"foo", b"foo.bar", b"foo.bar.baz", b"fo.bar"]),
    "star_in_the_middle": (b"foo.*.baz", [b"foo.bar.baz", b"foo.baz", b"foo.a.b.baz"]),
    "star_first": (b"*.bar", [b"foo.bar", b"bar", b"a.b.bar"]),
    "only_star": (b"*", [b"foo", b"foo.bar"]),
    "greater_is_one_or_more": (b"foo.>", [b"foo", b"foo.bar", b"foo.bar.baz", b"bar.foo"]),
    "only_greater": (b">", [b"foo", b"foo.bar", b"$x"]),
    "greater_does_not_hide_dollar": (b">", [b"$SYS.x", b"$JS.x", b"_INBOX.x"]),
    "star_and_greater": (b"*.foo.>", [b"a.foo.b", b"a.foo", b"foo.b", b"a.foo.b.c"]),
    "literal_star_is_published": (b"foo.*", [b"foo.*", b"foo.>", b"foo.**"]),
    "literal_star_token": (b"fo*", [b"fo*", b"foo", b"fo"]),
    "literal_greater_token": (b"a.b>", [b"a.b>", a_b := b"a.b", a_b + b".c"]),
    "published_wildcard_needs_wildcard": (b"foo.bar", [b"foo.*", b"foo.>", b">", b"*.bar", b"foo.bar"]),
    "empty_tokens_published": (b"foo.*", [b"foo.", b".foo", b"foo..bar", b"foo.ok"]),
    "empty_tokens_published_to_greater": (b">", [b"foo.", b".foo", b"foo..bar", b".", b"ok"]),
    "case": (b"foo", [b"FOO", b"Foo", b"foo"]),
    "prefix": (b"foo", [b"fo", b"foo.bar", b"foobar", b"foo"]),
    "unicode": ("☃.*".encode(), ["☃.é".encode(), "☃".encode()]),
    "nul": (b"a.*", [b"a.\x00", b"a.\x00b"]),
    "invalid_utf8": (b"\xff", [b"\xff", b"\xfe"]),
}


def _published(subjects: list[bytes]) -> bytes:
    return b"".join(pub(subject, b"%d" % number) for number, subject in enumerate(subjects))


SESSIONS: list[Session] = [
    *(
        session(
            f"subject_{name}",
            connect(),
            b"SUB %s 1\r\n" % subject,
            pub(subject, b"hi"),
            pub(b"foo.bar", b"ordinary"),
        )
        for name, subject in ODD_SUBJECTS.items()
    ),
    *(
        session(
            f"subject_pedantic_{name}",
            connect(pedantic=True, verbose=True),
            b"SUB > 0\r\n",
            b"SUB %s 1\r\n" % subject,
            send(pub(subject, b"hi"), any_order=True),
        )
        for name, subject in ODD_SUBJECTS.items()
    ),
    *(
        session(f"subject_match_{name}", connect(), b"SUB %s 1\r\n" % subscribed, _published(subjects))
        for name, (subscribed, subjects) in MATCHES.items()
    ),
    *(
        session(f"subject_reserved_{name}", connect(verbose=True), b"SUB > 1\r\n", data)
        for name, data in RESERVED.items()
    ),
    session("subject_reserved_queue", connect(verbose=True), b"SUB foo _sys_ 1\r\n", pub(b"foo", b"hi")),
    session(
        "subject_bad_sub_does_not_take_the_sid", connect(), b"SUB a..b 1\r\nSUB foo 1\r\n", pub(b"foo", b"hi")
    ),
    session("subject_bad_sub_verbose", connect(verbose=True), b"SUB a..b 1\r\n", b"SUB .a q 2\r\n"),
    session(
        "subject_bad_sub_with_taken_sid",
        connect(verbose=True),
        b"SUB a 1\r\nSUB b..c 1\r\n",
        pub(b"a", b"hi"),
    ),
    session(
        "subject_bad_reply", connect(), b"SUB foo 1\r\n", pub(b"foo", b"hi", b"a..b"), pub(b"foo", b"", b">")
    ),
    session(
        "subject_bad_reply_pedantic", connect(pedantic=True), b"SUB foo 1\r\n", pub(b"foo", b"hi", b"a..b")
    ),
    session("subject_pedantic_headers", connect(pedantic=True), hpub(b"foo.*", b"NATS/1.0\r\n\r\n", b"x")),
    session(
        "subject_pedantic_delivers_still", connect(pedantic=True), b"SUB foo.* 1\r\n", pub(b"foo.*", b"x")
    ),
    session(
        "subject_pedantic_error_comes_before_the_payload",
        connect(pedantic=True, verbose=True),
        pub(b"a.*", b"x"),
    ),
]

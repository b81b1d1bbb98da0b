"""Delivery: who gets a message, how often, in which order, and when it stops."""

from tests.interop.session import (
    Session,
    bytewise,
    connect,
    connect_line,
    hang_up,
    part,
    pub,
    quiet,
    send,
    session,
)

HI = pub(b"foo", b"hi")


def _numbered(count: int, subject: bytes = b"foo") -> bytes:
    return b"".join(pub(subject, b"%d" % number) for number in range(count))


PLAIN: list[Session] = [
    session("delivery_to_another", connect(), connect("b"), send(b"SUB foo 1\r\n", "b"), HI),
    session(
        "delivery_with_reply",
        connect(),
        connect("b"),
        send(b"SUB foo 1\r\n", "b"),
        pub(b"foo", b"hi", b"bar"),
    ),
    session("delivery_to_nobody", connect(), HI, pub(b"foo", b"hi", b"bar")),
    session("delivery_to_many", connect(), *(send(b"SUB foo %d\r\n" % n, f"c{n}") for n in range(1, 9)), HI),
    session("delivery_keeps_order", connect(), connect("b"), send(b"SUB foo 1\r\n", "b"), _numbered(200)),
    session("delivery_of_empty_payload", connect(), b"SUB foo 1\r\n", pub(b"foo"), pub(b"foo", b"", b"bar")),
    session("delivery_sid_is_per_connection", connect(), b"SUB foo 1\r\n", send(b"SUB foo 1\r\n", "b"), HI),
    session(
        "delivery_same_subject_twice", connect(), b"SUB foo 1\r\nSUB foo 2\r\n", send(HI, any_order=True)
    ),
    session(
        "delivery_duplicate_sid_keeps_the_first",
        connect(),
        b"SUB foo 1\r\nSUB bar 1\r\n",
        HI,
        pub(b"bar", b"x"),
    ),
    session("delivery_duplicate_sid_verbose", connect(verbose=True), b"SUB foo 1\r\nSUB foo 1\r\n", HI),
    session("delivery_duplicate_sid_then_unsub", connect(), b"SUB foo 1\r\nSUB foo 1\r\nUNSUB 1\r\n", HI),
    session("delivery_duplicate_sid_with_queue", connect(), b"SUB foo 1\r\nSUB foo q 1\r\n", HI),
    session("delivery_sids_are_text", connect(), b"SUB foo 1\r\nSUB foo 01\r\n", send(HI, any_order=True)),
    session(
        "delivery_overlapping_wildcards",
        connect(),
        b"SUB foo.* 1\r\nSUB foo.> 2\r\nSUB > 3\r\nSUB *.bar 4\r\nSUB foo.bar 5\r\n",
        send(pub(b"foo.bar", b"hi"), any_order=True),
        send(pub(b"foo.baz", b"hi"), any_order=True),
        b"UNSUB 3\r\nUNSUB 1\r\n",
        send(pub(b"foo.bar", b"hi"), any_order=True),
    ),
    session(
        "delivery_resubscribe_same_sid",
        connect(),
        b"SUB foo 1\r\nUNSUB 1\r\nSUB bar 1\r\n",
        HI,
        pub(b"bar", b""),
    ),
    session(
        "delivery_subscribed_between_messages", connect(), HI + b"SUB foo 1\r\n" + HI + b"UNSUB 1\r\n" + HI
    ),
    session("delivery_stops_at_hang_up", connect(), send(b"SUB foo 1\r\n", "b"), HI, hang_up("b"), HI),
    session(
        "delivery_routes_follow_interest",
        connect(),
        HI,
        send(b"SUB foo 1\r\n", "b"),
        HI,
        send(b"UNSUB 1\r\n", "b"),
        HI,
    ),
    session("delivery_wildcard_added_later", connect(), b"SUB foo 1\r\n", HI, send(b"SUB * 9\r\n", "b"), HI),
    session(
        "delivery_thousand_subjects",
        connect(),
        b"SUB s.* 1\r\n",
        b"".join(pub(b"s.%d" % n) for n in range(1000)),
    ),
    session(
        "delivery_interleaved_with_ping", connect(), b"SUB foo 1\r\n", HI + b"PING\r\n" + HI + b"PING\r\n"
    ),
    session("delivery_before_connect_of_receiver", connect(), send(b"SUB foo 1\r\n", "b"), HI),
]

ECHO: list[Session] = [
    session("echo_off_same_connection", connect(echo=False), b"SUB foo 1\r\n", HI),
    session(
        "echo_off_another_connection", connect(echo=False), b"SUB foo 1\r\n", send(b"SUB foo 2\r\n", "b"), HI
    ),
    session(
        "echo_off_receives_from_others", connect(echo=False), b"SUB foo 1\r\n", connect("b"), send(HI, "b")
    ),
    session("echo_off_queue_of_one", connect(echo=False), b"SUB foo q 1\r\n", HI),
    session(
        "echo_off_queue_goes_to_the_other",
        connect(echo=False),
        b"SUB foo q 1\r\n",
        send(b"SUB foo q 2\r\n", "b"),
        HI,
    ),
    session(
        "echo_off_does_not_count_for_max",
        connect(echo=False),
        b"SUB foo 1\r\nUNSUB 1 1\r\n",
        HI,
        send(HI, "b"),
        send(HI, "b"),
    ),
    session(
        "echo_off_only_own_interest_is_no_responder",
        connect(echo=False, no_responders=True),
        b"SUB foo 1\r\nSUB reply 2\r\n",
        pub(b"foo", b"x", b"reply"),
    ),
]

UNSUBSCRIBE: list[Session] = [
    session("unsub_max", connect(), b"SUB foo 1\r\nUNSUB 1 3\r\n", _numbered(5)),
    session("unsub_max_one", connect(), b"SUB foo 1\r\nUNSUB 1 1\r\n", _numbered(2)),
    session("unsub_max_exactly_delivered", connect(), b"SUB foo 1\r\n", _numbered(3), b"UNSUB 1 3\r\n", HI),
    session("unsub_max_below_delivered", connect(), b"SUB foo 1\r\n", _numbered(3), b"UNSUB 1 2\r\n", HI),
    session(
        "unsub_max_counts_from_the_start",
        connect(),
        b"SUB foo 1\r\n",
        _numbered(3),
        b"UNSUB 1 5\r\n",
        _numbered(4),
    ),
    session("unsub_max_raised", connect(), b"SUB foo 1\r\nUNSUB 1 1\r\nUNSUB 1 3\r\n", _numbered(5)),
    session(
        "unsub_max_lowered",
        connect(),
        b"SUB foo 1\r\nUNSUB 1 10\r\n",
        _numbered(2),
        b"UNSUB 1 3\r\n",
        _numbered(3),
    ),
    session("unsub_max_then_unsub", connect(), b"SUB foo 1\r\nUNSUB 1 10\r\n", HI, b"UNSUB 1\r\n", HI),
    session("unsub_max_then_zero", connect(), b"SUB foo 1\r\nUNSUB 1 10\r\n", HI, b"UNSUB 1 0\r\n", HI),
    session(
        "unsub_max_sid_is_free_afterwards",
        connect(),
        b"SUB foo 1\r\nUNSUB 1 1\r\n",
        HI,
        b"SUB foo 1\r\n",
        _numbered(3),
    ),
    session(
        "unsub_max_per_subscription",
        connect(),
        b"SUB foo 1\r\nSUB foo 2\r\nUNSUB 1 1\r\n",
        send(HI, any_order=True),
        HI,
    ),
    session("unsub_max_in_queue", connect(), b"SUB foo q 1\r\nUNSUB 1 2\r\n", _numbered(4)),
    session(
        "unsub_max_in_queue_moves_on",
        connect(),
        b"SUB foo q 1\r\n",
        send(b"SUB foo q 2\r\nUNSUB 2 1\r\n", "b"),
        hang_up("a"),
        send(HI, "c"),
        send(HI, "c"),
    ),
    session("unsub_max_one_write", connect_line() + b"SUB foo 1\r\nUNSUB 1 2\r\n" + _numbered(4)),
    session("unsub_twice", connect(verbose=True), b"SUB foo 1\r\nUNSUB 1\r\nUNSUB 1\r\n", HI),
    session(
        "unsub_other_connection_untouched",
        connect(),
        b"SUB foo 1\r\n",
        send(b"SUB foo 1\r\nUNSUB 1\r\n", "b"),
        HI,
    ),
    session("unsub_sid_is_compared_as_text", connect(), b"SUB foo 1\r\nUNSUB 01\r\n", HI),
    session("unsub_max_wildcard", connect(), b"SUB * 1\r\nUNSUB 1 2\r\n", HI, pub(b"bar", b"x"), HI),
    session("unsub_max_with_large_number", connect(), b"SUB foo 1\r\nUNSUB 1 99999\r\n", _numbered(3)),
    session(
        "unsub_max_no_responders_after",
        connect(no_responders=True),
        b"SUB foo 1\r\nSUB r 2\r\nUNSUB 1 1\r\n",
        pub(b"foo", b"", b"r"),
        pub(b"foo", b"", b"r"),
    ),
]

QUEUES: list[Session] = [
    session("queue_of_one", connect(), b"SUB foo q 1\r\n", _numbered(3)),
    session("queue_and_plain", connect(), b"SUB foo q 1\r\nSUB foo 2\r\n", send(HI, any_order=True)),
    session("queue_two_groups", connect(), b"SUB foo q 1\r\nSUB foo r 2\r\n", send(HI, any_order=True)),
    session(
        "queue_same_name_other_subject",
        connect(),
        b"SUB foo q 1\r\n",
        send(b"SUB bar q 1\r\n", "b"),
        HI,
        pub(b"bar", b"x"),
    ),
    session(
        "queue_same_group_literal_and_wildcard", connect(), b"SUB foo q 1\r\nUNSUB 1\r\nSUB * q 2\r\n", HI
    ),
    session(
        "queue_member_leaves",
        connect(),
        send(b"SUB foo q 1\r\n", "b"),
        send(b"SUB foo q 1\r\n", "c"),
        hang_up("b"),
        _numbered(3),
    ),
    session(
        "queue_member_unsubscribes",
        connect(),
        send(b"SUB foo q 1\r\n", "b"),
        send(b"SUB foo q 1\r\n", "c"),
        send(b"UNSUB 1\r\n", "c"),
        _numbered(3),
    ),
    session(
        "queue_names_are_case_sensitive",
        connect(),
        b"SUB foo q 1\r\nSUB foo Q 2\r\n",
        send(HI, any_order=True),
    ),
    session(
        "queue_name_with_dots_and_stars",
        connect(),
        b"SUB foo a.* 1\r\nSUB foo > 2\r\nSUB foo .. 3\r\n",
        send(HI, any_order=True),
    ),
    session("queue_name_unicode", connect(), "SUB foo ☃ 1\r\n".encode(), HI),
    session(
        "queue_same_connection_two_members_get_one",
        connect(),
        b"SUB foo q 7\r\nSUB foo q 7\r\n",
        _numbered(2),
    ),
    session("queue_with_reply", connect(), b"SUB foo q 1\r\n", pub(b"foo", b"hi", b"bar")),
]

NO_RESPONDERS: list[Session] = [
    session(
        "no_responders_for_streams_without_jetstream",
        connect(no_responders=True),
        b"SUB reply 1\r\n",
        pub(b"$JS.API.INFO", b"", b"reply"),
        pub(b"$JS.API.STREAM.NAMES", b"", b"reply"),
    ),
    session("no_responders", connect(no_responders=True), b"SUB reply 1\r\n", pub(b"foo", b"x", b"reply")),
    session(
        "no_responders_wildcard_inbox",
        connect(no_responders=True),
        b"SUB _INBOX.x.* 1\r\n",
        pub(b"foo", b"", b"_INBOX.x.1"),
    ),
    session("no_responders_without_reply", connect(no_responders=True), b"SUB reply 1\r\n", HI),
    session("no_responders_without_inbox", connect(no_responders=True), pub(b"foo", b"x", b"reply")),
    session(
        "no_responders_inbox_elsewhere",
        connect(no_responders=True),
        send(b"SUB reply 1\r\n", "b"),
        pub(b"foo", b"x", b"reply"),
    ),
    session(
        "no_responders_queue_inbox",
        connect(no_responders=True),
        b"SUB reply q 1\r\n",
        pub(b"foo", b"x", b"reply"),
    ),
    session("no_responders_not_asked_for", connect(), b"SUB reply 1\r\n", pub(b"foo", b"x", b"reply")),
    session("no_responders_headers_off", connect(no_responders=True, headers=False), b"SUB reply 1\r\n"),
    session(
        "no_responders_answered",
        connect(no_responders=True),
        b"SUB reply 1\r\n",
        send(b"SUB foo 9\r\n", "b"),
        pub(b"foo", b"x", b"reply"),
        send(pub(b"reply", b"y"), "b"),
    ),
    session(
        "no_responders_queue_answers",
        connect(no_responders=True),
        b"SUB reply 1\r\n",
        send(b"SUB foo q 9\r\n", "b"),
        pub(b"foo", b"x", b"reply"),
    ),
    session(
        "no_responders_responder_left",
        connect(no_responders=True),
        b"SUB reply 1\r\n",
        send(b"SUB foo 9\r\n", "b"),
        hang_up("b"),
        pub(b"foo", b"x", b"reply"),
    ),
    session(
        "no_responders_verbose",
        connect(no_responders=True, verbose=True),
        b"SUB reply 1\r\n",
        pub(b"foo", b"x", b"reply"),
    ),
    session(
        "no_responders_counts_not_for_max",
        connect(no_responders=True),
        b"SUB reply 1\r\nUNSUB 1 1\r\n",
        pub(b"foo", b"", b"reply"),
        pub(b"foo", b"", b"reply"),
        pub(b"reply", b"real"),
        pub(b"reply", b"late"),
    ),
    session(
        "no_responders_to_wildcard_subject",
        connect(no_responders=True),
        b"SUB reply 1\r\n",
        pub(b"foo.*", b"x", b"reply"),
    ),
    session(
        "no_responders_long_subject",
        connect(no_responders=True),
        b"SUB reply 1\r\n",
        pub(b"f" * 300, b"x", b"reply"),
    ),
    session(
        "no_responders_echo_off",
        connect(no_responders=True, echo=False),
        b"SUB reply 1\r\n",
        pub(b"foo", b"x", b"reply"),
    ),
    session(
        "no_responders_several_inboxes",
        connect(no_responders=True),
        b"SUB reply 1\r\nUNSUB 1\r\nSUB reply 2\r\n",
        pub(b"foo", b"x", b"reply"),
    ),
    session(
        "no_responders_reply_to_itself",
        connect(no_responders=True),
        b"SUB foo 1\r\n",
        pub(b"foo", b"x", b"foo"),
    ),
]

VERBOSE: list[Session] = [
    session(
        "verbose_each_operation",
        connect(verbose=True),
        b"SUB foo 1\r\n",
        HI,
        b"PING\r\n",
        b"PONG\r\n",
        b"UNSUB 1\r\n",
        HI,
    ),
    session(
        "verbose_all_in_one_write",
        connect_line(verbose=True) + b"SUB foo 1\r\n" + HI + b"PING\r\nUNSUB 1\r\n" + HI,
    ),
    session("verbose_ok_before_own_message", connect(verbose=True), b"SUB foo 1\r\n", HI + HI),
    session("verbose_unsub_max", connect(verbose=True), b"SUB foo 1\r\nUNSUB 1 1\r\n", HI),
    session("verbose_unsub_unknown", connect(verbose=True), b"UNSUB 42\r\n"),
    session(
        "verbose_bad_subject", connect(verbose=True, pedantic=True), b"SUB a..b 1\r\n", pub(b"a.*", b"x")
    ),
    session(
        "verbose_headers",
        connect(verbose=True),
        b"SUB foo 1\r\n",
        b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    ),
    session(
        "verbose_ok_only_after_payload", connect(verbose=True), part(b"PUB foo 2\r\n"), quiet(), b"hi\r\n"
    ),
    session("verbose_bytewise", connect(verbose=True), bytewise(b"SUB foo 1\r\n" + HI + b"UNSUB 1\r\n")),
    session("verbose_info_and_ok_from_client", connect(verbose=True), b"+OK\r\nINFO {}\r\n"),
]

SESSIONS: list[Session] = PLAIN + ECHO + UNSUBSCRIBE + QUEUES + NO_RESPONDERS + VERBOSE

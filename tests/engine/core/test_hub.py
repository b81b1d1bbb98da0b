"""What reaches whom, and in which form."""

from __future__ import annotations

import socket

import pytest

from headrace.engine.core.interest import Interest
from tests.engine.core.harness import Bench, RecordingOwner, bench, message

pytestmark = pytest.mark.usefixtures("each_transport")

HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"


def header_message(subject: bytes, headers: bytes, payload: bytes, reply: bytes = b"") -> bytes:
    size = len(headers) + len(payload)
    reply = b" " + reply if reply else b""
    return b"HPUB %b%b %d %d\r\n%b%b\r\n" % (subject, reply, len(headers), size, headers, payload)


def test_a_message_reaches_its_subscribers_only(bench: Bench) -> None:
    wanting, other, publisher = bench.subscriber(b"foo"), bench.subscriber(b"bar"), bench.connect()
    assert publisher.ask(message(b"foo", b"hello")) == b""
    assert wanting.receive_all() == b"MSG foo 1 5\r\nhello\r\n"
    assert other.receive_all() == b""


def test_reply_and_headers_are_passed_on(bench: Bench) -> None:
    subscriber, publisher = bench.subscriber(b"foo"), bench.connect()
    publisher.send(message(b"foo", b"x", reply=b"inbox") + header_message(b"foo", HEADERS, b"yz", b"inbox"))
    assert subscriber.receive_all() == (
        b"MSG foo 1 inbox 1\r\nx\r\nHMSG foo 1 inbox 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nyz\r\n"
    )


def test_a_subscriber_gets_one_copy_per_subscription(bench: Bench) -> None:
    subscriber = bench.subscriber(b"foo", b"*", b">", b"foo", b"bar")
    bench.connect().send(message(b"foo", b"x"))
    assert sorted(frame.sid for frame in subscriber.frames()) == [b"1", b"2", b"3", b"4"]


def test_the_order_of_a_publisher_is_kept_over_sids_and_answers(bench: Bench) -> None:
    """Runs of one sid travel as spans of the arena, the rest by the backlog: the mix stays in order."""
    subscriber = bench.subscriber(b"a", b"b", b"c.*")
    same = [bench.subscriber(b"a") for _ in range(3)]
    subjects = [b"a", b"a", b"b", b"a", b"c.1", b"c.1", b"b", b"b", b"a"]
    sent = [(subjects[number % len(subjects)], b"%d" % number) for number in range(500)]
    bench.connect().send(b"".join(message(subject, payload) for subject, payload in sent))
    frames = subscriber.frames()
    assert [(frame.subject, frame.payload) for frame in frames] == sent
    assert {(frame.subject[:1], frame.sid) for frame in frames} == {(b"a", b"1"), (b"b", b"2"), (b"c", b"3")}
    for peer in same:
        assert peer.payloads() == [payload for subject, payload in sent if subject == b"a"]


def test_answers_stand_between_echoed_messages_where_they_belong(bench: Bench) -> None:
    peer = bench.subscriber(b"a", b"b")
    bench.subscriber(b"a")  # so that `a` has a group of two
    answer = peer.ask(
        message(b"a", b"1") + b"PING\r\n" + message(b"a", b"2") + message(b"b", b"3") + b"PING\r\n"
    )
    assert answer == (b"MSG a 1 1\r\n1\r\nPONG\r\nMSG a 1 1\r\n2\r\nMSG b 2 1\r\n3\r\nPONG\r\n")


def test_verbose_confirms_every_operation_in_order(bench: Bench) -> None:
    peer = bench.connect(verbose=True)
    assert peer.ask(b"SUB a 1\r\n" + message(b"a", b"x") + b"PING\r\n" + message(b"b", b"")) == (
        b"+OK\r\n+OK\r\nMSG a 1 1\r\nx\r\nPONG\r\n+OK\r\n"
    )


def test_a_link_is_verbose_pedantic_and_without_headers_before_connect(bench: Bench) -> None:
    peer = bench.attach()
    assert peer.ask(message(b"a", b"x")) == b"+OK\r\n"
    assert peer.ask(message(b"a.*", b"x")) == b"-ERR 'publish_subject'\r\n+OK\r\n"
    assert not peer.link.connected
    assert peer.ask(b"HPUB a 0 0\r\n\r\n") == b"-ERR 'headers'\r\n"
    assert peer.owner.closed == "headers"


@pytest.mark.parametrize("subject", [b"a..b", b".a", b"a.", b"*", b"a.*", b"a.>"])
def test_pedantic_publishers_hear_of_bad_subjects(bench: Bench, subject: bytes) -> None:
    assert bench.connect(pedantic=True).ask(message(subject, b"x")) == b"-ERR 'publish_subject'\r\n"
    assert bench.connect(pedantic=False).ask(message(subject, b"x")) == b""


def test_no_echo_keeps_a_publishers_messages_from_itself(bench: Bench) -> None:
    silent, loud = bench.subscriber(b"foo", echo=False), bench.subscriber(b"foo")
    silent.send(message(b"foo", b"1"))
    loud.send(message(b"foo", b"2"))
    assert silent.payloads() == [b"2"]
    assert loud.payloads() == [b"1", b"2"]


def test_headers_are_cut_off_for_those_who_cannot_read_them(bench: Bench) -> None:
    old, new, publisher = bench.subscriber(b"foo", headers=False), bench.subscriber(b"foo"), bench.connect()
    publisher.send(header_message(b"foo", HEADERS, b"hi", b"inbox") + header_message(b"foo", HEADERS, b""))
    assert old.receive_all() == b"MSG foo 1 inbox 2\r\nhi\r\nMSG foo 1 0\r\n\r\n"
    assert [frame.headers for frame in new.frames()] == [HEADERS, HEADERS]
    assert (old.link.out_bytes, new.link.out_bytes) == (2, 2 + 2 * len(HEADERS))


def test_hpub_without_headers_is_a_plain_message(bench: Bench) -> None:
    subscriber = bench.subscriber(b"foo")
    bench.connect().send(header_message(b"foo", b"", b"hi", b"inbox"))
    assert subscriber.receive_all() == b"MSG foo 1 inbox 2\r\nhi\r\n"


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (b"PUB  foo   inbox  2  \r\nhi\r\n", b"MSG foo 1 inbox 2\r\nhi\r\n"),
        (b"PUB  foo  002\r\nhi\r\n", b"MSG foo 1 002\r\nhi\r\n"),  # a size is passed on as it came
        (b"pub\tfoo\t2\t\r\nhi\r\n", b"MSG foo 1 2\r\nhi\r\n"),
        (b"PuB foo 2\nhi\r\n", b"MSG foo 1 2\r\nhi\r\n"),
        (b"PUB foo inbox 2\nhi\r\n", b"MSG foo 1 inbox 2\r\nhi\r\n"),
        (
            b"HPUB foo  inbox 18  20\r\n" + HEADERS + b"hi\r\n",
            b"HMSG foo 1 inbox 18 20\r\n" + HEADERS + b"hi\r\n",
        ),
        (b"HPUB foo 0 2 \r\nhi\r\n", b"MSG foo 1 2\r\nhi\r\n"),
        (b"PUB foo 002\r\nhi\r\n", b"MSG foo 1 002\r\nhi\r\n"),
        (b"PUB foo inbox\t2\r\nhi\r\n", b"MSG foo 1 inbox 2\r\nhi\r\n"),
        (b"HPUB foo 18\t20\r\n" + HEADERS + b"hi\r\n", b"HMSG foo 1 18 20\r\n" + HEADERS + b"hi\r\n"),
    ],
)
def test_odd_spacing_is_delivered_in_the_usual_form(bench: Bench, sent: bytes, received: bytes) -> None:
    subscriber, publisher = bench.subscriber(b"foo"), bench.connect()
    publisher.send(sent)
    assert subscriber.receive_all() == received


@pytest.mark.parametrize("byte", [b"\x0b", b"\x0c"])
def test_only_spaces_and_tabs_separate_arguments(bench: Bench, byte: bytes) -> None:
    peer = bench.connect()
    peer.send(b"SUB foo%bbar 1\r\n" % byte)
    assert peer.owner.events == [("subscribe", b"foo%bbar" % byte, None, b"1")]


def test_auto_unsubscribe_ends_after_so_many(bench: Bench) -> None:
    subscriber, publisher = bench.subscriber(b"foo"), bench.connect()
    subscriber.send(b"UNSUB 1 3\r\n")
    publisher.send(b"".join(message(b"foo", b"%d" % number) for number in range(10)))
    assert subscriber.payloads() == [b"0", b"1", b"2"]
    assert not subscriber.link.subscriptions
    assert bench.interest.count == 0


def test_auto_unsubscribe_counts_what_came_before(bench: Bench) -> None:
    subscriber, publisher = bench.subscriber(b"foo"), bench.connect()
    publisher.send(message(b"foo", b"1") + message(b"foo", b"2"))
    subscriber.send(b"UNSUB 1 3\r\n")
    publisher.send(message(b"foo", b"3") + message(b"foo", b"4"))
    assert subscriber.payloads() == [b"1", b"2", b"3"]


@pytest.mark.parametrize("ending", [b"UNSUB 1\r\n", b"UNSUB 1 1\r\n", b"UNSUB 1 0\r\n", b"UNSUB 1 x\r\n"])
def test_unsubscribe_ends_at_once(bench: Bench, ending: bytes) -> None:
    subscriber, publisher = bench.subscriber(b"foo"), bench.connect()
    publisher.send(message(b"foo", b"1"))
    subscriber.send(ending)
    publisher.send(message(b"foo", b"2"))
    assert subscriber.payloads() == [b"1"]


def test_one_message_can_end_many_subscriptions(bench: Bench) -> None:
    subscribers = [bench.subscriber(b"foo", b"*") for _ in range(5)]
    for subscriber in subscribers:
        subscriber.send(b"UNSUB 1 1\r\nUNSUB 2 1\r\n")
    bench.connect().send(message(b"foo", b"1") + message(b"foo", b"2"))
    assert [len(subscriber.frames()) for subscriber in subscribers] == [2] * 5
    assert bench.interest.count == 0


def test_a_sid_in_use_keeps_its_subscription(bench: Bench) -> None:
    subscriber = bench.subscriber(b"foo")
    subscriber.send(b"SUB bar 1\r\n")
    bench.connect().send(message(b"bar", b"no") + message(b"foo", b"yes"))
    assert subscriber.payloads() == [b"yes"]


def test_one_member_of_each_queue_group_gets_a_message(bench: Bench) -> None:
    members = [bench.connect() for _ in range(4)]
    for number, member in enumerate(members):
        member.send(b"SUB foo %b 7\r\n" % (b"odd" if number % 2 else b"even"))
    bench.connect().send(b"".join(message(b"foo", b"%d" % number) for number in range(400)))
    got = [member.payloads() for member in members]
    expected = sorted(b"%d" % number for number in range(400))
    assert sorted(got[0] + got[2]) == expected
    assert sorted(got[1] + got[3]) == expected
    # A fair coin leaves [120, 280] once in 10^15 runs.
    assert all(120 < len(payloads) < 280 for payloads in got)


def test_a_queue_group_passes_over_a_member_that_gets_no_echo(bench: Bench) -> None:
    silent, other = bench.connect(echo=False), bench.connect()
    for member in (silent, other):
        member.send(b"SUB foo workers 1\r\n")
    silent.send(b"".join(message(b"foo", b"%d" % number) for number in range(50)))
    assert len(other.payloads()) == 50


def test_a_queue_group_passes_over_a_member_that_has_had_enough(bench: Bench) -> None:
    first, second = bench.connect(), bench.connect()
    for member in (first, second):
        member.send(b"SUB foo workers 1\r\n")
    first.send(b"UNSUB 1 5\r\n")
    bench.connect().send(b"".join(message(b"foo", b"%d" % number) for number in range(100)))
    assert len(first.payloads()) == 5
    assert len(second.payloads()) == 95


def test_a_request_that_nobody_hears_is_answered_503(bench: Bench) -> None:
    asking = bench.subscriber(b"inbox.*", no_responders=True)
    other = bench.subscriber(b"inbox.*")
    headers = b"NATS/1.0 503\r\nNats-Subject: service\r\n\r\n"
    size = len(headers)
    answer = asking.ask(message(b"service", b"x", reply=b"inbox.1"))
    assert answer == b"HMSG inbox.1 1 %d %d\r\n%b\r\n" % (size, size, headers)
    assert other.receive_all() == b""
    assert asking.ask(message(b"service", b"x")) == b""
    bench.subscriber(b"service")
    assert asking.ask(message(b"service", b"x", reply=b"inbox.1")) == b""


def test_no_503_for_those_who_did_not_ask_or_do_not_listen(bench: Bench) -> None:
    assert bench.subscriber(b"inbox").ask(message(b"service", b"", reply=b"inbox")) == b""
    assert bench.connect(no_responders=True).ask(message(b"service", b"", reply=b"inbox")) == b""


def test_a_message_that_only_its_publisher_wants_without_echo_is_answered_503(bench: Bench) -> None:
    peer = bench.subscriber(b"inbox", b"service", no_responders=True, echo=False)
    assert b" 503\r\n" in peer.ask(message(b"service", b"", reply=b"inbox"))


def test_counters_count_messages_and_payloads(bench: Bench) -> None:
    subscribers, publisher = [bench.subscriber(b"foo") for _ in range(3)], bench.connect()
    publisher.send(message(b"foo", b"12345") + header_message(b"foo", HEADERS, b"1") + message(b"bar", b"12"))
    size = 5 + len(HEADERS) + 1
    assert (publisher.link.in_msgs, publisher.link.in_bytes) == (3, size + 2)
    assert (bench.hub.in_msgs, bench.hub.in_bytes) == (3, size + 2)
    assert (bench.hub.out_msgs, bench.hub.out_bytes) == (6, 3 * size)
    assert (subscribers[0].link.out_msgs, subscribers[0].link.out_bytes) == (2, size)


def test_traces_show_what_comes_and_goes(bench: Bench) -> None:
    peer = bench.subscriber(b"foo")
    peer.owner.events.clear()
    peer.link.trace(True)
    peer.send(message(b"foo", b"hi") + b"PING\r\n")
    peer.link.trace(False)
    peer.send(b"PING\r\n")
    assert [event for event in peer.owner.events if event[0] == "trace"] == [
        ("trace", "in", b"PUB", b"foo 2"),
        ("trace", "in", b"MSG_PAYLOAD", b"hi"),
        ("trace", "out", b"", b"MSG foo 1 2"),
        ("trace", "out", b"MSG_PAYLOAD", b"hi"),
        ("trace", "in", b"PING", b""),
    ]


def test_the_first_ping_after_connect_is_reported_once(bench: Bench) -> None:
    peer = bench.attach()
    peer.send(b"PING\r\n")
    assert peer.owner.events == []
    peer.send(b"CONNECT {}\r\nPING\r\nPING\r\n")
    assert peer.owner.events == [("connect", b"{}"), ("first ping",)]
    assert peer.receive_all() == b"PONG\r\n+OK\r\nPONG\r\nPONG\r\n"


def test_before_authentication_everything_but_connect_is_early(bench: Bench) -> None:
    for operation in (b"PING\r\n", b"P", b"+OK\r\n", message(b"foo", b""), b"\r\n"):
        peer = bench.attach()
        peer.link.await_authentication()
        peer.send(operation)
        assert peer.owner.closed == "early operation"
    peer = bench.attach()
    peer.link.await_authentication()
    peer.send(b"CONNECT {}\r\n")
    assert peer.owner.events == [("connect", b"{}")]


def test_sending_from_outside_leaves_with_a_flush(bench: Bench) -> None:
    peer = bench.connect()
    peer.link.send(b"PING\r\n")
    peer.link.send(b"INFO {}\r\n")
    assert peer.receive() == b""
    bench.hub.flush()
    assert peer.receive() == b"PING\r\nINFO {}\r\n"


def test_a_held_link_waits_with_everything_until_released(bench: Bench) -> None:
    class Holding(RecordingOwner):
        def on_connect(self, json_text: bytes) -> None:
            super().on_connect(json_text)
            self.link.hold()

    peer, subscriber = bench.attach(Holding()), bench.subscriber(b"foo")
    peer.send(b'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n' + message(b"foo", b"1"))
    peer.send(message(b"foo", b"2") + b"PING\r\n")
    assert (peer.receive_all(), subscriber.receive_all()) == (b"", b"")
    peer.link.resume()
    assert peer.receive_all() == b"PONG\r\nPONG\r\n"
    assert subscriber.payloads() == [b"1", b"2"]
    peer.link.resume()  # of a link that is not held: nothing happens
    assert peer.ask(b"PING\r\n") == b"PONG\r\n"


def test_a_held_link_still_receives(bench: Bench) -> None:
    peer = bench.subscriber(b"foo")
    peer.link.hold()
    bench.connect().send(message(b"foo", b"x"))
    assert peer.payloads() == [b"x"]


def test_accounts_do_not_hear_each_other(bench: Bench) -> None:
    subscriber = bench.subscriber(b"foo")
    bench.interest = Interest()
    other = bench.subscriber(b"foo")
    bench.connect().send(message(b"foo", b"x"))
    assert subscriber.receive_all() == b""
    assert other.payloads() == [b"x"]


def test_a_source_that_fails_is_reported_and_called_again() -> None:
    """It is no connection: there is nobody to blame, and nothing to close."""
    reported: list[Exception] = []

    def fail() -> None:
        reading.recv(1)
        raise RuntimeError("a bug")

    reading, writing = socket.socketpair()
    with bench() as made, reading, writing:
        watcher = made.subscriber(b"a")
        made.hub.on_bug = reported.append
        made.hub.add_source(reading.fileno(), fail)
        for count in (1, 2):
            writing.send(b"x")
            made.settle()
            assert [str(error) for error in reported] == ["a bug"] * count
        assert watcher.ask(b"PING\r\n") == b"PONG\r\n"
        made.hub.remove_source(reading.fileno())


def test_a_storm_of_subscriptions_lets_others_have_their_turn(bench: Bench) -> None:
    storming, bystander = bench.connect(), bench.connect()
    lines = b"".join(b"SUB a.%d %d\r\n" % (number, number) for number in range(15_000))
    taken = storming.send_some(lines)
    assert taken > len(lines) // 2
    bystander.send_some(b"PING\r\n")
    bench.hub.poll()
    bench.hub.poll()
    assert bench.interest.count < 15_000 * taken // len(lines) * 9 // 10
    assert bystander.receive() == b"PONG\r\n"
    storming.send(lines[taken:])
    bench.settle_until(lambda: bench.interest.count == 15_000)
    assert storming.ask(b"PING\r\n") == b"PONG\r\n"


def test_a_flush_leaves_the_turns_of_others_to_the_next_poll(bench: Bench) -> None:
    storming, bystander = bench.connect(), bench.connect()
    lines = b"".join(b"SUB a.%d %d\r\n" % (number, number) for number in range(15_000))
    taken = storming.send_some(lines)
    bench.hub.poll()
    count = bench.interest.count
    assert 0 < count < 15_000 * taken // len(lines)
    for _ in range(10):
        bystander.link.send(b"PING\r\n")
        bench.hub.flush()
        assert bench.interest.count == count
    assert bystander.receive() == b"PING\r\n" * 10
    storming.send(lines[taken:])
    bench.settle_until(lambda: bench.interest.count == 15_000)


def test_publishers_that_take_all_the_time_leave_a_turn_for_others(bench: Bench) -> None:
    """Each poll ends because its time is up, whatever is left to do."""
    storming, publishers = bench.connect(), [bench.connect() for _ in range(24)]
    taken = storming.send_some(b"".join(b"SUB a.%d %d\r\n" % (number, number) for number in range(15_000)))
    assert taken > 100_000
    bench.hub.poll()
    count = bench.interest.count
    messages = message(b"x.y", b"0123456789") * 8000
    left = dict.fromkeys(publishers, b"")
    for _ in range(100):
        for publisher in publishers:
            unsent = left[publisher] if len(left[publisher]) >= len(messages) else left[publisher] + messages
            left[publisher] = unsent[publisher.send_some(unsent) :]
        bench.hub.poll()
    assert bench.interest.count > count

"""Delivery from a log: which messages, in which frames, and when a batch ends."""

from __future__ import annotations

import pytest

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from headrace.engine.streams.cursor import Cursor
from tests.engine.core.harness import Bench

PREFIX = b"$JS.ACK.S.C."


@pytest.fixture
def log() -> Log:
    made = Log(None, committer=None)
    made.recover()
    for number in range(1, 11):
        made.append(b"s.even" if number % 2 == 0 else b"s.odd", b"", b"%d" % number, time=number)
    made.commit()
    return made


def cursor_of(bench: Bench, log: Log, *patterns: bytes, headers_only: bool = False) -> Cursor:
    cursor = Cursor(
        bench.hub,
        bench.interest,
        log,
        Filter(patterns),
        lambda: None,
        ack_prefix=PREFIX,
        headers_only=headers_only,
    )
    cursor.next_seq = 1
    log.add_watcher(cursor)
    return cursor


def test_messages_come_under_their_own_subject_with_the_acknowledgement_as_reply(
    bench: Bench, log: Log
) -> None:
    peer = bench.subscriber(b"inbox")
    cursor = cursor_of(bench, log)
    assert cursor.num_pending == 10
    messages, size = cursor.deliver(b"inbox", count=2)
    bench.hub.flush()
    frames = peer.frames()
    assert [(f.subject, f.reply, f.payload) for f in frames] == [
        (b"s.odd", PREFIX + b"1.1.1.1.9", b"1"),
        (b"s.even", PREFIX + b"1.2.2.2.8", b"2"),
    ]
    assert messages == 2
    assert size == sum(len(f.subject) + len(f.reply or b"") + len(f.payload) for f in frames)
    assert (cursor.next_seq, cursor.delivered_seq, cursor.num_pending) == (3, 2, 8)
    assert not len(cursor.pending)


def test_a_filter_and_tracking(bench: Bench, log: Log) -> None:
    peer = bench.subscriber(b"inbox")
    cursor = cursor_of(bench, log, b"s.even")
    cursor.track = True
    assert cursor.num_pending == 5
    assert cursor.deliver(b"inbox", count=100, now=7)[0] == 5
    bench.hub.flush()
    assert peer.payloads() == [b"2", b"4", b"6", b"8", b"10"]
    assert dict(cursor.pending.items()) == {2: (1, 7), 4: (2, 7), 6: (3, 7), 8: (4, 7), 10: (5, 7)}
    assert (cursor.num_pending, cursor.next_seq) == (0, 11)


def test_new_messages_are_pending_once_committed(bench: Bench, log: Log) -> None:
    cursor = cursor_of(bench, log, b"s.even")
    log.append(b"s.even", b"", b"x")
    log.append(b"s.odd", b"", b"x")
    log.commit()
    assert cursor.num_pending == 6
    log.remove(2)
    log.remove(1)
    assert cursor.num_pending == 5


def test_a_batch_ends_where_its_bytes_do(bench: Bench, log: Log) -> None:
    bench.subscriber(b"inbox")
    cursor = cursor_of(bench, log)
    _, one = cursor.deliver(b"inbox", count=1)
    assert cursor.deliver(b"inbox", count=10, max_bytes=one) == (0, 0)
    assert cursor.exceeded
    assert cursor.deliver(b"inbox", count=10, max_bytes=2 * one + 4)[0] == 2


def test_nothing_is_lost_where_nobody_listens(bench: Bench, log: Log) -> None:
    cursor = cursor_of(bench, log)
    assert cursor.deliver(b"inbox", count=5) == (0, 0)
    assert cursor.unwanted
    assert cursor.next_seq == 1
    assert cursor.num_pending == 10


def test_headers_only_tells_the_size_of_the_payload(bench: Bench, log: Log) -> None:
    peer = bench.subscriber(b"inbox")
    cursor_of(bench, log, headers_only=True).deliver(b"inbox", count=1)
    bench.hub.flush()
    (frame,) = peer.frames()
    assert frame.operation == "HMSG"
    assert (frame.headers, frame.payload) == (b"NATS/1.0\r\nNats-Msg-Size: 1\r\n\r\n", b"")


def test_extra_headers_are_added(bench: Bench, log: Log) -> None:
    peer = bench.subscriber(b"inbox")
    cursor_of(bench, log).deliver(b"inbox", count=1, extra_headers=b"Nats-Pin-Id: x\r\n")
    bench.hub.flush()
    (frame,) = peer.frames()
    assert (frame.headers, frame.payload) == (b"NATS/1.0\r\nNats-Pin-Id: x\r\n\r\n", b"1")


def test_a_redelivery_says_so(bench: Bench, log: Log) -> None:
    peer = bench.subscriber(b"inbox")
    cursor = cursor_of(bench, log)
    cursor.track = True
    cursor.deliver(b"inbox", count=2)
    assert cursor.redeliver(1, b"inbox", 2, now=9) > 0
    bench.hub.flush()
    assert peer.frames()[-1].reply == PREFIX + b"2.1.3.1.8"
    assert cursor.pending[1] == (3, 9)
    log.remove(1)
    assert cursor.redeliver(1, b"inbox", 3) == 0


def test_a_receiver_that_does_not_read_blocks_the_batch_until_it_does(bench: Bench) -> None:
    log = Log(None, committer=None)
    log.recover()
    count, payload = 64, bytes(64 * 1024)
    for _ in range(count):
        log.append(b"s", b"", payload)
    log.commit()
    peer = bench.subscriber(b"inbox")
    woken: list[int] = []
    delivered = 0

    def go_on() -> None:
        nonlocal delivered
        woken.append(delivered)
        delivered += cursor.deliver(b"inbox", count=count - delivered)[0]

    cursor = Cursor(bench.hub, bench.interest, log, Filter(()), go_on, ack_prefix=PREFIX)
    cursor.next_seq = 1
    log.add_watcher(cursor)
    go_on()
    bench.hub.flush()
    assert cursor.blocked
    assert delivered < count
    assert peer.link.pending_bytes < 1024 * 1024
    received = 0

    def all_there() -> bool:
        nonlocal received
        received += len(peer.payloads())
        return received == count

    bench.settle_until(all_there)
    assert len(woken) > 1


def test_headers_that_are_none_do_no_harm(bench: Bench) -> None:
    """A header block of a single byte can be published; nothing may be cut off its end."""
    log = Log(None, committer=None)
    log.recover()
    log.append(b"s", b"X", b"body")
    log.commit()
    peer = bench.subscriber(b"inbox")
    cursor_of(bench, log, headers_only=True).deliver(b"inbox", count=1)
    cursor_of(bench, log).deliver(b"inbox", count=1, extra_headers=b"Nats-Pin-Id: x\r\n")
    bench.hub.flush()
    assert [frame.payload for frame in peer.frames()] == [b"", b"body"]

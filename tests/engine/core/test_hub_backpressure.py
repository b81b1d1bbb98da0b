"""Receivers that do not keep up: bounded memory, publishers that wait, and nobody else who suffers."""

from __future__ import annotations

import time

import pytest

from tests.engine.core.harness import MIB, Bench, Peer, RecordingOwner, bench, message
from tests.frames import read_frames

pytestmark = pytest.mark.usefixtures("each_transport")

SOFT_BACKLOG = MIB
FAIR_SHARE = 256 * 1024
BUDGET = 32 * MIB
OWED_LIMIT = 32 * MIB
STALL_SECONDS = 0.010


class Feed:
    """A publisher's endless supply of numbered messages, and what its socket did not take yet."""

    def __init__(self, peer: Peer, subject: bytes, size: int) -> None:
        self.peer = peer
        self.subject = subject
        self.size = size
        self.made = 0
        self._unsent = b""

    def push(self, until: int) -> bool:
        """Send up to message number `until`; returns whether the socket took anything."""
        took = False
        while self.made < until or self._unsent:
            if not self._unsent:
                more = range(self.made, min(until, self.made + 50))
                self._unsent = b"".join(
                    message(self.subject, (b"%d " % number).ljust(self.size, b".")) for number in more
                )
                self.made += len(more)
            count = self.peer.send_some(self._unsent)
            if count == 0:
                break
            took = True
            self._unsent = self._unsent[count:]
        return took


def numbers(payloads: list[bytes]) -> list[int]:
    return [int(payload.split(b" ", 1)[0]) for payload in payloads]


def test_a_receiver_that_never_reads_is_closed_at_max_pending() -> None:
    with bench(max_pending=4 * MIB) as made:
        stuck, healthy = made.subscriber(b"foo"), made.subscriber(b"foo")
        feed = Feed(made.connect(), b"foo", 50_000)
        got: list[int] = []
        highest = 0

        def closed() -> bool:
            feed.push(feed.made + 5)
            got.extend(numbers(healthy.payloads()))
            nonlocal highest
            highest = max(highest, stuck.link.pending_bytes)
            return stuck.owner.closed is not None

        made.settle_until(closed)
        assert stuck.owner.closed == "Slow Consumer (Pending Bytes)"
        assert 2 * MIB < highest <= 4 * MIB + 2 * MIB  # what one tick brings may come on top
        while len(got) < feed.made:
            feed.push(0)
            made.settle()
            got.extend(numbers(healthy.payloads()))
        assert got == list(range(feed.made))
        assert healthy.owner.closed is None
        assert feed.peer.owner.closed is None


def test_max_pending_also_counts_answers() -> None:
    with bench(max_pending=MIB) as made:
        peer = made.connect()
        for _ in range(2000):
            peer.send_some(b"PING\r\n" * 1000)
            made.settle()
            if peer.owner.closed:
                break
        assert peer.owner.closed == "Slow Consumer (Pending Bytes)"


def test_a_publisher_is_paused_and_goes_on_without_loss_or_disorder(bench: Bench) -> None:
    receiver = bench.subscriber(b"foo")
    feed = Feed(bench.connect(), b"foo", 4000)
    total = 4000
    unread = b""
    got: list[int] = []
    for _ in range(100_000):
        feed.push(total)
        if bench.is_ready(0.005):
            bench.hub.poll()
        frames, unread = read_frames(unread + receiver.receive(100_000))  # less than what is sent
        got += numbers([frame.payload for frame in frames])
        if len(got) == total:
            break
    assert got == list(range(total))
    assert bench.hub.stalls > 0
    assert receiver.owner.closed is None


def test_a_paused_publisher_is_not_read(bench: Bench) -> None:
    for attempt in range(20):
        receiver, publisher = bench.subscriber(b"foo.%d" % attempt), bench.connect()
        feed = Feed(publisher, b"foo.%d" % attempt, 1000)
        stalls = bench.hub.stalls
        while bench.hub.stalls == stalls:
            assert feed.push(feed.made + 100)
            began = time.monotonic()
            bench.hub.poll()
        before = publisher.link.in_msgs
        publisher.send_some(b"PING\r\n")
        bench.hub.poll()
        if time.monotonic() - began < STALL_SECONDS:
            break  # else the pause may be over: the machine is busy, and this has shown nothing
    else:
        pytest.fail("the machine is never quick enough to see a pause")
    assert publisher.link.in_msgs == before
    assert receiver.link.pending_bytes < SOFT_BACKLOG + MIB
    # The stall limit passes although the receiver has not moved: it is slow, and nobody waits for it again.
    feed.push(0)
    bench.settle_until(lambda: publisher.receive() == b"PONG\r\n")
    stalls = bench.hub.stalls
    for _ in range(20):
        feed.push(feed.made + 100)
        bench.settle()
    assert bench.hub.stalls == stalls
    assert receiver.link.pending_bytes > 2 * SOFT_BACKLOG


def test_a_slow_receiver_is_waited_for_again_once_it_has_drained(bench: Bench) -> None:
    receiver, publisher = bench.subscriber(b"foo"), bench.connect()
    feed = Feed(publisher, b"foo", 1000)

    def stalls_after(amount: int) -> int:
        before = bench.hub.stalls
        target = feed.made + amount
        bench.settle_until(lambda: not feed.push(target) and publisher.link.in_msgs >= target)
        return bench.hub.stalls - before

    assert stalls_after(3000) >= 1
    assert stalls_after(3000) == 0
    assert len(receiver.payloads()) == 6000
    assert receiver.link.pending_bytes == 0
    assert stalls_after(3000) >= 1


def test_one_stuck_receiver_does_not_stall_the_others(bench: Bench) -> None:
    """Publishers to it wait once for the stall limit; publishers to other subjects not at all."""
    stuck, healthy, apart = bench.subscriber(b"foo"), bench.subscriber(b"foo"), bench.subscriber(b"bar")
    feed, other = Feed(bench.connect(), b"foo", 1000), bench.connect()
    got = 0
    for _ in range(400):
        feed.push(feed.made + 25)
        other.send_some(message(b"bar", b"x"))
        bench.settle()
        got += len(healthy.payloads())
    assert len(apart.payloads()) == 400
    while got < feed.made:
        feed.push(0)
        bench.is_ready(0.01)
        got += len(healthy.payloads())
    assert stuck.link.pending_bytes > SOFT_BACKLOG
    assert bench.hub.stalls < 10


def test_a_nearly_full_receiver_costs_one_stall_per_read_not_per_message() -> None:
    with bench(max_pending=4 * MIB) as made:
        stuck, healthy = made.subscriber(b"foo"), made.subscriber(b"foo")
        filler, feed = Feed(made.connect(), b"foo", 50_000), Feed(made.connect(), b"foo", 100)

        def nearly_full() -> bool:
            filler.push(filler.made + 1)  # the socket may take a part of one
            healthy.receive()
            return stuck.link.pending_bytes > 3 * MIB + MIB // 8

        made.settle_until(nearly_full)
        filler.peer.socket.close()
        stalls = made.hub.stalls
        made.settle_until(lambda: not feed.push(200) and feed.peer.link.in_msgs == 200)
        assert stuck.owner.closed is None
        assert made.hub.stalls - stalls < 50


def test_the_sum_of_what_all_receivers_wait_for_stays_near_the_budget(bench: Bench) -> None:
    """300 receivers that read, but less than what is sent: the publisher is slowed down to their pace."""
    receivers = [bench.subscriber(b"foo", buffer_bytes=8192) for _ in range(300)]
    feed = Feed(bench.connect(), b"foo", 8000)
    total, highest = 120, 0
    counts = [0] * len(receivers)
    unread = [b""] * len(receivers)
    frame = len(b"MSG foo 1 8000\r\n") + 8000 + 2
    turn = 0
    while min(counts) < total * frame:
        feed.push(total)
        if bench.is_ready(0.02):
            bench.hub.poll()
        highest = max(highest, sum(peer.link.pending_bytes for peer in receivers))
        turn += 1
        for number in range(turn % 3, len(receivers), 3):
            unread[number] = receivers[number].receive(65536)
            counts[number] += len(unread[number])
    assert counts == [total * frame] * len(receivers)
    assert total * frame * len(receivers) > 4 * (BUDGET + OWED_LIMIT)
    assert highest < BUDGET + OWED_LIMIT + 4 * MIB
    assert all(peer.owner.closed is None for peer in receivers)


def test_many_stuck_receivers_do_not_stop_publishers_to_others(bench: Bench) -> None:
    stuck = [bench.subscriber(b"foo", buffer_bytes=8192) for _ in range(BUDGET // FAIR_SHARE + 10)]
    flood, healthy, other = bench.connect(), bench.subscriber(b"bar"), bench.connect()
    other.send(message(b"bar", b"first"))
    flood.send(message(b"foo", b"x" * 275_000))
    assert sum(min(peer.link.pending_bytes, FAIR_SHARE) for peer in stuck) > BUDGET
    other.send_some(message(b"bar", b"second"))
    bench.settle_until(lambda: healthy.link.out_msgs == 2)
    assert healthy.payloads() == [b"first", b"second"]


def test_a_peer_that_leaves_over_budget_is_let_go(bench: Bench) -> None:
    stuck = [bench.subscriber(b"foo", buffer_bytes=8192) for _ in range(BUDGET // FAIR_SHARE + 10)]
    flood, leaving = bench.connect(), bench.connect()
    leaving.send(message(b"bar", b"first"))
    flood.send(message(b"foo", b"x" * 275_000))
    assert sum(min(peer.link.pending_bytes, FAIR_SHARE) for peer in stuck) > BUDGET
    leaving.socket.close()
    stalls = bench.hub.stalls
    bench.settle_until(lambda: leaving.owner.closed is not None)
    assert bench.hub.stalls - stalls < 100  # each of them also leaves an entry in the list of paused links
    assert leaving.owner.closed == "Client Closed"


def test_a_peer_that_leaves_while_it_is_paused_is_heard_to_the_end(bench: Bench) -> None:
    receiver, publisher = bench.subscriber(b"foo"), bench.connect()
    feed = Feed(publisher, b"foo", 1000)
    while not bench.hub.stalls:
        feed.push(feed.made + 100)
        bench.hub.poll()
    feed.push(0)
    publisher.socket.close()
    bench.settle_until(lambda: publisher.owner.closed is not None)
    got = numbers(receiver.payloads())
    assert got == list(range(len(got)))
    assert len(got) == publisher.link.in_msgs >= feed.made - 60  # what the socket had not taken is not sent


def test_a_paused_publisher_that_is_closed_stays_closed(bench: Bench) -> None:
    receiver, publisher = bench.subscriber(b"foo"), bench.connect()
    feed = Feed(publisher, b"foo", 1000)
    while not bench.hub.stalls:
        feed.push(feed.made + 100)
        bench.hub.poll()
    publisher.link.close("enough")
    bench.hub.flush()
    before = publisher.link.in_msgs
    bench.settle_until(lambda: not bench.is_ready(0.03))
    assert publisher.link.in_msgs == before
    assert len(receiver.payloads()) == before


def test_a_violation_behind_a_pause_is_met_after_it(bench: Bench) -> None:
    receiver, publisher = bench.subscriber(b"foo"), bench.connect()
    before = message(b"foo", b"x" * 10_000)
    data = memoryview(before * 200 + b"NONSENSE\r\n" + before)

    def ended() -> bool:
        nonlocal data
        data = data[publisher.send_some(data) :]
        return publisher.owner.closed is not None

    bench.settle_until(ended)
    assert bench.hub.stalls > 0
    assert publisher.receive() == b"-ERR 'parse'\r\n"
    assert len(receiver.payloads()) == 200


def test_a_publisher_that_does_not_read_its_own_echo_is_not_deadlocked(bench: Bench) -> None:
    peer = bench.subscriber(b"foo")
    feed = Feed(peer, b"foo", 1000)
    bench.settle_until(lambda: not feed.push(5000) and peer.link.in_msgs == 5000)
    assert numbers(peer.payloads()) == list(range(5000))


def test_an_idle_connection_holds_no_bytes(bench: Bench) -> None:
    receiver, publisher = bench.subscriber(b"foo"), bench.connect()
    publisher.send(message(b"foo", b"x" * MIB))
    assert receiver.link.pending_bytes > 0
    receiver.payloads()
    assert receiver.link.pending_bytes == 0


def test_writes_expire_only_where_something_waits(bench: Bench) -> None:
    stuck, idle, publisher = bench.subscriber(b"foo"), bench.subscriber(b"bar"), bench.connect()
    publisher.send(message(b"foo", b"x" * MIB))
    bench.hub.tidy(60.0)
    assert stuck.owner.closed is None
    time.sleep(0.01)
    bench.hub.tidy(0.001)
    assert stuck.owner.closed == "Slow Consumer (Write Deadline)"
    assert idle.owner.closed is None


def test_the_write_deadline_counts_from_the_write(bench: Bench) -> None:
    peer = bench.connect()
    time.sleep(1.2)  # a quiet server: no poll in between
    peer.link.send(b"x" * MIB)
    bench.hub.flush()
    bench.hub.tidy(1.0)
    assert peer.owner.closed is None


def test_several_publishers_to_one_slow_receiver_keep_their_order(bench: Bench) -> None:
    receiver = bench.subscriber(b"p.*")
    feeds = [Feed(bench.connect(), b"p.%d" % number, 2000) for number in range(4)]
    total = 700
    got: dict[bytes, list[int]] = {feed.subject: [] for feed in feeds}
    for turn in range(100_000):
        for feed in feeds:
            feed.push(total)
        if bench.is_ready(0.005):
            bench.hub.poll()
        if turn % 4 == 0:
            for frame in receiver.frames():
                got[frame.subject] += numbers([frame.payload])
        if all(len(received) == total for received in got.values()):
            break
    assert got == {feed.subject: list(range(total)) for feed in feeds}


def test_an_owner_hears_of_a_slow_consumer_once() -> None:
    with bench(max_pending=100_000) as made:
        owner = RecordingOwner()
        receiver, publisher = made.subscriber(b"foo", owner=owner), made.connect()
        publisher.send(message(b"foo", b"x" * 50_000) * 40)
        assert owner.closed == "Slow Consumer (Pending Bytes)"
        assert receiver.link.pending_bytes == 0
        assert owner.bugs == []


def test_publishers_wait_before_a_small_max_pending_is_reached() -> None:
    with bench(max_pending=800_000) as made:
        receiver, publisher = made.subscriber(b"foo"), made.connect()
        while receiver.owner.closed is None and not made.hub.stalls:
            publisher.send_some(message(b"foo", b"x" * 1000) * 20)
            made.hub.poll()
        assert made.hub.stalls > 0


def test_a_hub_that_never_waits_drops_what_is_for_a_congested_receiver() -> None:
    with bench(max_pending=800_000) as made:
        made.hub.never_waits = True
        stuck, healthy, publisher = made.subscriber(b"foo"), made.subscriber(b"foo"), made.connect()
        for _ in range(200):
            publisher.send(message(b"foo", b"x" * 10_000))
            healthy.payloads()
        assert made.hub.stalls == 0
        assert stuck.owner.closed is None
        assert stuck.link.pending_bytes <= 800_000
        assert stuck.link.out_msgs < healthy.link.out_msgs == 200

"""Ends of connections: by violation, by the peer, by the owner, by a bug, and in the middle of everything."""

from __future__ import annotations

import gc
import os
import socket
import struct
import time
from collections import Counter
from typing import Any

import pytest

from tests.engine.core.harness import MIB, Bench, RecordingOwner, bench, message

pytestmark = pytest.mark.usefixtures("each_transport")


class Failing(RecordingOwner):
    """Raises in the callbacks that it is told to."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.failing = set(names)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("on_") and name in super().__getattribute__("failing"):
            raise_in = super().__getattribute__("raise_in")
            return lambda *arguments: raise_in(name)
        return super().__getattribute__(name)

    def raise_in(self, name: str) -> None:
        raise ZeroDivisionError(name)


def test_after_a_violation_the_rest_is_ignored(bench: Bench) -> None:
    subscriber, publisher = bench.subscriber(b"foo"), bench.connect()
    before, after = message(b"foo", b"before"), message(b"foo", b"after")
    assert publisher.ask(before + b"NONSENSE\r\n" + after + b"PING\r\n") == b"-ERR 'parse'\r\n"
    assert subscriber.payloads() == [b"before"]
    assert publisher.is_at_end()
    assert publisher.link.closed
    assert publisher.link.close_reason == publisher.owner.closed == "parse"


def test_a_peer_that_leaves_takes_its_subscriptions_with_it(bench: Bench) -> None:
    leaving, staying = bench.subscriber(b"foo", b"*"), bench.subscriber(b"foo")
    leaving.socket.close()
    bench.settle()
    assert leaving.owner.closed == "Client Closed"
    assert bench.interest.count == 1
    bench.connect().send(message(b"foo", b"x"))
    assert staying.payloads() == [b"x"]


def test_a_peer_that_leaves_takes_very_many_subscriptions_with_it(bench: Bench) -> None:
    leaving, staying = bench.connect(), bench.connect()
    staying.send(b"SUB foo.1 workers 1\r\n")
    leaving.send(b"".join(b"SUB foo.%d workers %d\r\n" % (n, n) for n in range(20_000)))
    bench.settle()
    assert bench.interest.count == 20_001
    publisher = bench.connect()
    leaving.socket.close()
    bench.settle_until(lambda: leaving.link.closed)
    publisher.send(message(b"foo.1", b"x") * 20)  # some of the subscriptions may still be there
    assert staying.payloads() == [b"x"] * 20
    bench.settle()
    assert leaving.owner.closed == "Client Closed"
    assert bench.interest.count == 1


def test_what_a_peer_sent_before_it_left_is_carried_out(bench: Bench) -> None:
    subscriber, publisher = bench.subscriber(b"foo"), bench.connect()
    publisher.send_some(message(b"foo", b"x") * 100 + b"PUB foo 10\r\nunfin")
    publisher.socket.close()
    bench.settle()
    assert subscriber.payloads() == [b"x"] * 100
    assert publisher.owner.closed == "Client Closed"


def test_a_peer_that_only_stops_sending_is_closed(bench: Bench) -> None:
    peer = bench.connect()
    peer.send_some(b"PING\r\n")
    peer.socket.shutdown(socket.SHUT_WR)
    bench.settle()
    assert peer.receive() == b"PONG\r\n"
    assert peer.owner.closed == "Client Closed"


def test_a_reset_closes_the_link(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    accepted.setblocking(False)
    owner = RecordingOwner()
    owner.link = bench.hub.attach(accepted.detach(), owner)
    owner.link.join(bench.interest)
    client.sendall(b"PING\r\n")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    bench.settle_until(lambda: owner.closed is not None)
    assert owner.closed in ("Read Error", "Write Error")
    assert bench.hub.links == {}


def test_writing_to_a_peer_that_left_closes_the_link(bench: Bench) -> None:
    subscriber, publisher = bench.subscriber(b"foo"), bench.connect()
    subscriber.socket.shutdown(socket.SHUT_RD)
    publisher.send(message(b"foo", b"x"))
    bench.settle()
    assert subscriber.owner.closed == "Write Error"


def test_a_link_closed_from_outside_ends_with_the_flush(bench: Bench) -> None:
    peer = bench.connect()
    peer.link.send(b"goodbye")
    peer.link.close("asked to")
    assert peer.link.closed
    assert peer.owner.closed is None
    bench.hub.flush()
    assert peer.receive() == b"goodbye"
    assert peer.is_at_end()
    assert peer.owner.closed == "asked to"
    peer.link.close("again")
    peer.link.send(b"no")
    peer.link.unsubscribe(b"1", -1)
    peer.link.subscribe(b"foo", None, b"1")
    peer.link.unsubscribe_all()
    peer.link.resume()
    bench.hub.flush()
    assert peer.link.close_reason == "asked to"
    assert bench.interest.count == 0


def test_bytes_for_a_link_that_closes_in_the_same_tick_still_leave(bench: Bench) -> None:
    peer, other = bench.subscriber(b"foo"), bench.connect()
    other.send_some(message(b"foo", b"from another"))
    peer.send_some(message(b"foo", b"own") + b"PING\r\nNONSENSE\r\n")
    bench.settle()
    data = peer.receive()
    assert b"PONG\r\n-ERR 'parse'\r\n" in data
    assert b"own\r\n" in data


def test_an_owner_may_close_others_in_a_callback(bench: Bench) -> None:
    victims = [bench.subscriber(b"foo") for _ in range(5)]

    class Closing(RecordingOwner):
        def on_pong(self) -> None:
            for victim in victims:
                victim.link.close("closed by another")

    closer = bench.connect(Closing())
    # All of them have something to flush and something to read when it happens.
    for victim in victims[:3]:
        victim.send_some(b"PING\r\n")
    closer.send_some(message(b"foo", b"1") + b"PONG\r\n" + message(b"foo", b"2") + b"PING\r\n")
    for victim in victims[3:]:
        victim.send_some(b"PING\r\n")
    bench.settle()
    assert [victim.owner.closed for victim in victims] == ["closed by another"] * 5
    for victim in victims:
        data = victim.receive()
        assert b"1\r\n1\r\n" in data
        assert b"1\r\n2\r\n" not in data
    assert closer.receive() == b"PONG\r\n"
    assert len(bench.hub.links) == 1


def test_closing_spreads_from_on_closed(bench: Bench) -> None:
    chain: list[RecordingOwner] = []

    class Linked(RecordingOwner):
        def on_closed(self, reason: str) -> None:
            super().on_closed(reason)
            following = chain.index(self) + 1
            if following < len(chain):
                chain[following].link.send(b"goodbye")
                chain[following].link.close("the one before")

    peers = []
    for _ in range(6):
        owner = Linked()
        chain.append(owner)
        peers.append(bench.subscriber(b"foo", owner=owner))
    peers[0].socket.close()
    bench.settle()
    assert [owner.closed for owner in chain] == ["Client Closed"] + ["the one before"] * 5
    assert peers[5].receive() == b"goodbye"
    assert bench.interest.count == 0


@pytest.mark.parametrize(
    ("callback", "sent"),
    [
        ("on_connect", b"CONNECT {}\r\n"),
        ("on_subscribe", b"SUB foo 1\r\n"),
        ("on_unsubscribe", b"UNSUB 1\r\n"),
        ("on_info", b"INFO {}\r\n"),
        ("on_pong", b"PONG\r\n"),
        ("on_first_ping", b"CONNECT {}\r\nPING\r\n"),
        ("on_violation", b"NONSENSE\r\n"),
        ("on_early_operation", b"PING\r\n"),
        ("on_trace", b"PING\r\n"),
    ],
)
def test_a_bug_in_one_connection_closes_that_one(callback: str, sent: bytes) -> None:
    with bench() as made:
        failing, other, subscriber = made.attach(Failing(callback)), made.connect(), made.subscriber(b"foo")
        if callback == "on_early_operation":
            failing.link.await_authentication()
        failing.link.trace(callback == "on_trace")
        failing.send_some(sent + message(b"foo", b"never"))
        other.send_some(message(b"foo", b"x") + b"PING\r\n")
        made.settle()
        assert [str(bug) for bug in failing.owner.bugs] == [callback]
        assert failing.owner.closed == "Internal Error"
        assert failing.is_at_end() or failing.receive()
        assert other.receive_all() == b"PONG\r\n"
        assert subscriber.payloads() == [b"x"]


def test_a_bug_in_on_closed_is_reported_and_the_others_are_closed() -> None:
    with bench() as made:
        failing = made.subscriber(b"foo", owner=Failing("on_closed"))
        other = made.connect()
        failing.link.close("x")
        other.link.close("y")
        made.hub.flush()
        assert [str(bug) for bug in failing.owner.bugs] == ["on_closed"]
        assert other.owner.closed == "y"
        assert made.hub.links == {}
        assert made.interest.count == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the one place it can go
def test_a_bug_in_on_bug_does_not_escape() -> None:
    with bench() as made:
        failing = made.attach(Failing("on_pong", "on_bug", "on_closed"))
        other = made.connect()
        failing.send_some(b"PONG\r\n")
        other.send_some(b"NONSENSE\r\n")
        made.settle()
        assert failing.link.closed
        assert other.owner.closed == "parse"
        assert made.hub.links == {}


def test_a_bug_in_the_trace_of_a_receiver_does_not_close_the_publisher() -> None:
    with bench() as made:
        receiver, publisher = made.subscriber(b"foo", owner=Failing("on_trace")), made.connect()
        receiver.link.trace(True)
        publisher.send(message(b"foo", b"x"))
        assert publisher.owner.closed is None


def test_a_subscription_that_expired_in_a_failed_delivery_is_let_go() -> None:
    with bench() as made:
        receiver = made.subscriber(b"foo", owner=Failing("on_trace"))
        receiver.send(b"UNSUB 1 1\r\n")
        receiver.link.trace(True)
        made.connect().send(message(b"foo", b"x"))
        receiver.socket.close()
        made.settle()
        made.peers.remove(receiver)
        del receiver.owner.link, receiver
        gc.collect()
        subscriber = made.subscriber(b"bar")
        made.connect().send(message(b"bar", b"x"))
        assert subscriber.payloads() == [b"x"]


class Slow(RecordingOwner):
    """Takes longer over a violation than one poll of the hub may last."""

    def on_violation(self, kind: str, detail: bytes) -> None:
        time.sleep(0.01)
        super().on_violation(kind, detail)


@pytest.mark.parametrize(
    "owner", [RecordingOwner, Slow], ids=["in as few ticks as possible", "in several ticks"]
)
def test_interleaved_closing_and_fan_out(bench: Bench, owner: type[RecordingOwner]) -> None:
    """Many links close while they are being delivered to: nothing is lost for those that stay.

    A subscriber that closes its socket may be written to before its own message is read, if a tick ends in
    between (on a busy machine any may): it is gone then, with its message. A publisher is not written to.
    """
    publishers = [bench.connect() for _ in range(20)]
    peers = [bench.subscriber(b"foo", owner=owner()) for _ in range(80)]
    for number, peer in enumerate(peers):
        peer.send_some(message(b"foo", b"%d" % number) + (b"NONSENSE\r\n" if number % 4 == 0 else b""))
    for peer in publishers:
        peer.send_some(message(b"foo", b"published"))
    for peer in (*peers[1::4], *publishers):
        peer.socket.close()
    for peer in peers[2::4]:
        peer.socket.shutdown(socket.SHUT_WR)
    bench.settle()
    staying = peers[3::4]
    assert [peer.owner.closed for peer in staying] == [None] * 20
    gone = {b"%d" % number for number in range(1, 80, 4)}
    everything = {b"%d" % number for number in range(80)}
    first = Counter(staying[0].payloads())
    assert first.pop(b"published") == 20
    assert everything - gone <= first.keys() <= everything
    assert first.total() == len(first)
    for peer in staying[1:]:
        assert Counter(peer.payloads()) == first + Counter({b"published": 20})
    assert bench.interest.count == 20


def test_a_link_closed_while_it_waits_to_write_is_forgotten(bench: Bench) -> None:
    receiver, publisher = bench.subscriber(b"foo"), bench.connect()
    publisher.send(message(b"foo", b"x" * MIB) * 2)
    assert receiver.link.pending_bytes > MIB
    receiver.socket.close()
    bench.settle()
    assert receiver.owner.closed is not None
    assert receiver.link.pending_bytes == 0
    assert publisher.ask(message(b"foo", b"x" * MIB) + b"PING\r\n") == b"PONG\r\n"


def test_close_ends_every_link_and_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))
    made = Bench()
    peers = [made.subscriber(b"foo") for _ in range(10)]
    peers[0].link.send(b"last words")
    made.hub.close()
    assert [peer.owner.closed for peer in peers] == ["Server Shutdown"] * 10
    assert peers[0].receive() == b"last words"
    assert all(peer.is_at_end() for peer in peers)
    assert made.interest.count == 0
    for peer in peers:
        peer.socket.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_links_and_their_owners_are_freed() -> None:
    with bench() as made:
        freed = []

        class Tracked(RecordingOwner):
            def __del__(self) -> None:
                freed.append(True)

        for _ in range(20):
            peer = made.subscriber(b"foo", owner=Tracked())
            peer.send(b"PUB foo 100\r\nhalf of it")
            peer.socket.close()
            made.settle()
        made.peers.clear()
        del peer
        gc.collect()
        assert len(freed) == 20


def test_a_held_link_whose_peer_leaves_is_closed(bench: Bench) -> None:
    peer = bench.connect()
    peer.link.hold()
    peer.socket.close()
    bench.settle()
    assert peer.owner.closed == "Client Closed"
    peer.link.resume()


def test_descriptors_are_used_again_at_once(bench: Bench) -> None:
    subscriber = bench.subscriber(b"foo")
    for number in range(200):
        peer = bench.subscriber(b"foo")
        peer.send_some(message(b"foo", b"%d" % number) + b"NONSENSE\r\n")
        bench.settle()
        peer.socket.close()
    assert subscriber.payloads() == [b"%d" % number for number in range(200)]
    assert len(bench.hub.links) == 1

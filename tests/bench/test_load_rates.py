"""The load loop at a fixed rate, and subscribers that share: what it sends when, and what it counts."""

import socket
import threading
import time

import pytest

from headrace.bench.clients.load import Load
from headrace.bench.histogram import Histogram
from tests.engine.core.peers import FRAME, peer

MILLISECOND = 1_000_000


def numbered(*numbers: int) -> bytes:
    return b"".join(b"MSG bench 1 %d 2\r\nhi\r\n" % number for number in numbers)


def test_a_paced_publisher_numbers_its_messages_and_ends_with_a_ping() -> None:
    with peer(b"") as (connection, heard):
        load = Load(30.0, None, Histogram())
        load.add_paced_publisher(connection.fileno(), b"a", b"xyz", 1, 3, 10, 0.1 * MILLISECOND)
        assert load.run() == "done"
    frames = b"".join(b"PUB a %d 3\r\nxyz\r\n" % number for number in (1, 4, 7))
    assert b"".join(heard) == frames + b"PING\r\n"


def test_nothing_is_sent_before_it_is_due() -> None:
    arrivals: list[tuple[float, int]] = []
    ours, theirs = socket.socketpair()

    def receive() -> None:
        while piece := theirs.recv(65536):
            arrivals.append((time.monotonic(), piece.count(b"PUB ")))
            theirs.sendall(b"PONG\r\n" * piece.count(b"PING\r\n"))

    thread = threading.Thread(target=receive)
    thread.start()
    delays = Histogram()
    load = Load(30.0, None, delays)
    load.add_paced_publisher(ours.fileno(), b"a", b"", 0, 1, 20, 5.0 * MILLISECOND)
    assert load.run() == "done"
    ours.close()
    thread.join()
    theirs.close()
    began, seen = load.started_at / 1e9, 0
    for moment, count in arrivals:
        seen += count
        assert (seen - 1) * 0.005 <= moment - began
    assert seen == 20
    assert sum(count for _, count in delays.buckets(0)) == 20


def test_a_stall_of_the_server_is_counted_for_every_message_that_was_due() -> None:
    """100 messages were due within 10 ms; all come after 50 ms, so every one has waited for at least 40."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        while not load.started_at:
            time.sleep(0.001)
        time.sleep(0.06)
        theirs.sendall(numbered(*range(100)))
        theirs.recv(64)
        theirs.sendall(b"PONG\r\n")

    thread = threading.Thread(target=serve)
    waits = Histogram()
    load = Load(30.0, waits)
    load.add_timed_subscriber(ours.fileno(), 100, 0.1 * MILLISECOND)
    thread.start()
    assert load.run() == "done"
    thread.join()
    ours.close()
    theirs.close()
    buckets = waits.buckets(0)
    assert sum(count for _, count in buckets) == 100
    assert buckets[0][0] >= 40 * MILLISECOND
    # In one piece they came at one moment: the first has waited 9.9 ms longer than the last. The histogram
    # knows that one's wait to 1 %, and on a busy machine it may be long.
    error = max(0.5 * MILLISECOND, 0.01 * buckets[0][0])
    assert waits.highest(0) - buckets[0][0] == pytest.approx(9.9 * MILLISECOND, abs=error)


def test_queue_members_are_complete_when_their_sum_is() -> None:
    with peer(FRAME * 7) as (first, _), peer(FRAME * 3) as (second, _), peer(b"") as (third, _):
        load = Load(30.0)
        for connection in (first, second, third):
            load.add_queue_member(connection.fileno(), True)
        load.expect_shared(10)
        assert load.expected == 10
        assert load.run() == "done"
    assert [client[1] for client in load.clients] == [7, 3, 0]


def test_queue_members_that_get_too_little_stall() -> None:
    with peer(FRAME * 7) as (first, _), peer(FRAME * 2) as (second, _):
        load = Load(0.5)
        for connection in (first, second):
            load.add_queue_member(connection.fileno(), False)
        load.expect_shared(10)
        assert load.run() == "stalled"


def test_surplus_messages_of_a_queue_group_are_counted_too() -> None:
    with peer(FRAME * 7) as (first, _), peer(FRAME * 8) as (second, _):
        load = Load(30.0)
        for connection in (first, second):
            load.add_queue_member(connection.fileno(), False)
        load.expect_shared(10)
        assert load.run() == "done"
    assert sum(client[1] for client in load.clients) == 15


@pytest.mark.parametrize("reply", [b"", b"x ", b"-1 ", b"1x ", b"99999999999999999999 ", b"1 "])
def test_a_message_without_a_number_that_was_sent_is_refused(reply: bytes) -> None:
    with peer(b"MSG bench 1 %b2\r\nhi\r\n" % reply) as (connection, _):
        load = Load(30.0, Histogram())
        load.add_timed_subscriber(connection.fileno(), 1, 1000.0)
        assert load.run() == "garbled"


def test_rates_need_their_histograms() -> None:
    with peer(b"") as (connection, _):
        with pytest.raises(ValueError, match="histogram of delays"):
            Load().add_paced_publisher(connection.fileno(), b"a", b"", 0, 1, 1, 1.0)
        with pytest.raises(ValueError, match="histogram of waits"):
            Load().add_timed_subscriber(connection.fileno(), 1, 1.0)

"""Frames of all sizes, however they are cut: the shared buffer, its headroom, long frames, the arena."""

from __future__ import annotations

import random

import pytest

from tests.engine.core.harness import MIB, Bench, bench, message

pytestmark = pytest.mark.usefixtures("each_transport")

READ_SIZE = 256 * 1024
HEADROOM = 64 * 1024
ARENA_SIZE = MIB


def pattern(size: int, seed: int = 0) -> bytes:
    """Bytes in which a shift or a swap shows, line ends among them."""
    return random.Random(seed * 1_000_003 + size).randbytes(size)


def sizes_around(*limits: int) -> list[int]:
    return [limit + delta for limit in limits for delta in (-40, -3, -2, -1, 0, 1, 2, 3)]


@pytest.mark.parametrize("receivers", [1, 2])
def test_payloads_around_every_buffer_size_arrive_unchanged(bench: Bench, receivers: int) -> None:
    subscribers, publisher = [bench.subscriber(b"foo") for _ in range(receivers)], bench.connect()
    for size in [0, 1, *sizes_around(HEADROOM, READ_SIZE, READ_SIZE + HEADROOM, ARENA_SIZE // 2), MIB]:
        payload = pattern(size)
        publisher.send(message(b"foo", payload, reply=b"r") + b"PING\r\n")
        assert publisher.receive_all() == b"PONG\r\n"
        for subscriber in subscribers:
            (frame,) = subscriber.frames()
            assert (frame.reply, frame.payload == payload) == (b"r", True), size


@pytest.mark.parametrize("piece", [HEADROOM - 7, 4096, 131_071])
def test_a_large_payload_in_many_pieces_arrives_unchanged(bench: Bench, piece: int) -> None:
    subscriber, publisher = bench.subscriber(b"foo"), bench.connect()
    payload = pattern(MIB)
    data = message(b"foo", payload) + message(b"foo", b"after") + b"PING\r\n"
    for start in range(0, len(data), piece):
        publisher.send(data[start : start + piece])
    assert [
        got == wanted for got, wanted in zip(subscriber.payloads(), [payload, b"after"], strict=True)
    ] == [
        True,
        True,
    ]
    assert publisher.receive_all() == b"PONG\r\n"


def test_what_follows_a_long_frame_is_read_with_it(bench: Bench) -> None:
    subscriber, publisher = bench.subscriber(b"foo"), bench.connect()
    payloads = [pattern(size, seed) for seed, size in enumerate([70_000, 3, 66_000, 200_000, 0, 65_536])]
    data = b"".join(message(b"foo", payload) for payload in payloads) * 3 + b"PING\r\nPI"
    for start in range(0, len(data), 60_000):
        publisher.send(data[start : start + 60_000])
    publisher.send(b"NG\r\n")
    assert subscriber.payloads() == payloads * 3
    assert publisher.receive_all() == b"PONG\r\n" * 2


def test_a_line_cut_at_any_place_is_put_together(bench: Bench) -> None:
    subscriber, publisher = bench.subscriber(b"foo"), bench.connect()
    data = b"PUB  foo inbox 5 \r\nhel\r\n\r\nPING \r\n"
    for cut in range(1, len(data)):
        publisher.send(data[:cut])
        publisher.send(data[cut:])
        assert publisher.receive_all() == b"PONG\r\n", cut
        assert subscriber.receive_all() == b"MSG foo 1 inbox 5\r\nhel\r\n\r\n", cut


def test_a_pipeline_longer_than_the_read_buffer_and_the_arena(bench: Bench) -> None:
    """One receiver (a span), two with the same sid (shared), and one with another sid (its own backlog)."""
    lone, pair = bench.subscriber(b"lone"), [bench.subscriber(b"many") for _ in range(2)]
    other = bench.subscriber(b"unused", b"many")
    publisher = bench.connect()
    chance = random.Random(3)
    sent = [
        (chance.choice([b"lone", b"many"]), b"%d." % number + pattern(chance.randrange(2000), number))
        for number in range(6000)
    ]
    data = memoryview(b"".join(message(subject, payload) for subject, payload in sent))
    assert len(data) > 4 * ARENA_SIZE
    got: dict[int, list[bytes]] = {id(peer): [] for peer in (lone, other, *pair)}
    while data:
        data = data[publisher.send_some(data) :]
        bench.hub.poll()
        for peer in (lone, other, *pair):
            got[id(peer)] += peer.payloads()
    for peer, subject in ((lone, b"lone"), (other, b"many"), (pair[0], b"many"), (pair[1], b"many")):
        bench.settle_until(lambda peer=peer: not peer.link.pending_bytes)  # type: ignore[misc]
        got[id(peer)] += peer.payloads()
        assert got[id(peer)] == [payload for to, payload in sent if to == subject]


def test_a_message_longer_than_the_arena_reaches_everybody() -> None:
    with bench(max_payload=8 * MIB) as big:
        subscribers, publisher = [big.subscriber(b"foo") for _ in range(3)], big.connect()
        payload = pattern(3 * MIB)
        publisher.send(message(b"foo", b"before") + message(b"foo", payload) + message(b"foo", b"after"))
        got = {subscriber: [] for subscriber in subscribers}

        def all_have_come() -> bool:
            for subscriber, lengths in got.items():
                lengths += [len(payload) for payload in subscriber.payloads()]
            return all(len(lengths) == 3 for lengths in got.values())

        big.settle_until(all_have_come)
        assert list(got.values()) == [[6, 3 * MIB, 5]] * 3


def test_a_payload_at_the_limit_passes_and_one_over_it_closes() -> None:
    with bench(max_payload=100) as small:
        subscriber, publisher = small.subscriber(b"foo"), small.connect()
        publisher.send(
            message(b"foo", b"x" * 100) + b"HPUB foo 12 100\r\nNATS/1.0\r\n\r\n" + b"y" * 88 + b"\r\n"
        )
        assert [len(payload) for payload in subscriber.payloads()] == [100, 88]
        publisher.send(b"PUB foo 101\r\n")
        assert publisher.owner.events == [("violation", "payload", b"101 vs 100")]
        assert publisher.owner.closed == "payload"
        header_publisher = small.connect()
        header_publisher.send(b"HPUB foo 101 101\r\n")
        assert header_publisher.owner.violations() == ["payload"]


def test_a_lowered_limit_holds_for_a_frame_that_is_under_way() -> None:
    with bench(max_payload=MIB) as changing:
        publisher = changing.connect()
        publisher.send(b"PUB foo 500000\r\n" + b"x" * 300_000)
        changing.hub.max_payload = 100
        publisher.send(b"x" * 200_000 + b"\r\nPING\r\n")
        assert publisher.owner.violations() == ["payload"]
        assert publisher.owner.bugs == []


@pytest.mark.parametrize("size", [b"-1", b"x", b"1x", b"1000000000", b"99999999999999999999", b"0x1", b"+1"])
def test_a_size_that_is_no_number_closes(bench: Bench, size: bytes) -> None:
    for operation in (b"PUB foo %b\r\n", b"HPUB foo 0 %b\r\n", b"HPUB foo %b 12\r\n"):
        publisher = bench.connect()
        publisher.send(operation % size)
        assert publisher.owner.violations() == ["arguments"]


def test_the_length_of_a_header_must_fit_the_message(bench: Bench) -> None:
    publisher = bench.connect()
    publisher.send(b"HPUB foo 6 5\r\n")
    assert publisher.owner.violations() == ["arguments"]


@pytest.mark.parametrize("ending", [b"x", b"\rx", b"\n"])
@pytest.mark.parametrize("size", [2, HEADROOM + 1000])
def test_a_payload_must_end_where_it_was_said_to(bench: Bench, ending: bytes, size: int) -> None:
    publisher = bench.connect()
    publisher.send(b"PUB foo %d\r\n" % size + b"a" * size + ending)
    assert publisher.owner.violations() == ["parse"]
    assert publisher.owner.closed == "parse"


@pytest.mark.parametrize("at_once", [True, False])
def test_a_control_line_may_be_as_long_as_its_limit(bench: Bench, at_once: bool) -> None:
    for length, fits in ((4096, True), (4097, False)):
        peer = bench.connect()
        line = b"SUB " + b"s" * (length - 2) + b" 1\r\n"
        for piece in [line] if at_once else [line[:10], line[10:4000], line[4000:4099], line[4099:]]:
            peer.send(piece)
        assert peer.owner.violations() == ([] if fits else ["control_line"])


def test_a_line_without_an_end_is_cut_off_at_the_limit(bench: Bench) -> None:
    peer = bench.connect()
    for _ in range(100):
        peer.send(b"SUB " if _ == 0 else b"s" * 1000)
    assert peer.owner.violations() == ["control_line"]


def test_a_control_line_longer_than_the_usual_headroom() -> None:
    with bench(max_control_line=200_000) as wide:
        peer, publisher = wide.connect(), wide.connect()
        subject = b"s" * 150_000
        for start in range(0, len(subject), 40_000):
            peer.send((b"SUB " if start == 0 else b"") + subject[start : start + 40_000])
        peer.send(b" 1\r\n")
        publisher.send(message(subject, b"hello"))
        assert peer.payloads() == [b"hello"]


def test_the_control_line_limit_can_change_between_polls(bench: Bench) -> None:
    peer = bench.connect()
    peer.send(b"SUB half")
    bench.hub.max_control_line = 100_000
    peer.send(b"s" * 90_000 + b" 1\r\n")
    bench.hub.max_control_line = 20
    assert bench.hub.max_control_line == 20
    peer.send(b"SUB fits 2\r\nSUB this.does.not.fit.any.more 3\r\n")
    assert peer.owner.violations() == ["control_line"]
    assert [event[3] for event in peer.owner.events if event[0] == "subscribe"] == [b"1", b"2"]


def test_a_violation_shows_nothing_but_what_the_peer_sent() -> None:
    with bench(max_control_line=100) as small:
        small.connect().send(message(b"foo", b"the secret of somebody else" * 20))
        peer = small.attach()
        peer.send(b"SUB " + b"s" * 110)
        ((_, kind, detail),) = peer.owner.events
        assert kind == "control_line"
        assert detail == b"SUB"


@pytest.mark.parametrize("operation", [b"PUB", b"SUB", b"HPUB", b"CONNECT", b"UNSUB"])
def test_spaces_after_an_operation_are_not_kept(bench: Bench, operation: bytes) -> None:
    """They count towards no limit, so they must not count towards the memory either."""
    peer = bench.connect()
    peer.send(operation)
    for _ in range(20):
        peer.send(b" " * 50_000)
    assert peer.owner.closed is None
    peer.send(b"PING\r\n" if operation == b"CONNECT" else b"foo 0\r\n")


@pytest.mark.parametrize("operation", [b"PUB", b"SUB", b"HPUB", b"CONNECT"])
def test_many_spaces_before_a_line_that_is_cut_do_not_overrun_the_headroom(
    bench: Bench, operation: bytes
) -> None:
    subscriber, peer = bench.subscriber(b"foo"), bench.connect()
    line = operation + b" " * 150_000 + {b"CONNECT": b"{}", b"HPUB": b"foo 0 1"}.get(operation, b"foo 1")
    peer.send(line[:-1])
    peer.send(line[-1:] + b"\r\n")
    if operation in (b"PUB", b"HPUB"):
        peer.send(b"x\r\n")
        assert subscriber.payloads() == [b"x"]
    assert peer.ask(b"PING\r\n").endswith(b"PONG\r\n")


@pytest.mark.parametrize(
    "line",
    [
        b"PUB\r\n",
        b"SUB\r\n",
        b"UNSUB\r\n",
        b"HPUB\r\n",
        b"PUBX foo 1\r\n",
        b"MSG foo 1 1\r\n",
        b"\r\n",
        b" PING\r\n",
        b"QUIT\r\n",
        b"\x00",
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\x00",
    ],
)
def test_what_is_no_operation_is_a_parse_violation(bench: Bench, line: bytes) -> None:
    peer = bench.connect()
    peer.send(line + b"PING\r\n")
    assert peer.owner.violations() == ["parse"]
    assert peer.receive_all() == b"-ERR 'parse'\r\n"


@pytest.mark.parametrize(
    "line", [b"SUB \r\n", b"SUB a\r\n", b"SUB a b c d\r\n", b"UNSUB \r\n", b"UNSUB 1 2 3\r\n", b"PUB a\r\n"]
)
def test_a_wrong_number_of_arguments_closes(bench: Bench, line: bytes) -> None:
    peer = bench.connect()
    peer.send(line)
    assert peer.owner.violations() == ["arguments"]


def test_operations_are_read_in_any_case(bench: Bench) -> None:
    peer = bench.connect()
    answer = peer.ask(
        b"sUb foo 1\r\npub foo 1\r\nx\r\nhPuB foo 0 1\r\ny\r\nping\r\npOnG\r\n+ok\r\nunsub 1\r\n"
    )
    assert answer == b"MSG foo 1 1\r\nx\r\nMSG foo 1 1\r\ny\r\nPONG\r\n"
    assert [event[0] for event in peer.owner.events] == ["subscribe", "first ping", "pong", "unsubscribe"]

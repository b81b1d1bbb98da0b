"""Long messages to receivers with sids of their own: each gets its heads and everybody's bodies, in order.

Whatever the sockets accept, and whatever comes in between: these are compared byte for byte.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.core.harness import Bench, Peer, bench, message

SIZES = [0, 1, 63, 64, 65, 1000, 4075, 4080, 4085, 5000, 65_536]  # together less than publishers wait for
MORE_THAN_PIECES = 1100
MORE_THAN_BODIES = 9000
MORE_THAN_THE_ARENA = 1200


def frame(subject: bytes, sid: int, payload: bytes) -> bytes:
    return b"MSG %b %d %d\r\n%b\r\n" % (subject, sid, len(payload), payload)


def subscribers(made: Bench, sids: list[int], buffer_bytes: int = 0) -> list[Peer]:
    found = []
    for sid in sids:
        peer = made.connect(buffer_bytes=buffer_bytes)
        peer.send(b"SUB a %d\r\n" % sid)
        found.append(peer)
    return found


@settings(max_examples=60)
@given(
    sids=st.lists(st.sampled_from([1, 2, 33, 444]), min_size=2, max_size=6),
    sizes=st.lists(st.sampled_from(SIZES), max_size=12),
    buffer_bytes=st.sampled_from([0, 2048, 20_000]),
    pings=st.sets(st.integers(0, 11)),
    others=st.sets(st.integers(0, 11)),
)
def test_receivers_get_their_heads_and_the_same_bodies(
    sids: list[int], sizes: list[int], buffer_bytes: int, pings: set[int], others: set[int]
) -> None:
    """Some of them send a PING in between, whose answer must not be inside of anything."""
    with bench() as made:
        receivers = subscribers(made, sids, buffer_bytes)
        for peer in receivers:
            peer.send(b"SUB b 7\r\n")
        receivers[0].send(b"SUB c 8\r\n")
        receivers[1].send(b"SUB c 99\r\n")
        publisher = made.connect()
        expected = [b""] * len(sids)
        got = [b""] * len(sids)
        for number, size in enumerate(sizes):
            payload = bytes([65 + number]) * size
            publisher.send(message(b"a", payload))
            expected = [had + frame(b"a", sid, payload) for had, sid in zip(expected, sids, strict=True)]
            if number in pings:
                receivers[0].send(b"PING\r\n")
                expected[0] += b"PONG\r\n"
            if number in others:  # to all under one sid, then to two of them
                publisher.send(message(b"b", payload) + message(b"c", payload))
                expected = [had + frame(b"b", 7, payload) for had in expected]
                expected[:2] = [
                    had + frame(b"c", sid, payload) for had, sid in zip(expected[:2], (8, 99), strict=True)
                ]
            if number % 3 == 0:
                got = [had + peer.receive() for had, peer in zip(got, receivers, strict=True)]
        # Publishers wait for the slowest of them, so it takes turns.
        while any(more := [peer.receive_all() for peer in receivers]):
            got = [had + new for had, new in zip(got, more, strict=True)]
        assert got == expected


def test_more_than_a_receiver_can_note_and_the_arena_can_hold() -> None:
    with bench() as made:
        receivers = subscribers(made, [1, 22, 333])
        publisher = made.connect()
        for count, size in ((MORE_THAN_BODIES, 4), (MORE_THAN_THE_ARENA, 1000), (5, 500_000)):
            payloads = [b"%06d" % number + b"." * size for number in range(count)]
            publisher.send(b"".join(message(b"a", payload) for payload in payloads))
            for peer, sid in zip(receivers, (1, 22, 333), strict=True):
                assert peer.receive_all() == b"".join(frame(b"a", sid, payload) for payload in payloads)


def test_messages_to_two_subjects_in_turn_stay_in_order() -> None:
    """Each is a piece of its own then, and a receiver can note only some."""
    with bench() as made:
        receivers = subscribers(made, [1, 22])
        for number, peer in enumerate(receivers):
            peer.send(b"SUB b 3%d\r\n" % number)
        publisher = made.connect()
        payloads = [b"%06d" % number for number in range(MORE_THAN_PIECES)]
        publisher.send(b"".join(message(b"a", payload) + message(b"b", payload) for payload in payloads))
        for number, (peer, sid) in enumerate(zip(receivers, (1, 22), strict=True)):
            assert peer.receive_all() == b"".join(
                frame(b"a", sid, payload) + frame(b"b", 30 + number, payload) for payload in payloads
            )


def test_one_connection_gets_each_message_under_all_its_sids_before_the_next() -> None:
    with bench() as made:
        peer = made.connect()
        for sid in (1, 22, 333):
            peer.send(b"SUB a %d\r\n" % sid)
        publisher = made.connect()
        payloads = [b"%06d" % number for number in range(MORE_THAN_PIECES)]
        publisher.send(b"".join(message(b"a", payload) for payload in payloads))
        got = peer.receive_all()
        for payload in payloads:
            frames = {frame(b"a", sid, payload) for sid in (1, 22, 333)}
            length = sum(map(len, frames))
            assert {
                part + b"\r\n%b\r\n" % payload for part in got[:length].split(b"\r\n%b\r\n" % payload)[:-1]
            } == frames
            got = got[length:]
        assert got == b""


@settings(max_examples=60)
@given(
    sizes=st.lists(st.sampled_from(SIZES), max_size=12),
    sids=st.lists(st.sampled_from([1, 22, 333, 10**70]), min_size=2, max_size=4, unique=True),
    headers=st.booleans(),
    maximum=st.sampled_from([0, 3]),
    buffer_bytes=st.sampled_from([0, 2048]),
)
def test_all_subscriptions_of_one_connection_get_every_message(
    sizes: list[int], sids: list[int], headers: bool, maximum: int, buffer_bytes: int
) -> None:
    """The first of them may end after three messages."""
    with bench() as made:
        peer = made.connect(buffer_bytes=buffer_bytes)
        for sid in sids:
            peer.send(b"SUB a %d\r\n" % sid)
        if maximum:
            peer.send(b"UNSUB %d %d\r\n" % (sids[0], maximum))
        publisher = made.connect()
        block = b"NATS/1.0\r\nA: b\r\n\r\n" if headers else b""
        expected, got = [], b""
        for number, size in enumerate(sizes):
            payload = bytes([65 + number]) * size
            sizes_text = b"%d %d" % (len(block), len(block) + size) if headers else b"%d" % size
            rest = b"%b\r\n%b%b\r\n" % (sizes_text, block, payload)
            letter = b"H" if headers else b""
            publisher.send(letter + b"PUB a " + rest)
            who = sids[1:] if maximum and number >= maximum else sids
            expected += [letter + b"MSG a %d " % sid + rest for sid in who]
            got += peer.receive()
        got += peer.receive_all()
        assert len(got) == sum(map(len, expected))
        for frame_expected in expected:  # a subscription that ends may change the order of the others
            assert frame_expected in got
        assert peer.link.out_msgs == len(expected)


def test_a_receiver_that_reads_nothing_gets_everything_later() -> None:
    with bench() as made:
        slow, fast = subscribers(made, [1, 2], buffer_bytes=4096)
        publisher = made.connect()
        payloads = [b"%03d" % number + b"." * 900 for number in range(200)]
        received = b""
        for payload in payloads:
            publisher.send(message(b"a", payload))
            received += fast.receive()
        assert received + fast.receive_all() == b"".join(frame(b"a", 2, payload) for payload in payloads)
        assert slow.receive_all() == b"".join(frame(b"a", 1, payload) for payload in payloads)
        assert slow.link.pending_bytes == fast.link.pending_bytes == 0


def test_a_receiver_that_leaves_in_the_middle_disturbs_nobody() -> None:
    with bench() as made:
        leaving, staying = subscribers(made, [1, 2])
        publisher = made.connect()
        payloads = [b"%03d" % number + b"." * 900 for number in range(MORE_THAN_PIECES)]
        publisher.send_some(b"".join(message(b"a", payload) for payload in payloads[:100]))
        leaving.socket.close()
        made.settle()
        publisher.send(b"".join(message(b"a", payload) for payload in payloads[100:]))
        assert staying.receive_all() == b"".join(frame(b"a", 2, payload) for payload in payloads)

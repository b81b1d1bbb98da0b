"""Encoding rows and settling acknowledgements, with a socket pair whose other end plays the server."""

from __future__ import annotations

import random
import re
import socket
import struct
from collections.abc import Iterator, Sequence

import pytest

from headrace.client.flight import Flight
from headrace.client.frames import ConnectionEnded, Frames
from headrace.client.outgoing import BadRow, Offsets, Outgoing, TextColumn

SID = 2


def texts(values: Sequence[str | bytes | None]) -> TextColumn:
    """An Arrow column, put together by hand."""
    encoded = [value.encode() if isinstance(value, str) else value for value in values]
    ends = [0]
    for value in encoded:
        ends.append(ends[-1] + len(value or b""))
    return TextColumn(
        len(values), 0, validity(values), offsets(ends), b"".join(value or b"" for value in encoded)
    )


def offsets(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"{len(numbers)}i", *numbers)


def validity(values: Sequence[object]) -> bytes:
    bits = sum((value is not None) << place for place, value in enumerate(values))
    return bits.to_bytes(len(values) // 8 + 1, "little")


def rows(count: int, start: int = 0) -> Outgoing:
    return Outgoing(count, b"s.a", texts([f"{start + row}" for row in range(count)]),
                    msg_ids=texts([f"id{start + row}" for row in range(count)]))  # fmt: skip


def ack(number: int, body: bytes = b'{"stream":"S", "seq":1}') -> bytes:
    return b"MSG in.%d %d %d\r\n%b\r\n" % (number, SID, len(body), body)


class Peer:
    """The other end: reads frames, and answers as the test says."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.theirs.settimeout(5)
        self.frames = Frames()
        self.frames.attach(self.ours.fileno())

    def received(self) -> bytes:
        self.theirs.setblocking(False)
        taken = b""
        try:
            while piece := self.theirs.recv(1 << 20):
                taken += piece
        except BlockingIOError:
            pass
        return taken

    def answer(self, number: int, body: bytes = b'{"stream":"S", "seq":1}') -> None:
        self.theirs.sendall(ack(number, body))

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


def test_frames_with_and_without_headers(peer: Peer) -> None:
    flight = Flight(SID, b"in.")
    flight.add(
        Outgoing(
            3,
            texts(["a", "b.c", "d"]),
            texts([b"\x00\r\n", None, "x"]),
            header_lists=Offsets(3, 0, validity([1, None, 1]), offsets([0, 2, 2, 3])),
            keys=texts(["k", "k", "Nats-Msg-Id"]),
            values=texts(["v", None, "old"]),
            msg_ids=texts([None, None, "new"]),
        )
    )
    assert flight.run(peer.frames, 1.0, False) is None
    assert peer.received() == (
        b"HPUB a in.0 23 26\r\nNATS/1.0\r\nk: v\r\nk: \r\n\r\n\x00\r\n\r\n"
        b"PUB b.c in.1 0\r\n\r\n"
        b"HPUB d in.2 30 31\r\nNATS/1.0\r\nNats-Msg-Id: new\r\n\r\nx\r\n"
    )


def test_no_more_than_the_limit_is_in_flight(peer: Peer) -> None:
    flight = Flight(SID, b"in.", limit=8)
    flight.add(rows(100))
    acked = 0
    while not flight.sent or flight.in_flight:
        flight.run(peer.frames, 0.0, True)
        assert flight.in_flight <= 8
        for number in re.findall(rb"HPUB s\.a in\.(\d+) ", peer.received()):
            assert int(number) == acked
            peer.answer(acked)
            acked += 1
    assert (flight.acked, acked) == (100, 100)


def test_acknowledgements_in_any_order(peer: Peer) -> None:
    flight = Flight(SID, b"in.", limit=64)
    flight.add(rows(64))
    flight.run(peer.frames, 0.0, False)
    numbers = list(range(64))
    random.Random(1).shuffle(numbers)
    # Twice: the second is ignored.
    peer.theirs.sendall(b"".join(ack(number) * 2 for number in numbers))
    assert flight.run(peer.frames, 1.0, True) is None
    assert (flight.acked, flight.in_flight, flight.duplicates) == (64, 0, 0)


def test_one_that_is_late_does_not_let_the_others_run_away(peer: Peer) -> None:
    flight = Flight(SID, b"in.", limit=4)
    flight.add(rows(100))
    for _ in range(50):
        flight.run(peer.frames, 0.0, False)
        for number in re.findall(rb"HPUB s\.a in\.(\d+) ", peer.received()):
            if number != b"0":
                peer.answer(int(number))
    assert flight.in_flight == 1
    assert not flight.sent
    peer.answer(0)
    flight.run(peer.frames, 0.0, False)
    assert peer.received()


@pytest.mark.parametrize(
    ("body", "acked", "duplicates", "failed"),
    [
        (b'{"stream":"S","seq":1}', 1, 0, 0),
        (b' { "seq" : 1 , "stream" : "S" } ', 1, 0, 0),
        (b'{"stream":"S", "domain":"d","seq":1,"duplicate": true}', 1, 1, 0),
        (b'{"duplicate":false,"x":{"error":[1,{"}":"\\""}]},"stream":"S","seq":12}', 1, 0, 0),
        (b'{"error":null,"stream":"S","seq":1}', 1, 0, 0),
        (b'{"error":{"code":400,"err_code":1,"description":"no"},"stream":"S","seq":0}', 0, 0, 1),
        (b'{"stream":"T","seq":1}', 0, 0, 1),
        (b'{"stream":"S"}', 0, 0, 1),
        (b'{"stream":"S","seq":x}', 0, 0, 1),
        (b'{"stream":"S","seq":', 0, 0, 1),
        (b'{"stream":"S', 0, 0, 1),
        (b"-ERR 'no'", 0, 0, 1),
        (b"", 0, 0, 1),
        (b"{", 0, 0, 1),
        (b'{"\\', 0, 0, 1),
    ],
)
def test_answers(peer: Peer, body: bytes, acked: int, duplicates: int, failed: int) -> None:
    flight = Flight(SID, b"in.", stream=b"S")
    flight.add(rows(1))
    flight.run(peer.frames, 0.0, False)
    peer.answer(0, body)
    flight.run(peer.frames, 1.0, True)
    assert (flight.acked, flight.duplicates, len(flight.failures)) == (acked, duplicates, failed)
    assert flight.in_flight == failed
    if failed:
        assert flight.failures == [(0, b"", body)]
        assert flight.subject(0) == b"s.a"


def test_nobody_listens(peer: Peer) -> None:
    flight = Flight(SID, b"in.")
    flight.add(rows(1))
    flight.run(peer.frames, 0.0, False)
    peer.theirs.sendall(b"HMSG in.0 2 16 16\r\nNATS/1.0 503\r\n\r\n\r\n")
    flight.run(peer.frames, 1.0, True)
    assert flight.failures == [(0, b"NATS/1.0 503\r\n\r\n", b"")]


def test_answers_to_what_nobody_asked_are_ignored(peer: Peer) -> None:
    flight = Flight(SID, b"in.")
    flight.add(rows(2))
    flight.run(peer.frames, 0.0, False)
    for subject in (b"in.2", b"in.x", b"in.", b"i", b"in.-1", b"in.99999999999999999999"):
        peer.theirs.sendall(b"MSG %b 2 2\r\n{}\r\n" % subject)
    assert flight.run(peer.frames, 0.05, True) is None
    assert (flight.in_flight, flight.failures) == (2, [])


def test_other_frames_are_events(peer: Peer) -> None:
    flight = Flight(SID, b"in.")
    flight.add(rows(1))
    peer.theirs.sendall(b"+OK\r\n")
    event = flight.run(peer.frames, 1.0, False)
    assert event is not None
    assert event.kind == "+OK"
    assert flight.run(peer.frames, 1.0, False) is None
    assert flight.sent


def test_what_waits_is_sent_again_on_a_new_connection(peer: Peer) -> None:
    flight = Flight(SID, b"in.", limit=10)
    flight.add(rows(6))
    flight.run(peer.frames, 0.0, False)
    for number in (1, 4):
        peer.answer(number)
    flight.run(peer.frames, 0.05, True)
    peer.theirs.close()
    with pytest.raises(ConnectionEnded):
        flight.run(peer.frames, 1.0, True)
    assert flight.resend() == 0
    other = Peer()
    assert not flight.sent
    flight.run(other.frames, 0.0, False)
    assert re.findall(rb"in\.(\d)", other.received()) == [b"0", b"2", b"3", b"5"]
    for number in (0, 2, 3, 5):
        other.answer(number)
    flight.run(other.frames, 1.0, True)
    assert (flight.acked, flight.in_flight) == (6, 0)
    other.close()


def test_messages_without_an_id_are_counted_before_they_are_sent_again(peer: Peer) -> None:
    flight = Flight(SID, b"in.")
    headers = Offsets(3, 0, None, offsets([0, 1, 2, 2]))
    keys, values = texts(["other", "Nats-Msg-Id"]), texts(["x", "y"])
    flight.add(Outgoing(3, b"a", texts(["1", "2", "3"]), header_lists=headers, keys=keys, values=values))
    flight.run(peer.frames, 0.0, False)
    assert flight.resend() == 2


def test_one_message_is_sent_again(peer: Peer) -> None:
    flight = Flight(SID, b"in.")
    flight.add(rows(5))
    flight.run(peer.frames, 0.0, False)
    peer.received()
    flight.retry(3)
    flight.run(peer.frames, 0.0, False)
    assert re.findall(rb"in\.(\d)", peer.received()) == [b"3"]
    for number in (5, -1):
        with pytest.raises(KeyError):
            flight.retry(number)


def test_a_socket_that_takes_little_at_a_time(peer: Peer) -> None:
    peer.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    flight = Flight(SID, b"")
    payloads = [random.Random(row).randbytes(5000) for row in range(200)]
    flight.add(Outgoing(200, b"s.a", texts(payloads)))
    received = b""
    while not flight.sent:
        flight.run(peer.frames, 0.0, False)
        received += peer.received()
    received += peer.received()
    assert received == b"".join(b"PUB s.a 5000\r\n%b\r\n" % payload for payload in payloads)


def test_rows_before_must_be_sent(peer: Peer) -> None:
    flight = Flight(SID, b"in.", limit=1)
    flight.add(rows(2))
    flight.run(peer.frames, 0.0, False)
    with pytest.raises(ValueError, match="not sent"):
        flight.add(rows(2))


@pytest.mark.parametrize(
    ("length", "first", "valid", "numbers", "data"),
    [
        (2, 0, None, [0, 1], b"ab"),
        (2, 1, None, [0, 1, 2], b"ab"),
        (1, 0, None, [0, 3], b"ab"),
        (2, 0, None, [0, 2, 1], b"ab"),
        (1, 0, None, [-1, 1], b"ab"),
        (9, 0, b"x", list(range(10)), b"abcdefghi"),
        (-1, 0, None, [0], b""),
        (1, 0, None, [0, 1], None),
    ],
)
def test_arrays_that_point_outside_of_their_buffers(
    length: int, first: int, valid: bytes | None, numbers: list[int], data: bytes | None
) -> None:
    with pytest.raises(ValueError, match=r"array|offsets"):
        TextColumn(length, first, valid, offsets(numbers), data)


def test_columns_that_do_not_belong_together() -> None:
    with pytest.raises(ValueError, match="length"):
        Outgoing(2, b"a", texts(["1"]))
    with pytest.raises(ValueError, match="as many keys as values"):
        Outgoing(1, b"a", texts(["1"]), header_lists=Offsets(1, 0, None, offsets([0, 1])), keys=texts(["k"]))
    with pytest.raises(ValueError, match="outside"):
        Outgoing(
            1,
            b"a",
            texts(["1"]),
            header_lists=Offsets(1, 0, None, offsets([0, 2])),
            keys=texts(["k"]),
            values=texts(["v"]),
        )


def test_a_row_that_is_too_large() -> None:
    outgoing = Outgoing(2, b"a", texts(["1", "1"]), msg_ids=texts([None, "i"]))
    with pytest.raises(BadRow, match="row 1: the message is larger"):
        outgoing.check(28)
    outgoing.check(29)


def test_a_ping_is_answered_between_frames_while_the_socket_is_slow(peer: Peer) -> None:
    """The answer went to the socket at once, also into the middle of a message that it had taken in part."""
    count, size = 40, 50_000
    flight = Flight(SID, b"")
    flight.add(Outgoing(count, b"s.a", texts([b"%d " % row * (size // 2) for row in range(count)])))
    assert flight.run(peer.frames, 0.05, False) is None  # nobody reads: a part of a frame is written
    assert not flight.sent
    peer.theirs.sendall(b"PING\r\n")
    assert flight.run(peer.frames, 0.05, False) is None
    received = b""
    while not flight.sent:
        received += peer.received()
        flight.run(peer.frames, 0.01, False)
    received += peer.received()
    sizes = [len(b"%d " % row * (size // 2)) for row in range(count)]
    frames = [b"PUB s.a %d\r\n%b\r\n" % (sizes[row], b"%d " % row * (size // 2)) for row in range(count)]
    before, pong, after = received.partition(b"PONG\r\n")
    assert pong
    assert before + after == b"".join(frames)
    assert before in [b"".join(frames[:place]) for place in range(count + 1)]

"""Nonsense in, no crash out: random bytes, mutated frames and random cuts, from several peers at once.

A few hundred of each here; a hundred thousand with `make test-long`, and more with the fuzzers of tests/fuzz.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.core.harness import Bench, bench

SOME = 700
CONNECT = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
PIECES = [
    b"PUB ",
    b"pub\t",
    b"HPUB ",
    b"SUB ",
    b"UNSUB ",
    b"CONNECT {}\r\n",
    CONNECT,
    b"PING\r\n",
    b"PONG\r\n",
    b"+OK\r\n",
    b"-ERR 'x'\r\n",
    b"INFO {}\r\n",
    b"HMSG ",
    b"a",
    b"a.b",
    b"*",
    b">",
    b"..",
    b" ",
    b"\t",
    b"   ",
    b"\r\n",
    b"\n",
    b"\r",
    b"0",
    b"1",
    b"5",
    b"12",
    b"100000",
    b"999999999",
    b"9999999999",
    b"-1",
    b"hello",
    b"NATS/1.0\r\n\r\n",
    b"SUB a 1\r\n",
    b"SUB > 2\r\n",
    b"SUB a.* q 3\r\n",
    b"UNSUB 1 2\r\n",
    b"PUB a 5\r\nhello\r\n",
    b"PUB a r 5\r\nhello\r\n",
    b"PUB  a  r  5 \nhello\r\n",
    b"HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    b"HPUB a r 0 2\r\nhi\r\n",
    b"PUB $NRG.x 0\r\n\r\n",
    b"PUB a _R_.x 0\r\n\r\n",
    b"x" * 5000,
    b" " * 3000,
]
STREAMS = st.lists(st.sampled_from(PIECES) | st.binary(max_size=8), max_size=25).map(b"".join)
CUTS = st.lists(st.integers(1, 400), min_size=1, max_size=10)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Good frames with a few bytes changed, taken out or put in."""
    good = [piece for piece in PIECES if piece.endswith(b"\r\n")]
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(good), min_size=1, max_size=12))))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data)


def feed(made: Bench, streams: list[bytes], cuts: list[int]) -> None:
    """Send the streams in turns, cut as told, then see that the hub is as alive as before."""
    watcher = made.subscriber(b">", b"a")
    peers = [made.attach() for _ in streams]
    for peer in peers[1:]:
        peer.send(CONNECT)
    places = [0] * len(streams)
    turn = 0
    while any(place < len(stream) for place, stream in zip(places, streams, strict=True)):
        for number, stream in enumerate(streams):
            size = cuts[turn % len(cuts)]
            peers[number].send_some(stream[places[number] : places[number] + size])
            places[number] += size
        turn += 1
        made.settle()
    watcher.frames()  # raises if what arrives is not what a server sends
    for peer in peers:
        peer.frames()
        assert peer.owner.bugs == []
        peer.socket.close()
    made.settle()
    assert len(made.hub.links) == 1
    assert made.interest.count == 2
    assert watcher.ask(b"PING\r\n") == b"PONG\r\n"


def check(streams: list[bytes], cuts: list[int]) -> None:
    with bench(max_payload=20_000, max_control_line=4096) as made:
        feed(made, streams, cuts)


@settings(max_examples=SOME, deadline=None)
@given(streams=st.lists(STREAMS, min_size=1, max_size=3), cuts=CUTS)
def test_operations_in_pieces(streams: list[bytes], cuts: list[int]) -> None:
    check(streams, cuts)


@settings(max_examples=SOME, deadline=None)
@given(streams=st.lists(mutated(), min_size=1, max_size=3), cuts=CUTS)
def test_mutated_frames(streams: list[bytes], cuts: list[int]) -> None:
    check(streams, cuts)


@settings(max_examples=SOME, deadline=None)
@given(stream=st.binary(max_size=200), cuts=CUTS)
def test_random_bytes(stream: bytes, cuts: list[int]) -> None:
    check([stream], cuts)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=100_000, deadline=None)
@given(streams=st.lists(STREAMS | mutated() | st.binary(max_size=300), min_size=1, max_size=4), cuts=CUTS)
def test_everything_for_long(streams: list[bytes], cuts: list[int]) -> None:
    check(streams, cuts)

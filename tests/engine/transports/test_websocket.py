"""WebSocket around a link: however frames are cut, masked and delivered, the link sees the plain protocol."""

from __future__ import annotations

import random
import socket
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.core.transport import SocketTransport, Transport
from headrace.engine.transports.websocket import WebSocketTransport
from tests import websockets as ws
from tests.engine.core.harness import Bench, Peer, bench, message

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
MAX_PAYLOAD = 20_000


class Client:
    """A peer that speaks WebSocket."""

    def __init__(self, made: Bench, buffer_bytes: int = 0, **options: Any) -> None:
        self.failures: list[str] = []
        self.decoder = ws.Decoder()
        options.setdefault("max_payload", MAX_PAYLOAD)
        wrap = partial(wrapped, on_failure=self.failures.append, **options)
        self.peer = made.attach(buffer_bytes=buffer_bytes, wrap=wrap)
        self.wire = b""  # all that has arrived

    def send(self, data: bytes) -> None:
        self.peer.send(data)

    def receive(self) -> bytes:
        received = self.peer.receive_all()
        self.wire += received
        return self.decoder.decode(received)

    def ask(self, data: bytes) -> bytes:
        self.send(data)
        return self.receive()

    @property
    def closed(self) -> str | None:
        return self.peer.owner.closed

    @property
    def goodbye(self) -> bytes:
        """The payload of the close frame, which is the last frame."""
        last = self.decoder.control[-1]
        assert last.opcode == ws.CLOSE
        assert ws.split_frames(self.wire)[0][-1] == last
        return last.payload


def wrapped(descriptor: int, **options: Any) -> Transport:
    return WebSocketTransport(SocketTransport(descriptor), **options)


@contextmanager
def room() -> Iterator[Bench]:
    with bench(max_payload=MAX_PAYLOAD) as made:
        yield made


OPERATIONS = st.lists(
    st.one_of(
        st.just(b"PING\r\n"),
        st.builds(message, st.sampled_from([b"a", b"b.c"]), st.binary(max_size=300)),
        st.builds(message, st.just(b"a"), st.binary(min_size=4000, max_size=9000)),
        st.builds(lambda sid: b"SUB a %d\r\n" % sid, st.integers(1, 3)),
        st.just(b"UNSUB 2\r\n"),
        st.just(b"nonsense\r\n"),
    ),
    max_size=12,
).map(b"".join)


def plain_transcript(data: bytes) -> tuple[list[Any], bytes, str | None]:
    with room() as made:
        peer: Peer = made.attach()
        peer.send(CONNECT + data)
        return peer.owner.events, peer.receive_all(), peer.owner.closed


def cut_into_frames(data: bytes, chance: random.Random, deflates: bool) -> bytes:
    """Any messages, of any frames, with any masks, with control frames in between."""
    frames = []
    while data:
        size = chance.choice([1, 3, 125, 126, 1000, 65535, 70000, len(data)])
        taken, data = data[:size], data[size:]
        rsv = 0
        if deflates and chance.random() < 0.6 and len(taken) <= MAX_PAYLOAD:
            taken, rsv = ws.deflate(taken, chance.randrange(10)), ws.RSV1
        pieces = [taken]
        while chance.random() < 0.6:
            at = chance.randrange(len(pieces[-1]) + 1)
            pieces[-1:] = [pieces[-1][:at], pieces[-1][at:]]
        for place, piece in enumerate(pieces):
            opcode = ws.CONTINUATION if place else chance.choice([ws.BINARY, ws.TEXT])
            last = place == len(pieces) - 1
            frames.append(ws.frame(piece, opcode, fin=last, rsv=0 if place else rsv, key=chance.randbytes(4)))
            if chance.random() < 0.3:
                control = chance.choice([ws.PING, ws.PONG])
                frames.append(ws.frame(chance.randbytes(chance.choice([0, 5, 125])), control))
    return b"".join(frames)


def deliver(client: Client, data: bytes, chance: random.Random) -> None:
    """In pieces of any size, down to a byte at a time."""
    longest = chance.choice([1, 2, 7, 100, 5000, 1 << 20])
    if longest < 7:
        longest = max(longest, len(data) // 3000)
    while data:
        size = chance.randint(1, longest)
        client.send(data[:size])
        data = data[size:]


@given(OPERATIONS, st.integers(0, 2**32), st.booleans(), st.sampled_from([0, 4096]))
@settings(deadline=None, max_examples=150)
def test_any_frames_equal_the_plain_protocol(data: bytes, seed: int, deflates: bool, limit: int) -> None:
    events, heard, closed = plain_transcript(data)
    chance = random.Random(seed)
    with room() as made:
        client = Client(made, deflates=deflates, frame_limit=limit)
        deliver(client, cut_into_frames(CONNECT + data, chance, deflates), chance)
        answer = client.receive()
        asked = client.peer.owner.events
        # How much of a mistake has arrived when it is noticed depends on the cut.
        assert [event[:2] for event in asked] == [event[:2] for event in events]
        assert client.closed == closed
        if "nonsense" not in repr(data):
            assert answer == heard
        assert client.failures == []


@given(st.binary(min_size=1, max_size=200_000), st.integers(0, 2**32), st.integers(0, 2))
@settings(deadline=None, max_examples=25)
def test_a_socket_that_is_full_anywhere_gets_every_byte_once(payload: bytes, seed: int, kind: int) -> None:
    """Also in the middle of a head: a small buffer, read in small and odd portions."""
    chance = random.Random(seed)
    payload = payload * (1 + 300_000 // len(payload)) if chance.random() < 0.5 else payload
    options = [{}, {"frame_limit": 4096}, {"deflates": True}][kind]
    with bench(max_payload=1 << 20) as made:
        client = Client(made, buffer_bytes=2048, max_payload=1 << 20, **options)
        client.send(ws.frame(CONNECT + b"SUB x 1\r\n"))
        publisher = made.connect()
        frames = [message(b"x", payload[at : at + 5000]) for at in range(0, len(payload), 5000)]
        for place, publish in enumerate(frames):
            publisher.send(publish)
            if place % 7 == 0:
                client.send(ws.frame(b"%d" % place, ws.PING))
            client.wire += client.peer.receive(chance.choice([1, 2, 3, 9, 13, 500, 4097]))
            made.settle()
        client.wire += client.peer.receive_all()
        expected = b"".join(
            b"MSG x 1 %d\r\n%b\r\n" % (len(part), part)
            for part in (payload[at : at + 5000] for at in range(0, len(payload), 5000))
        )
        assert client.decoder.decode(client.wire) == expected
        pongs = [int(frame.payload) for frame in client.decoder.control]
        assert pongs == sorted(pongs)
        assert pongs == list(range(0, len(frames), 7))


def test_the_bytes_of_a_tick_are_one_frame_without_a_mask() -> None:
    with room() as made:
        client = Client(made)
        assert client.ask(ws.frame(CONNECT + b"PING\r\nPING\r\nSUB a 1\r\nPUB a 2\r\nhi\r\n"))
        frames, rest = ws.split_frames(client.wire)
        assert rest == b""
        assert frames == [ws.Frame(ws.BINARY, b"PONG\r\nPONG\r\nMSG a 1 2\r\nhi\r\n")]


@pytest.mark.parametrize("size", [125, 126, 127, 65535, 65536, 70000])
def test_lengths_are_written_in_the_shortest_form(size: int) -> None:
    with bench() as made:
        client = Client(made, max_payload=1 << 20)
        client.send(ws.frame(CONNECT + b"SUB a 1\r\n"))
        payload = b"x" * (size - len(b"MSG a 1 \r\n\r\n") - 5)
        while len(b"MSG a 1 %d\r\n\r\n" % len(payload)) + len(payload) < size:
            payload += b"x"
        client.ask(ws.frame(message(b"a", payload)))
        head = {True: 2, False: 4 if size < 65536 else 10}[size < 126]
        assert len(client.wire) == size + head
        assert ws.split_frames(client.wire)[0][0].payload.endswith(payload + b"\r\n")


def test_browsers_get_short_frames() -> None:
    with room() as made:
        client = Client(made, frame_limit=4096)
        client.send(ws.frame(CONNECT + b"SUB a 1\r\n"))
        assert (
            client.ask(ws.frame(message(b"a", b"x" * 10_000)))
            == b"MSG a 1 10000\r\n" + b"x" * 10_000 + b"\r\n"
        )
        frames, _ = ws.split_frames(client.wire)
        assert [len(frame.payload) for frame in frames] == [4096, 4096, 1825]
        assert all(frame.fin and frame.opcode == ws.BINARY for frame in frames)


@pytest.mark.parametrize("splits", [True, False])
def test_compressed_messages_for_browsers_are_fragmented_unless_they_cannot_take_that(splits: bool) -> None:
    payload = random.Random(1).randbytes(9000)
    with room() as made:
        client = Client(made, frame_limit=4096, deflates=True, splits_deflated=splits)
        client.send(ws.frame(CONNECT + b"SUB a 1\r\n"))
        assert client.ask(ws.frame(message(b"a", payload))) == b"MSG a 1 9000\r\n" + payload + b"\r\n"
        frames, _ = ws.split_frames(client.wire)
        assert [frame.fin for frame in frames] == ([False, False, True] if splits else [True])
        assert [frame.rsv for frame in frames] == [ws.RSV1, 0, 0][: len(frames)]


def test_only_more_than_64_bytes_are_compressed() -> None:
    with room() as made:
        client = Client(made, deflates=True)
        client.send(ws.frame(CONNECT + b"SUB a 1\r\n"))
        for size in (50, 51):
            client.ask(ws.frame(message(b"a", b"x" * size)))
        frames, _ = ws.split_frames(client.wire)
        assert [frame.rsv for frame in frames] == [0, ws.RSV1]
        assert ws.inflate(frames[1].payload) == b"MSG a 1 51\r\n" + b"x" * 51 + b"\r\n"


def test_a_ping_is_answered_between_two_fragments() -> None:
    with room() as made:
        client = Client(made)
        client.send(ws.frame(CONNECT[:10], fin=False))
        assert client.ask(ws.frame(b"are you there?", ws.PING)) == b""
        assert client.decoder.control == [ws.Frame(ws.PONG, b"are you there?")]
        assert client.ask(ws.frame(CONNECT[10:] + b"PING\r\n", ws.CONTINUATION)) == b"PONG\r\n"


RULES = {
    "RSV2 and RSV3 must be clear": [ws.frame(b"", rsv=ws.RSV2), ws.frame(b"", rsv=ws.RSV3)],
    "compressed frame received without negotiated permessage-deflate": [ws.frame(b"", rsv=ws.RSV1)],
    "mask bit missing": [ws.frame(b"PING\r\n", key=None), ws.frame(b"", ws.PING, key=None)],
    "control frame length bigger than maximum allowed of 125 bytes": [
        ws.frame(b"x" * 126, opcode) for opcode in (ws.CLOSE, ws.PING, ws.PONG)
    ],
    "control frame does not have final bit set": [ws.frame(b"", ws.PING, fin=False)],
    "new message started before final frame for previous message was received": [
        ws.frame(b"PING", fin=False) + ws.frame(b"\r\n"),
        ws.frame(b"PING", fin=False) + ws.frame(b"\r\n", ws.TEXT),
    ],
    "invalid continuation frame": [ws.frame(b"", ws.CONTINUATION), ws.frame(b"") + ws.frame(b"", 0)],
    "unknown opcode 3": [ws.frame(b"", 3)],
    "unknown opcode 7": [ws.frame(b"", 7)],
    "unknown opcode 11": [ws.frame(b"", 11)],
    "unknown opcode 15": [ws.frame(b"", 15)],
    "invalid 64-bit payload length": [
        ws.frame(b"", length=1 << 63, length_bytes=8),
        ws.frame(b"", length=(1 << 64) - 1, length_bytes=8),
    ],
    "close frame payload cannot be 1 byte": [ws.frame(b"x", ws.CLOSE)],
    **{
        f"invalid close status code {status}": [ws.close_frame(status)]
        for status in (0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535)
    },
}


@pytest.mark.parametrize(
    ("rule", "data"), [(rule, data) for rule, broken in RULES.items() for data in broken]
)
def test_a_broken_rule_is_named_in_the_close_frame(rule: str, data: bytes) -> None:
    with room() as made:
        client = Client(made)
        assert client.ask(ws.frame(CONNECT + b"PING\r\n") + data + ws.frame(b"PING\r\n")) == b"PONG\r\n"
        assert client.closed == "Read Error"
        assert client.failures == [rule]
        assert client.goodbye == struct.pack(">H", 1002) + rule.encode()


def test_a_mistake_in_the_protocol_comes_before_one_in_a_later_frame() -> None:
    with room() as made:
        client = Client(made)
        client.ask(ws.frame(CONNECT + b"nonsense\r\n") + ws.frame(b"", 3))
        assert client.failures == []
        assert client.closed == "parse"


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"", b""),
        (struct.pack(">H", 1000), struct.pack(">H", 1000)),
        (struct.pack(">H", 1001) + b"tab closed", struct.pack(">H", 1001) + b"tab closed"),
        (struct.pack(">H", 4999) + b"x" * 123, struct.pack(">H", 4999) + b"x" * 123),
        (struct.pack(">H", 1000) + b"\xff", struct.pack(">H", 1007) + b"invalid utf8 body in close frame"),
    ],
)
def test_a_close_frame_is_answered_after_what_came_before_it(sent: bytes, answered: bytes) -> None:
    with room() as made:
        client = Client(made)
        data = ws.frame(CONNECT + b"PING\r\n") + ws.frame(sent, ws.CLOSE) + ws.frame(b"PING\r\n")
        assert client.ask(data) == b"PONG\r\n"
        assert (client.closed, client.failures) == ("Client Closed", [])
        assert client.goodbye == answered


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("Client Closed", 1000),
        ("Server Shutdown", 1001),
        ("Stale Connection", 1001),
        ("Authentication Failure", 1008),
        ("Authentication Expired", 1008),
        ("Maximum Message Payload Exceeded", 1009),
        ("Protocol Violation", 1002),
        ("Message Header Violation", 1011),
    ],
)
def test_a_link_that_is_closed_says_why(reason: str, status: int) -> None:
    with room() as made:
        client = Client(made)
        client.peer.link.send(b"-ERR 'whatever'\r\n")
        client.peer.link.close(reason)
        made.hub.flush()
        assert client.receive() == b"-ERR 'whatever'\r\n"
        assert client.goodbye == struct.pack(">H", status) + reason.encode()


def test_a_message_that_is_not_whole_never_ends_in_a_close_frame() -> None:
    with bench(max_pending=1 << 20) as made:
        client = Client(made, buffer_bytes=2048, max_payload=1 << 20)
        client.send(ws.frame(CONNECT + b"SUB a 1\r\n"))
        publisher = made.connect()
        for _ in range(40):
            publisher.send(message(b"a", b"x" * 60_000))
        client.peer.link.close("Server Shutdown")
        made.hub.flush()
        client.wire += client.peer.receive_all()
        frames, rest = ws.split_frames(client.wire)
        assert rest
        assert all(frame.opcode == ws.BINARY for frame in frames)


BROKEN_DEFLATE = {
    "corrupt": ws.frame(b"\xff" * 20, rsv=ws.RSV1),
    "cut off": ws.frame(ws.deflate(CONNECT)[:-8], rsv=ws.RSV1),
    "cut off in fragments": ws.fragments([ws.deflate(CONNECT)[:9], b"", b""], rsv=ws.RSV1),
}


@pytest.mark.parametrize("name", BROKEN_DEFLATE)
def test_broken_compression_closes_the_link(name: str) -> None:
    with room() as made:
        client = Client(made, deflates=True)
        client.ask(BROKEN_DEFLATE[name] + ws.frame(b"PING\r\n"))
        assert client.closed == "Read Error"
        assert len(client.failures) == 1


@pytest.mark.parametrize("sizes", [(1000,), (1, 1, 1000), (0, 5, 0, 2000, 0)])
def test_what_follows_the_last_block_is_ignored(sizes: tuple[int, ...]) -> None:
    data = zlib.compress(CONNECT + b"PING\r\n", wbits=-15)
    with room() as made:
        client = Client(made, deflates=True)
        pieces = [data, *(b"x" * size for size in sizes)]
        assert client.ask(ws.fragments(pieces, rsv=ws.RSV1)) == b"PONG\r\n"
        assert client.ask(ws.frame(ws.deflate(b"PING\r\n"), rsv=ws.RSV1)) == b"PONG\r\n"


@pytest.mark.parametrize("excess", [0, 1])
def test_a_compressed_message_may_hold_max_payload_bytes(excess: int) -> None:
    filler = message(b"b", b"x" * (MAX_PAYLOAD + excess - len(CONNECT) - 6 - len(b"PUB b 12345\r\n\r\n")))
    data = CONNECT + filler + b"PING\r\n"
    assert len(data) == MAX_PAYLOAD + excess
    with room() as made:
        client = Client(made, deflates=True)
        answer = client.ask(ws.frame(ws.deflate(data), rsv=ws.RSV1))
        assert answer == (b"" if excess else b"PONG\r\n")
        assert client.closed == ("Read Error" if excess else None)
        assert client.failures == ["maximum payload exceeded"] * excess


def test_empty_blocks_cannot_go_on_forever() -> None:
    """They hold nothing, so the limit of what a message holds would never be reached."""
    nothing = b"\x00\x00\x00\xff\xff" * 10_000
    with room() as made:
        client = Client(made, deflates=True)
        client.send(ws.frame(b"", rsv=ws.RSV1, fin=False))
        for _ in range(20):
            client.send(ws.frame(nothing, ws.CONTINUATION, fin=False))
        assert client.failures == ["maximum payload exceeded"]


def test_a_paused_link_is_read_on_where_it_was_paused() -> None:
    """What is inside of the transport then is not known to epoll."""
    with bench(max_payload=1 << 20) as made:
        client = Client(made, deflates=True, max_payload=1 << 20)
        client.send(ws.frame(CONNECT))
        client.peer.link.hold()
        many = [ws.frame(ws.deflate(b"PING\r\n" * 50_000), rsv=ws.RSV1) for _ in range(5)]
        client.send(b"".join(many))
        client.peer.link.resume()
        made.settle()
        assert client.receive() == b"PONG\r\n" * 250_000


def test_a_peer_that_only_pings_costs_no_memory() -> None:
    with room() as made:
        client = Client(made, buffer_bytes=2048)
        ping = ws.frame(b"x" * 125, ws.PING)
        sent = 0
        for _ in range(3000):
            sent += client.peer.send_some(ping) == len(ping)
            made.settle()
        client.wire += client.peer.receive_all()
        client.decoder.decode(client.wire)
        assert client.closed is None
        pongs = len(client.decoder.control)
        assert 10 < pongs < sent


def test_a_peer_that_does_not_mask_was_allowed_to() -> None:
    with room() as made:
        client = Client(made, masks=False)
        assert client.ask(ws.frame(CONNECT + b"PING\r\n", key=None)) == b"PONG\r\n"
        assert client.ask(ws.frame(b"hi", ws.PING, key=None)) == b""
        assert client.decoder.control == [ws.Frame(ws.PONG, b"hi")]


def test_a_transport_can_be_read_and_written_from_python() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    transport = SocketTransport(ours.detach())
    assert transport.read(100) is None
    theirs.sendall(b"hello")
    assert transport.read(3) == b"hel"
    assert transport.write(b"there") == 5
    assert theirs.recv(100) == b"there"
    theirs.close()
    assert transport.read(100) == b"lo"
    assert transport.read(100) == b""
    with pytest.raises(BrokenPipeError):
        transport.write(b"gone")
    transport.shut()

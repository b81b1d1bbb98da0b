"""From a publish to its acknowledgement, on the memory store and on the file store."""

from __future__ import annotations

import json
import os
import random
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headrace.engine.store.committer import Committer
from headrace.engine.store.log import Log
from headrace.engine.streams.stream_sink import StreamSink
from tests.engine.core.harness import Bench, Peer, message


class Ledger:
    """A stream's owner that writes down what it is asked."""

    def __init__(self) -> None:
        self.special: list[tuple[bytes, bytes, bytes, bytes]] = []
        self.failures: list[tuple[bytes, str]] = []

    def on_publish(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        self.special.append((subject, reply, headers, payload))

    def on_no_memory(self, reply: bytes) -> None:
        self.failures.append((reply, "out of memory"))

    def on_store_failure(self, reply: bytes, failure: str) -> None:
        self.failures.append((reply, failure))


class Stream:
    def __init__(self, bench: Bench, log: Log) -> None:
        self.ledger = Ledger()
        self.log = log
        self.sink = StreamSink(bench.hub, bench.interest, log, self.ledger)
        self.sink.ack_prefix = b'{"stream":"S", "seq":'
        self.sink.subscribe(b"s.>", None, b"1")


@pytest.fixture(params=["memory", "file"])
def stream(request: pytest.FixtureRequest, bench: Bench, tmp_path: Path) -> Iterator[Stream]:
    if request.param == "memory":
        log = Log(None, committer=None)
        log.recover()
        yield Stream(bench, log)
        log.close()
        return
    committer = Committer()
    bench.hub.add_source(committer.fileno(), committer.poll)
    log = Log(str(tmp_path), committer=committer)
    log.recover()
    yield Stream(bench, log)
    log.close()
    bench.hub.remove_source(committer.fileno())
    committer.close()


def answers(bench: Bench, peer: Peer, count: int) -> list[tuple[bytes, dict[str, Any]]]:
    """The next `count` answers, by reply subject."""
    got: list[tuple[bytes, dict[str, Any]]] = []

    def arrived() -> bool:
        got.extend((f.subject, json.loads(f.payload)) for f in peer.frames() if f.operation == "MSG")
        return len(got) >= count

    bench.settle_until(arrived)
    return got


def test_a_message_is_stored_and_acknowledged(bench: Bench, stream: Stream) -> None:
    peer = bench.subscriber(b"inbox.*")
    peer.send(b"PUB s.one inbox.1 5\r\nhello\r\nPUB s.two 2\r\nhi\r\nPUB s.one inbox.3 0\r\n\r\n")
    assert answers(bench, peer, 2) == [
        (b"inbox.1", {"stream": "S", "seq": 1}),
        (b"inbox.3", {"stream": "S", "seq": 3}),
    ]
    stored = stream.log.get(2)
    assert stored is not None
    assert (stored.subject, stored.headers, stored.payload) == (b"s.two", b"", b"hi")
    assert stream.log.committed_seq == stream.log.last_seq == 3


def test_the_messages_of_a_packet_have_times_of_their_own(bench: Bench, stream: Stream) -> None:
    """Also if one among them is decided on in Python, which reads the clock itself."""

    def decide(subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        stream.log.append(subject, headers, payload)

    stream.ledger.on_publish = decide  # type: ignore[method-assign]
    before = time.time_ns()
    bench.connect().send(
        b"PUB s.a 0\r\n\r\n" * 3
        + b"HPUB s.a 30 30\r\nNATS/1.0\r\nNats-Rollup: all\r\n\r\n\r\n"
        + b"PUB s.a 0\r\n\r\n" * 3
    )
    bench.settle_until(lambda: stream.log.committed_seq == 7)
    between = time.time_ns()
    bench.connect().send(b"PUB s.a 0\r\n\r\n")
    bench.settle_until(lambda: stream.log.committed_seq == 8)
    messages = [stream.log.get(seq) for seq in range(1, 9)]
    times = [message.time for message in messages if message is not None]
    assert len(times) == 8
    assert sorted(set(times)) == times
    assert before <= times[0]
    assert times[6] <= between <= times[7] <= time.time_ns()


def test_times_do_not_go_back_behind_those_of_other_writers(bench: Bench, stream: Stream) -> None:
    """Python stores schedules and delete markers, next to messages from within and from clients."""
    peer = bench.connect()
    for _ in range(3):
        for _ in range(3):
            bench.hub.publish(bench.interest, b"s.a", b"from within")
            time.sleep(0.001)
            stream.log.append(b"s.a", b"", b"by a schedule")
        before = time.time_ns()
        peer.send(message(b"s.a", b"from a client") * 3)
        bench.settle_until(lambda: stream.log.committed_seq == stream.log.last_seq)
        last = stream.log.get(stream.log.last_seq)
        assert last is not None
        assert last.time >= before
    times = [found.time for seq in range(1, stream.log.last_seq + 1) if (found := stream.log.get(seq))]
    assert len(times) == 27
    assert sorted(set(times)) == times


def test_a_message_is_not_older_than_its_sending(bench: Bench, stream: Stream) -> None:
    """Clients ask for what is new since a moment. Here one sends while others' messages are handled."""
    early, late, sent = bench.connect(), bench.connect(), dict[bytes, int]()
    source, signal = os.pipe()

    def send_more() -> None:
        os.read(source, 1)
        time.sleep(0.001)
        payload = b"%d" % len(sent)
        sent[payload] = time.time_ns()
        late.send_some(message(b"s.a", payload))

    bench.hub.add_source(source, send_more)
    try:
        for number in range(
            1, 13
        ):  # epoll's events are handled in turns: each of the three is last four times
            os.write(signal, b"!")
            for peer in (early, late):
                peer.send_some(message(b"s.a", b"x"))
            bench.settle_until(lambda until=3 * number: stream.log.last_seq == until)  # type: ignore[misc]
    finally:
        bench.hub.remove_source(source)
        os.close(source)
        os.close(signal)
    stored = [found for seq in range(1, 37) if (found := stream.log.get(seq))]
    assert len(sent) == 12
    for found in stored:
        assert found.time >= sent.get(found.payload, 0)


def test_ids_are_found_however_far_apart_they_are(bench: Bench, stream: Stream) -> None:
    """The place of the next one is guessed from the distance of the last two, in what has been received."""
    chance = random.Random(7)
    stream.sink.duplicates.length = 10**12
    peer = bench.connect()
    ids = [b"i%x" % chance.getrandbits(chance.choice([8, 64, 64, 64, 512])) for _ in range(300)]
    payloads = [b"x" * chance.choice([0, 0, 16, 16, 16, 3000]) for _ in ids]
    for _ in range(2):
        frames = b""
        for msg_id, payload in zip(ids, payloads, strict=True):
            frames += published_with_id(msg_id, b"", payload)
        while frames:
            end = chance.choice([10, 500, 5000, 50_000])
            peer.send(frames[:end])
            frames = frames[end:]
    bench.settle_until(lambda: stream.log.committed_seq == stream.log.last_seq == len(set(ids)))
    assert peer.ask(b"PING\r\n") == b"PONG\r\n"
    assert stream.log.last_seq == stream.sink.duplicates.count == len(set(ids))


def test_acknowledgements_follow_the_interest_in_their_inbox(bench: Bench, stream: Stream) -> None:
    """Each step changes who gets the answers. Reply subjects differ in the last token, as a client's do."""
    serial = 0

    def replies(publisher: Peer, *receivers: Peer) -> list[int]:
        """How many answers each gets of two publishes."""
        nonlocal serial
        for _ in range(2):
            serial += 1
            publisher.send(b"PUB s.one box.x.%d 1\r\n1\r\n" % serial)
        bench.settle_until(lambda: stream.log.committed_seq == serial)
        return [len(receiver.payloads()) for receiver in receivers]

    client, other = bench.subscriber(b"box.x.*"), bench.connect()
    assert replies(client, client, other) == [2, 0]
    other.send(b"SUB box.x.* 1\r\n")
    assert replies(client, client, other) == [2, 2]
    other.send(b"UNSUB 1\r\nSUB box.*.%d 2\r\n" % (serial + 2))
    assert replies(client, client, other) == [2, 1]
    other.send(b"UNSUB 2\r\nSUB *.x.> queue 3\r\n")
    assert replies(client, client, other) == [2, 2]
    other.send(b"UNSUB 3\r\nSUB > 4\r\nUNSUB 4 1\r\n")
    assert replies(client, client, other)[0] == 2
    assert replies(client, client, other) == [2, 0]
    client.send(b"UNSUB 1\r\n")
    assert replies(client, client, other) == [0, 0]
    client.send(b"SUB box.x.* 5\r\n")
    assert replies(client, client, other) == [2, 0]
    client.socket.close()
    assert replies(other, other) == [0]
    assert not client.owner.bugs


def test_headers_are_stored_with_the_message(bench: Bench, stream: Stream) -> None:
    peer = bench.subscriber(b"inbox.*")
    peer.send(b"HPUB s.one inbox.1 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n")
    assert answers(bench, peer, 1)[0][1]["seq"] == 1
    stored = stream.log.get(1)
    assert stored is not None
    assert (stored.headers, stored.payload) == (b"NATS/1.0\r\nA: b\r\n\r\n", b"hi")


def published_with_id(msg_id: bytes, reply: bytes, payload: bytes = b"x") -> bytes:
    headers = b"NATS/1.0\r\nNats-Msg-Id: " + msg_id + b"\r\n\r\n"
    sizes = len(headers), len(headers) + len(payload)
    return b"HPUB s.one %b %d %d\r\n%b%b\r\n" % (reply, *sizes, headers, payload)


def test_the_same_message_id_is_stored_once_within_the_window(bench: Bench, stream: Stream) -> None:
    stream.sink.duplicates.length = 120 * 10**9
    peer = bench.subscriber(b"inbox.*")
    peer.send(
        published_with_id(b"a", b"inbox.1")
        + published_with_id(b"b", b"inbox.2")
        + published_with_id(b"a", b"inbox.3")
    )
    assert [body for _, body in answers(bench, peer, 3)] == [
        {"stream": "S", "seq": 1},
        {"stream": "S", "seq": 2},
        {"stream": "S", "seq": 1, "duplicate": True},
    ]
    assert stream.log.last_seq == 2
    assert stream.sink.duplicates.find(b"b") == 2
    assert stream.sink.duplicates.find(b"c") == 0


EXPECTED, EXPECTED_OF_SUBJECT = b"Nats-Expected-Last-Sequence", b"Nats-Expected-Last-Subject-Sequence"


def published_with(lines: bytes, subject: bytes = b"s.one", reply: bytes = b"inbox.1") -> bytes:
    headers = b"NATS/1.0\r\n" + lines + b"\r\n"
    return b"HPUB %b %b %d %d\r\n%b\r\n" % (subject, reply, len(headers), len(headers), headers)


def test_an_expected_sequence_is_checked_without_python(bench: Bench, stream: Stream) -> None:
    stream.sink.duplicates.length = 120 * 10**9
    peer = bench.subscriber(b"inbox.*")
    peer.send(
        published_with(b"%b: 0\r\n" % EXPECTED)
        + published_with(b"%b: 1\r\n" % EXPECTED, b"s.two")
        + published_with(b"%b: 0\r\n" % EXPECTED_OF_SUBJECT, b"s.three")
        + published_with(b"%b:2\r\nA: b\r\n" % EXPECTED_OF_SUBJECT, b"s.two")
        + published_with(b"%b: 1\r\n%b:   4\r\n" % (EXPECTED_OF_SUBJECT, EXPECTED))
        + published_with(b"%b: 05\r\nNats-Msg-Id: x\r\n" % EXPECTED)
    )
    assert [body for _, body in answers(bench, peer, 6)] == [{"stream": "S", "seq": n} for n in range(1, 7)]
    peer.send(published_with(b"Nats-Msg-Id: x\r\n%b: 6\r\n" % EXPECTED))
    assert answers(bench, peer, 1)[0][1] == {"stream": "S", "seq": 6, "duplicate": True}
    assert stream.ledger.special == []


@pytest.mark.parametrize(
    "lines",
    [
        b"%b: 2\r\n" % EXPECTED,
        b"%b: 0\r\n" % EXPECTED_OF_SUBJECT,
        b"%b: 1\r\n%b: 0\r\n" % (EXPECTED, EXPECTED_OF_SUBJECT),
        b"%b: 1\r\n%b: 1\r\n" % (EXPECTED, EXPECTED),
        b"%b: \r\n" % EXPECTED,
        b"%b: x\r\n" % EXPECTED,
        b"%b: -1\r\n" % EXPECTED,
        b"%b: 1 \r\n" % EXPECTED,
        b"%b: 18446744073709551617\r\n" % EXPECTED,
        b"A: b\n%b: 1\r\n" % EXPECTED,
        b"%b: 1\r\n%b-Subject: s.one\r\n" % (EXPECTED_OF_SUBJECT, EXPECTED_OF_SUBJECT),
        b"%b: 1\r\nNats-Rollup: sub\r\n" % EXPECTED,
    ],
)
def test_other_expectations_are_decided_in_python(bench: Bench, stream: Stream, lines: bytes) -> None:
    peer = bench.subscriber(b"inbox.*")
    peer.send(b"PUB s.one 1\r\nx\r\n" + published_with(lines))
    bench.settle()
    ((subject, reply, headers, _),) = stream.ledger.special
    assert (subject, reply, headers) == (b"s.one", b"inbox.1", b"NATS/1.0\r\n" + lines + b"\r\n")
    assert stream.log.last_seq == 1


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """Writes beyond it fail as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("stream", ["file"], indirect=True)
@pytest.mark.parametrize("reply", [b"", b"inbox.0"])
def test_an_id_whose_message_could_not_be_written_is_forgotten(
    bench: Bench, stream: Stream, reply: bytes
) -> None:
    """Also if nobody waits for the acknowledgement: the id may come again."""
    stream.sink.duplicates.length = 120 * 10**9
    peer = bench.subscriber(b"inbox.*")
    peer.send(published_with_id(b"stored", b"inbox.1"))
    answers(bench, peer, 1)
    with files_no_larger_than(1 << 19):
        peer.send(published_with_id(b"lost", reply, bytes(1 << 19)))
        bench.settle_until(lambda: stream.log.failure is not None and stream.log.last_seq == 1)
    assert [stream.sink.duplicates.find(msg_id) for msg_id in (b"stored", b"lost")] == [1, 0]
    assert stream.sink.last_msg_id == b"stored"
    while stream.log.last_seq == 1:  # it tries again after a while
        peer.send(published_with_id(b"lost", b"inbox.2"))
    assert answers(bench, peer, 1) == [(b"inbox.2", {"stream": "S", "seq": 2})]
    peer.send(published_with_id(b"lost", b"inbox.3"))
    assert answers(bench, peer, 1) == [(b"inbox.3", {"stream": "S", "seq": 2, "duplicate": True})]


def test_an_empty_message_id_is_none(bench: Bench, stream: Stream) -> None:
    stream.sink.duplicates.length = 120 * 10**9
    peer = bench.subscriber(b"inbox.*")
    peer.send(published_with_id(b"", b"inbox.1") + published_with_id(b"", b"inbox.2"))
    assert [body["seq"] for _, body in answers(bench, peer, 2)] == [1, 2]


def test_an_id_is_forgotten_after_the_window(bench: Bench, stream: Stream) -> None:
    stream.sink.duplicates.length = 1
    peer = bench.subscriber(b"inbox.*")
    peer.send(published_with_id(b"a", b"inbox.1") + published_with_id(b"a", b"inbox.2"))
    assert [body["seq"] for _, body in answers(bench, peer, 2)] == [1, 2]


def test_other_headers_of_nats_go_to_the_stream_in_order(bench: Bench, stream: Stream) -> None:
    headers = b"NATS/1.0\r\nNats-Msg-Id: a\r\nNats-Rollup: all\r\n\r\n"
    bench.connect().send(b"HPUB s.one r %d %d\r\n%bx\r\n" % (len(headers), len(headers) + 1, headers))
    assert stream.ledger.special == [(b"s.one", b"r", headers, b"x")]
    assert stream.log.last_seq == 0


def test_what_is_too_large_or_refused_goes_to_the_stream(bench: Bench, stream: Stream) -> None:
    stream.sink.max_msg_size = 3
    peer = bench.connect()
    peer.send(b"PUB s.one r 4\r\nabcd\r\n")
    stream.log.configure(
        max_msgs=1, max_bytes=-1, max_msgs_per_subject=-1, discard_new=True, discard_new_per_subject=False
    )
    peer.send(b"PUB s.one r 1\r\n1\r\nPUB s.one r 1\r\n2\r\n")
    assert [payload for *_, payload in stream.ledger.special] == [b"abcd", b"2"]


def test_all_goes_to_the_stream_when_it_asks_for_it(bench: Bench, stream: Stream) -> None:
    stream.sink.direct = False
    bench.connect().send(b"PUB s.one 1\r\n1\r\n")
    assert stream.ledger.special == [(b"s.one", b"", b"", b"1")]


def test_a_stream_without_acknowledgements_sends_none(bench: Bench, stream: Stream) -> None:
    stream.sink.no_ack = True
    peer = bench.subscriber(b"inbox.*")
    peer.send(b"PUB s.one inbox.1 1\r\n1\r\n")
    bench.settle_until(lambda: stream.log.committed_seq == 1)
    assert peer.payloads() == []


def test_an_answer_waits_for_what_was_appended_before_it(bench: Bench, stream: Stream) -> None:
    peer = bench.subscriber(b"inbox.*")
    seq = stream.log.append(b"s.one", b"", b"x")
    stream.sink.answer(b"inbox.1", b'{"mine":1}')
    bench.hub.flush()
    assert answers(bench, peer, 1) == [(b"inbox.1", {"mine": 1})]
    assert stream.log.committed_seq == seq


def test_many_ids_are_remembered_and_forgotten_in_the_order_of_time(bench: Bench, stream: Stream) -> None:
    """Against a dict; the ids of messages that are gone are known by their hash alone."""
    second, window = 10**9, 3600 * 10**9
    stream.sink.duplicates.length = window
    now = time.time_ns()
    known = {}
    for number in range(20_000):
        # the first half is about to leave the window, in a minute
        age = window - 60 * second if number < 10_000 else 0
        known[b"id-%d" % number] = number + 1
        stream.sink.remember(b"id-%d" % number, number + 1, now - age)
    assert stream.sink.duplicates.count == 20_000
    assert all(stream.sink.duplicates.find(msg_id) == seq for msg_id, seq in known.items())
    assert not any(stream.sink.duplicates.find(b"no-%d" % number) for number in range(20_000))
    stream.sink.duplicates.length = window - 120 * second
    assert stream.sink.duplicates.count == 10_000
    assert [stream.sink.duplicates.find(b"id-%d" % number) for number in (0, 9_999, 10_000, 19_999)] == [
        0,
        0,
        10_001,
        20_000,
    ]
    stream.sink.duplicates.forget_all()
    assert stream.sink.duplicates.count == 0
    stream.sink.remember(b"id-1", 7, now)
    assert stream.sink.duplicates.find(b"id-1") == 7


@pytest.mark.parametrize("stream", ["memory"], indirect=True)
def test_ids_that_come_and_go_are_those_of_a_model(bench: Bench, stream: Stream) -> None:
    """Their number rises and falls by a factor of a thousand, and the same ids come again."""
    random = Random(7)
    step = 1000 * 10**9  # so long that the time which the test takes changes nothing
    start = time.time_ns() - 1000 * step
    stream.sink.duplicates.length = 2000 * step
    known: dict[bytes, tuple[int, int]] = {}
    tick = seq = horizon = 0
    for most in (10, 3000, 5, 20_000, 100, 1, 9000):
        for _ in range(40):
            tick += 1
            for _ in range(random.randint(0, most // 10)):
                seq += 1
                msg_id = b"%d" % random.randrange(3 * most)
                if msg_id not in known:
                    known[msg_id] = seq, tick
                    stream.sink.remember(msg_id, seq, start + tick * step)
            horizon = max(horizon, tick - random.randint(0, 20))
            stream.sink.duplicates.length = time.time_ns() - (start + horizon * step + step // 2)
            known = {msg_id: at for msg_id, at in known.items() if at[1] > horizon}
            for number in random.choices(range(3 * most), k=100):
                msg_id = b"%d" % number
                assert stream.sink.duplicates.find(msg_id) == known.get(msg_id, (0, 0))[0]
        if random.random() < 0.5:
            assert stream.sink.duplicates.count == len(known)
    assert all(stream.sink.duplicates.find(msg_id) == seq for msg_id, (seq, _) in known.items())
    assert stream.sink.duplicates.count == len(known)

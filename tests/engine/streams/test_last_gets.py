"""Requests for the last message of a subject, on the memory store and on the file store."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from headrace.engine.core.sinks import InboxMessage
from headrace.engine.store.committer import Committer
from headrace.engine.store.log import Log
from headrace.engine.streams.last_gets import LastGets
from headrace.streams.formats import format_time
from tests.engine.core.harness import Bench, Peer
from tests.frames import Frame

PREFIX = b"$JS.API.DIRECT.GET.S."
NOT_FOUND = b"NATS/1.0 404 Message Not Found\r\n\r\n"


class Gets:
    def __init__(self, bench: Bench, log: Log) -> None:
        self.log = log
        self.others: list[InboxMessage] = []
        self.failures: list[tuple[bytes, OSError]] = []
        self.sink = LastGets(
            bench.hub, bench.interest, log, b"S", self.others.extend, lambda *failure: self.fail(*failure)
        )
        self.sink.subscribe(PREFIX + b">", b"_sys_", b"1")

    def fail(self, reply: bytes, error: OSError) -> None:
        self.failures.append((reply, error))


@pytest.fixture(params=["memory", "file"])
def gets(request: pytest.FixtureRequest, bench: Bench, tmp_path: Path) -> Iterator[Gets]:
    if request.param == "memory":
        log = Log(None, committer=None)
        log.recover()
        yield Gets(bench, log)
        log.close()
        return
    committer = Committer()
    bench.hub.add_source(committer.fileno(), committer.poll)
    log = Log(str(tmp_path), committer=committer)
    log.recover()
    yield Gets(bench, log)
    log.close()
    bench.hub.remove_source(committer.fileno())
    committer.close()


def store(bench: Bench, gets: Gets, *messages: tuple[bytes, bytes, bytes, int]) -> None:
    for subject, headers, payload, time in messages:
        gets.log.append(subject, headers, payload, time)
    gets.log.commit()
    bench.settle_until(lambda: gets.log.committed_seq == gets.log.last_seq)


def get(subject: bytes, number: int = 1) -> bytes:
    return b"PUB %b%b inbox.%d 0\r\n\r\n" % (PREFIX, subject, number)


def answers(bench: Bench, peer: Peer, count: int) -> list[Frame]:
    got: list[Frame] = []

    def arrived() -> bool:
        got.extend(frame for frame in peer.frames() if frame.operation in ("MSG", "HMSG"))
        return len(got) >= count

    bench.settle_until(arrived)
    return got


def described(subject: bytes, seq: int, time: int, own: bytes = b"") -> bytes:
    return (
        b"NATS/1.0\r\n%bNats-Stream: S\r\nNats-Subject: %b\r\n"
        b"Nats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n\r\n" % (own, subject, seq, format_time(time).encode())
    )


def test_the_last_message_of_a_subject_and_what_is_known_of_it(bench: Bench, gets: Gets) -> None:
    store(
        bench,
        gets,
        (b"k.a", b"", b"first", 1_700_000_000_000_000_000),
        (b"k.b", b"NATS/1.0\r\nA: b\r\n\r\n", b"", 1_700_000_000_000_000_001),
        (b"k.a", b"", b"second", 1_700_000_000_120_000_000),
    )
    peer = bench.subscriber(b"inbox.*", headers=True)
    peer.send(get(b"k.a", 1) + get(b"k.b", 2) + get(b"k.c", 3) + get(b"k", 4))
    assert [(frame.subject, frame.headers, frame.payload) for frame in answers(bench, peer, 4)] == [
        (b"inbox.1", described(b"k.a", 3, 1_700_000_000_120_000_000), b"second"),
        (b"inbox.2", described(b"k.b", 2, 1_700_000_000_000_000_001, b"A: b\r\n"), b""),
        (b"inbox.3", NOT_FOUND, b""),
        (b"inbox.4", NOT_FOUND, b""),
    ]
    assert gets.others == []


def test_times_are_written_as_in_go(bench: Bench, gets: Gets) -> None:
    random = Random(7)
    times = [1, 999_999_999, 1_000_000_000, 4_102_444_800 * 10**9 - 1]
    times += [day * 86_400 * 10**9 + random.randrange(86_400 * 10**9) for day in range(1, 106_000, 97)]
    times += [(1_709_164_800 + 86_400 * day) * 10**9 for day in range(-3, 4)]  # around February 29, 2024
    times += [random.randrange(2**63 // 10**6) * 10 ** random.randrange(7) for _ in range(100)]
    times.sort()
    store(bench, gets, *((b"k.%d" % number, b"", b"", time) for number, time in enumerate(times)))
    peer = bench.subscriber(b"inbox.*", headers=True)
    peer.send(b"".join(get(b"k.%d" % number, number) for number in range(len(times))))
    assert [frame.headers for frame in answers(bench, peer, len(times))] == [
        described(b"k.%d" % number, number + 1, time) for number, time in enumerate(times)
    ]


@pytest.mark.parametrize(
    "request_",
    [
        b"PUB %bk.a inbox.1 2\r\n{}\r\n" % PREFIX,
        b"HPUB %bk.a inbox.1 12 12\r\nNATS/1.0\r\n\r\n\r\n" % PREFIX,
        b"PUB %bk.a 0\r\n\r\n" % PREFIX,
    ],
)
def test_what_is_not_plain_goes_to_python(bench: Bench, gets: Gets, request_: bytes) -> None:
    peer = bench.subscriber(b"inbox.*", headers=True)
    peer.send(request_)
    bench.settle()
    assert [message.subject for message in gets.others] == [PREFIX + b"k.a"]
    assert peer.frames() == []


def test_a_pattern_goes_to_python(bench: Bench, gets: Gets) -> None:
    for subject in (b"k.*", b">", b"k.>"):
        bench.hub.publish(bench.interest, PREFIX + subject, b"", b"inbox.1")
    bench.hub.publish(bench.interest, PREFIX + b"k.a*", b"", b"inbox.1")
    bench.settle()
    bench.hub.flush()
    assert [message.subject for message in gets.others] == [PREFIX + part for part in (b"k.*", b">", b"k.>")]


@pytest.mark.parametrize("gets", ["file"], indirect=True)
def test_what_was_published_before_is_on_disk_first(bench: Bench, gets: Gets) -> None:
    peer = bench.subscriber(b"inbox.*", headers=True)
    store(bench, gets, (b"k.a", b"", b"old", 1))
    gets.log.append(b"k.a", b"", b"new", 2)
    peer.send(get(b"k.a"))
    (answer,) = answers(bench, peer, 1)
    assert (answer.payload, gets.log.committed_seq) == (b"new", 2)


def test_many_large_answers_leave_room_for_others(bench: Bench, gets: Gets) -> None:
    """More than a turn takes: all of them come, in order, and others are served in between."""
    payload = bytes(1 << 20)
    store(bench, gets, (b"k.a", b"", payload, 1))
    peer = bench.subscriber(b"inbox.*", headers=True)
    peer.send(b"".join(get(b"k.a", number) for number in range(40)))
    frames = answers(bench, peer, 40)
    assert [frame.subject for frame in frames] == [b"inbox.%d" % number for number in range(40)]
    assert all(frame.payload == payload for frame in frames)


def test_a_stream_that_is_gone_does_not_answer(bench: Bench, gets: Gets) -> None:
    store(bench, gets, (b"k.a", b"", b"x", 1))
    peer = bench.subscriber(b"inbox.*", headers=True)
    bench.hub.publish(bench.interest, PREFIX + b"k.a", b"", b"inbox.1")
    gets.sink.unsubscribe_all()
    bench.hub.flush()
    bench.settle()
    assert peer.frames() == []


def test_a_stream_that_cannot_be_read_is_not_a_missing_message(bench: Bench, tmp_path: Path) -> None:
    """The file of a segment is away for a while."""
    with closing(Committer()) as committer:
        log = Log(str(tmp_path), committer=committer, segment_bytes=65536)
        log.recover()
        for number in range(4):
            log.append(b"k.%d" % number, b"", bytes(40_000), 1)
        log.close()
        log = Log(str(tmp_path), committer=committer, segment_bytes=65536)
        log.recover()
        gets = Gets(bench, log)
        peer = bench.subscriber(b"inbox.*", headers=True)
        first = min(tmp_path.glob("*.log"))
        first.rename(tmp_path / "away")
        peer.send(get(b"k.0"))
        bench.settle()
        assert [(reply, error.errno) for reply, error in gets.failures] == [(b"inbox.1", errno.ENOENT)]
        (tmp_path / "away").rename(first)
        peer.send(get(b"k.0"))
        assert [len(frame.payload) for frame in answers(bench, peer, 1)] == [40_000]
        log.close()

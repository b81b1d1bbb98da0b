"""Large flushes: several threads write them, every receiver gets its bytes, in order.

The turn of a publisher ends with one.
"""

from __future__ import annotations

import gc
import os
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.core.harness import MIB, Bench, Peer, RecordingOwner, bench, message
from tests.engine.core.test_shared_bodies import frame, subscribers

HELPER = "headrace-flush"


def helpers() -> int:
    return sum(task.read_text().strip() == HELPER for task in Path("/proc/self/task").glob("*/comm"))


def publish_in_turns(publisher: Peer, receivers: list[Peer], payloads: list[bytes]) -> list[bytes]:
    """What each receiver got. Publishers wait for the slowest of them, so it takes turns."""
    publisher.send(b"".join(message(b"a", payload) for payload in payloads))
    got = [peer.receive() for peer in receivers]
    while any(more := [peer.receive_all() for peer in receivers]):
        got = [had + new for had, new in zip(got, more, strict=True)]
    return got


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="helpers have no core")
@pytest.mark.parametrize(
    "sids", [pytest.param(range(1, 11), id="sids of their own"), pytest.param([1] * 10, id="equal sids")]
)
def test_helpers_are_started_by_the_first_large_flush_and_end_with_the_hub(sids: Sequence[int]) -> None:
    gc.collect()  # hubs of other tests have helpers, too
    before = helpers()
    with bench() as made:
        receivers = subscribers(made, list(sids))
        publisher = made.connect()
        publish_in_turns(publisher, receivers, [b"short"])
        assert helpers() == before
        payloads = [b"%04d" % number + bytes(196) for number in range(6000)]
        got = publish_in_turns(publisher, receivers, payloads)
        assert helpers() == before + min(len(os.sched_getaffinity(0)) - 1, 3)
        for sid, received in zip(sids, got, strict=True):
            assert received == b"".join(frame(b"a", sid, payload) for payload in payloads)
    del made, receivers, publisher
    gc.collect()
    for _ in range(1000):  # the kernel lists a thread for a moment after it was joined
        if helpers() == before:
            break
        time.sleep(0.01)
    assert helpers() == before


@pytest.mark.parametrize(
    ("sids", "size"),
    [
        pytest.param([1] * 6, 300_000, id="one range of the arena each"),
        pytest.param([1, 2, 3, 4, 5, 6], 300_000, id="the range and heads of their own"),
        pytest.param([1, 2, 3, 4, 5, 6], 1000, id="frames that are put together"),
    ],
)
def test_helpers_are_not_started_where_copying_is_all(sids: list[int], size: int) -> None:
    """Receivers would not keep up: they have to copy as much."""
    gc.collect()
    before = helpers()
    with bench() as made:
        receivers = subscribers(made, sids)
        payloads = [bytes([65 + number % 26]) * size for number in range(1_500_000 // size)]
        got = publish_in_turns(made.connect(), receivers, payloads)
        assert helpers() == before
    for sid, received in zip(sids, got, strict=True):
        assert received == b"".join(frame(b"a", sid, payload) for payload in payloads)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="helpers have no core")
def test_helpers_are_started_for_long_frames_if_there_are_many_receivers() -> None:
    gc.collect()
    before = helpers()
    with bench() as made:
        sids = list(range(1, 101))
        receivers = subscribers(made, sids)
        payloads = [b"%04d" % number + bytes(996) for number in range(50)]
        got = publish_in_turns(made.connect(), receivers, payloads)
        assert helpers() > before
    for sid, received in zip(sids, got, strict=True):
        assert received == b"".join(frame(b"a", sid, payload) for payload in payloads)


@settings(max_examples=40)
@given(
    sids=st.lists(st.sampled_from([1, 2, 33, 444]), min_size=4, max_size=12),
    sizes=st.lists(st.sampled_from([0, 1, 1000, 4090, 5000, 60_000]), min_size=1, max_size=5),
    small=st.sets(st.integers(0, 11)),
    gone=st.sets(st.integers(0, 11), max_size=2),
)
def test_every_receiver_gets_everything(
    sids: list[int], sizes: list[int], small: set[int], gone: set[int]
) -> None:
    """Some have small buffers, and some have left without a word."""
    with bench() as made:
        receivers = receivers_of(made, sids, small)
        publisher = made.connect()
        for number, peer in enumerate(receivers):
            if number in gone:
                peer.socket.close()
        here = [number for number in range(len(sids)) if number not in gone]
        lengths = sizes * (MIB // (len(sids) * (sum(sizes) + 20)) + 1)
        payloads = [bytes([65 + number % 26]) * size for number, size in enumerate(lengths)]
        got = publish_in_turns(publisher, [receivers[number] for number in here], payloads)
        for number, received in zip(here, got, strict=True):
            assert received == b"".join(frame(b"a", sids[number], payload) for payload in payloads)


def receivers_of(made: Bench, sids: list[int], small: set[int]) -> list[Peer]:
    found = []
    for number, sid in enumerate(sids):
        found += subscribers(made, [sid], buffer_bytes=2048 if number in small else 0)
    return found


def counts_writes(made: Bench) -> socket.socket:
    """The client's end of a subscriber: each write of the hub arrives there by itself."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setblocking(False)
    owner = RecordingOwner()
    owner.link = made.hub.attach(ours.detach(), owner)
    owner.link.join(made.interest)
    owner.link.configure(verbose=False, pedantic=False, echo=True, headers=True, no_responders=False)
    owner.link.subscribe(b"a", None, b"1")
    return theirs


def test_a_turn_with_many_receivers_lasts_until_each_gets_some_kilobytes() -> None:
    """8 MiB would be 2 KiB for each of these, and a system call costs more than to write that."""
    payload = bytes(992)
    with bench() as made, ExitStack() as ends:
        receivers = [ends.enter_context(counts_writes(made)) for _ in range(4000)]
        made.connect().send(message(b"a", payload) * 16)
        for end in receivers[::100]:
            lengths: list[int] = []
            while sum(lengths) < 16 * len(frame(b"a", 1, payload)):
                lengths.append(len(end.recv(MIB)))
            assert min(lengths[:-1]) >= 4096


def test_a_turn_ends_though_payloads_are_empty() -> None:
    with bench() as made:
        for _ in range(200):
            made.subscriber(b"a")
        publisher = made.connect()
        publisher.send_some(message(b"a", b"") * 5000)
        read: list[int] = []
        made.hub.defer(lambda: read.append(publisher.link.in_msgs))  # after the first turn
        made.hub.poll()
        assert 1000 < read[0] < 2000
        made.settle_until(lambda: publisher.link.in_msgs == 5000)

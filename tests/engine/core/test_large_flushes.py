"""Flushes that several threads write: every receiver gets its bytes, in order, whatever sockets accept."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.core.harness import MIB, Bench, Peer, bench, message
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
def test_helpers_are_started_by_the_first_large_flush_and_end_with_the_hub() -> None:
    gc.collect()  # hubs of other tests have helpers, too
    before = helpers()
    with bench() as made:
        sids = list(range(1, 11))
        receivers = subscribers(made, sids)
        publisher = made.connect()
        publish_in_turns(publisher, receivers, [b"short"])
        assert helpers() == before
        payloads = [b"%04d" % number + bytes(996) for number in range(1200)]
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

"""However the bytes of a sample are cut, the engine asks its owner the same and answers the same."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from tests.engine.core.harness import Bench, RecordingOwner
from tests.wire_samples import SAMPLES, Sample

pytestmark = pytest.mark.usefixtures("each_transport")

Transcript = tuple[list[tuple[Any, ...]], bytes, str | None]


def transcript(pieces: list[bytes]) -> Transcript:
    """What the owner was asked, what came back, and why the link was closed."""
    made = Bench()
    owner = RecordingOwner()
    try:
        peer = made.attach(owner)
        for piece in pieces:
            peer.send(piece)
        # How much of a mistake has arrived when it is noticed depends on the cut: compare only its kind.
        events = [event[:2] if event[0] == "violation" else event for event in owner.events]
        answer, closed = peer.receive_all(), owner.closed
        assert owner.bugs == []
        return events, answer, closed
    finally:
        made.close()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    borders = [0, *sorted(places), len(data)]
    return [data[start:end] for start, end in pairwise(borders)]


def identify(sample: Sample) -> str:
    return sample.name.replace(" ", "-")


@pytest.fixture(scope="module", params=SAMPLES, ids=identify)
def sample(request: pytest.FixtureRequest) -> Sample:
    param: Sample = request.param
    return param


@pytest.fixture(scope="module")
def whole(sample: Sample) -> Transcript:
    return transcript([sample.connect + sample.sent])


def test_byte_by_byte(sample: Sample, whole: Transcript) -> None:
    data = sample.connect + sample.sent
    assert transcript([data[at : at + 1] for at in range(len(data))]) == whole


def test_in_random_pieces(sample: Sample, whole: Transcript) -> None:
    """Others in each run, without Hypothesis: that takes longer to prepare than a hub to answer."""
    sent = sample.connect + sample.sent
    for _ in range(8):
        places = [random.randint(0, len(sent)) for _ in range(random.randint(1, 6))]
        assert transcript(cut(sent, places)) == whole, places


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample.complete], ids=identify)
def test_with_trailing_data(sample: Sample) -> None:
    """After a violation nothing is heard; else what trails is an operation of its own."""
    events, answer, closed = transcript([sample.connect + sample.sent])
    after = transcript([sample.connect + sample.sent + b"PONG\r\nPING\r\n"])
    if closed:
        assert after == (events, answer, closed)
    else:
        assert after[0][: len(events) + 1] == [*events, ("pong",)]
        assert after[1:] == (answer + b"PONG\r\n", None)


def test_two_at_once(sample: Sample) -> None:
    """Two connections of the same hub that speak at once do not get into each other's way."""
    made = Bench()
    try:
        data = sample.connect + sample.sent.replace(b"foo", b"f1o")
        peers = [made.attach(), made.attach()]
        middle = len(data) // 2
        for piece in (data[:middle], data[middle:]):
            for number, peer in enumerate(peers):
                peer.send_some(piece.replace(b"f1o", b"f%do" % (number + 1)))
            made.settle()
        answers = [peer.receive_all() for peer in peers]
        assert answers[0].replace(b"f1o", b"f2o") == answers[1]
    finally:
        made.close()

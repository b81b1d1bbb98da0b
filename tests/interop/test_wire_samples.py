"""The recorded wire samples are what nats-server answers, however the bytes are cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.normalise import without_pings
from tests.interop.wire import Wire
from tests.servers import Server, running_server
from tests.wire_samples import SAMPLES, Sample

LONG_BYTES = 1000
COMPLETE_SAMPLES = [sample for sample in SAMPLES if sample.complete]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server("nats-server") as running:
        yield running


def answer(server: Server, sample: Sample, data: bytes, chunks: tuple[int, ...] = ()) -> tuple[bytes, bool]:
    """What came back for the data after the sample's CONNECT, and whether the connection was closed."""
    wire = Wire(server.host, server.port)
    wire.read_line()
    if sample.connect:
        wire.write(sample.connect)
        wire.synchronise()
    wire.take()
    wire.write(data, chunks)
    if sample.complete:
        wire.synchronise(data.upper().count(b"PING"))
    else:
        wire.read_until_quiet(sample.answered.count(b"\r\n"))
    received, closed = without_pings(wire.take()), wire.is_closed
    wire.hang_up()
    return received if closed else received.removesuffix(b"PONG\r\nPONG\r\n"), closed


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_nats_server_answers_as_recorded(server: Server, sample: Sample) -> None:
    expected = (sample.answered, sample.closes)
    assert answer(server, sample, sample.sent) == expected
    chunks = (1,) if len(sample.sent) < LONG_BYTES else (1, 97)
    assert answer(server, sample, sample.sent, chunks) == expected


@pytest.mark.parametrize("sample", COMPLETE_SAMPLES, ids=lambda sample: sample.name)
def test_what_trails_a_sample_is_an_operation_of_its_own(server: Server, sample: Sample) -> None:
    expected = sample.answered if sample.closes else sample.answered + b"PONG\r\n"
    assert answer(server, sample, sample.sent + b"PING\r\n") == (expected, sample.closes)


def test_sample_names_are_unique() -> None:
    assert len({sample.name for sample in SAMPLES}) == len(SAMPLES)

"""Subject mappings: which destinations there are, how often each is drawn, what is remembered."""

from __future__ import annotations

from collections import Counter

import pytest

from headrace.accounts.mappings import SubjectMappings
from headrace.config.identity import Destination, Mapping
from headrace.engine.core.mappings import Mappings
from tests.broker.conftest import Start


def mapped(source: str, *destinations: Destination) -> Mappings:
    return Mappings(SubjectMappings([Mapping(source, destinations)]).find)


def drawn(mappings: Mappings, subject: bytes, times: int = 2000) -> Counter[bytes]:
    return Counter(mappings.apply(subject) for _ in range(times))


@pytest.mark.parametrize(
    ("destinations", "expected"),
    [
        ([("y", 100)], {b"y"}),
        ([("y", 0)], {b"x"}),  # all of it stays
        ([("x", 0)], {b""}),  # all of it is lost, since the source is listed
        ([("y", 50)], {b"x", b"y"}),
        ([("x", 10), ("y", 40)], {b"x", b"y", b""}),
        ([("y", 10), ("z", 30)], {b"x", b"y", b"z"}),
    ],
)
def test_what_is_left_stays_unless_the_source_is_listed(
    destinations: list[tuple[str, int]], expected: set[bytes]
) -> None:
    mappings = mapped("x", *(Destination(subject, weight) for subject, weight in destinations))
    assert set(drawn(mappings, b"x")) == expected


def test_weights_are_drawn_for_each_message() -> None:
    """Of 20,000 messages a share of 25 % is within six standard deviations of 5,000."""
    counts = drawn(mapped("x.*", Destination("y.$1", 25), Destination("z.$1", 75)), b"x.1", 20_000)
    assert set(counts) == {b"y.1", b"z.1"}
    assert abs(counts[b"y.1"] - 5000) < 370


def test_a_random_number_is_another_one_each_time() -> None:
    counts = drawn(mapped("x.*", Destination("y.{{random(3)}}.$1")), b"x.1")
    assert set(counts) == {b"y.0.1", b"y.1.1", b"y.2.1"}


def test_destinations_of_other_clusters_do_not_apply() -> None:
    assert set(drawn(mapped("x", Destination("y", 100, "east")), b"x")) == {b"x"}


def test_subjects_that_clients_choose_are_not_remembered_for_ever() -> None:
    asked: list[bytes] = []

    def find(subject: bytes) -> None:
        asked.append(subject)

    mappings = Mappings(find)
    for number in range(40_000):
        subject = b"x.%d" % number
        assert mappings.apply(subject) == subject
        assert mappings.apply(subject) == subject
    assert len(asked) == 40_000
    mappings.apply(b"x.0")
    assert asked[-1] == b"x.0"  # forgotten in the meantime


async def test_a_lost_message_reaches_nobody(start: Start) -> None:
    running = start(mappings=(Mapping("x", (Destination("x", 0),)),))
    client = await running.raw(no_responders=True)
    frames = await client.ask(b"SUB > 1\r\nSUB in 2\r\nPUB x in 1\r\n?\r\nPUB y 1\r\n!\r\n")
    shown = [(frame.subject, frame.headers) for frame in frames]
    assert shown == [(b"in", b"NATS/1.0 503\r\nNats-Subject: \r\n\r\n"), (b"y", b"")]

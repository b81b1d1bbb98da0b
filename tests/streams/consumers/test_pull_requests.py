"""Pull requests: what their bodies mean, which are refused with which words, and who is served next."""

from __future__ import annotations

import pytest

from headrace.streams.config import ConsumerConfig
from headrace.streams.consumers.priority_groups import overflows
from headrace.streams.consumers.pull_queue import PullQueue
from headrace.streams.consumers.pull_request import BadPull, PullRequest, check_limits, parse_request

SECOND = 1_000_000_000


def parse(body: bytes) -> PullRequest:
    return parse_request(b"reply", body, 1000)


@pytest.mark.parametrize(
    ("body", "batch"),
    [
        (b"", 1),
        (b"  ", 1),
        (b"5", 5),
        (b" 12 \r\n", 12),
        (b"-3", -3),
        (b"abc", 1),
        (b'{"batch":7}', 7),
        (b"{}", 0),
    ],
)
def test_a_body_says_how_many(body: bytes, batch: int) -> None:
    assert parse(body).batch == batch


def test_json_is_read_as_go_reads_it() -> None:
    request = parse(b'{"BATCH":3,"expires":5000,"unknown":[1],"max_bytes":null}')
    assert (request.batch, request.expires, request.max_bytes) == (3, 6000, 0)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"batch":"x"}', "Bad Request - json: cannot unmarshal string into Go struct field "),
        (
            b'{"batch":9223372036854775808}',
            "Bad Request - json: cannot unmarshal number 9223372036854775808 into Go struct field ",
        ),
        (
            b'{"max_bytes":-9223372036854775809}',
            "Bad Request - json: cannot unmarshal number -9223372036854775809 into Go struct field ",
        ),
        (b"{", "Bad Request - unexpected end of JSON input"),
        (b'{"expires":100,"idle_heartbeat":60}', "Bad Request - heartbeat value too large"),
    ],
)
def test_bad_json_is_refused(body: bytes, text: str) -> None:
    with pytest.raises(BadPull) as caught:
        parse(body)
    assert caught.value.code == 400
    assert caught.value.description.startswith(text)


@pytest.mark.parametrize(
    ("config", "body", "code", "text"),
    [
        (ConsumerConfig(max_batch=5), b"6", 409, "Exceeded MaxRequestBatch of 5"),
        (
            ConsumerConfig(max_expires=90 * SECOND),
            b'{"expires":91000000000}',
            409,
            "Exceeded MaxRequestExpires of 1m30s",
        ),
        (ConsumerConfig(max_bytes=10), b'{"max_bytes":11}', 409, "Exceeded MaxRequestMaxBytes of 10"),
        (ConsumerConfig(), b'{"min_pending":1}', 400, "Bad Request - Not a Overflow Priority consumer"),
        (ConsumerConfig(), b'{"id":"x"}', 400, "Bad Request - Not a Pinned Client Priority consumer"),
        (ConsumerConfig(), b'{"priority":10}', 400, "Bad Request - Priority must be between 0 and 9"),
        (
            ConsumerConfig(priority_policy="overflow", priority_groups=["A"]),
            b'{"batch":1}',
            400,
            "Bad Request - Priority Group missing",
        ),
        (
            ConsumerConfig(priority_policy="overflow", priority_groups=["A"]),
            b'{"group":"B"}',
            400,
            "Bad Request - Invalid Priority Group",
        ),
    ],
)
def test_what_exceeds_the_consumer_is_refused(
    config: ConsumerConfig, body: bytes, code: int, text: str
) -> None:
    with pytest.raises(BadPull) as caught:
        check_limits(parse(body), config)
    assert (caught.value.code, caught.value.description) == (code, text)


def test_requests_take_turns() -> None:
    queue = PullQueue(10, prioritized=False)
    first, second = parse(b"1"), parse(b"2")
    queue.add(first)
    queue.add(second)
    assert (queue.head, queue.rivals, queue.wanted) == (first, 2, 3)
    queue.rotate()
    assert list(queue) == [second, first]


def test_requests_of_one_client_have_one_receiver() -> None:
    """It gets the same messages in the same order, whichever of them is served."""
    queue = PullQueue(10, prioritized=False)
    queue.add(parse(b"1"))
    queue.add(parse(b"2"))
    assert queue.has_one_receiver
    queue.add(parse_request(b"another", b"3", 1000))
    assert not queue.has_one_receiver


def test_lower_priorities_are_served_first_and_equal_ones_in_turn() -> None:
    queue = PullQueue(10, prioritized=True)
    late, early, other = parse(b'{"priority":5}'), parse(b'{"priority":1}'), parse(b'{"priority":1}')
    plain = parse(b"1")
    for request in (plain, late, early, other):
        queue.add(request)
    assert list(queue) == [early, other, late, plain]
    assert queue.rivals == 2
    queue.rotate()
    assert list(queue) == [other, early, late, plain]


@pytest.mark.parametrize(
    ("body", "num_pending", "num_ack_pending", "expected"),
    [
        (b"{}", 0, 0, True),
        (b'{"min_pending":5}', 4, 100, False),
        (b'{"min_pending":5}', 5, 0, True),
        (b'{"min_pending":5,"min_ack_pending":2}', 1, 2, True),
        (b'{"min_ack_pending":2}', 100, 1, False),
    ],
)
def test_overflow_needs_one_threshold(
    body: bytes, num_pending: int, num_ack_pending: int, expected: bool
) -> None:
    assert overflows(parse(body), num_pending, num_ack_pending) is expected

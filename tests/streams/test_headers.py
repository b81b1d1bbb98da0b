"""The raw header block: what is found in it, and what changing it leaves of the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.streams import headers

BLOCK = b"NATS/1.0\r\nA: 1\r\nNats-Msg-Id:  two words \r\nA: 3\r\nEmpty:\r\n\r\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"A", b"1"),
        (b"Nats-Msg-Id", b"two words "),
        (b"Empty", b""),
        (b"Nats-Msg", None),
        (b"nats-msg-id", None),
        (b"Id", None),
    ],
)
def test_a_header_is_found_by_its_exact_name(name: bytes, value: bytes | None) -> None:
    assert headers.get(BLOCK, name) == value


def test_nothing_is_found_in_no_headers() -> None:
    assert headers.get(b"", b"A") is None
    assert headers.text(b"", b"A") == b""


def test_a_header_is_added_at_the_end() -> None:
    assert headers.append(b"", b"B", b"2") == b"NATS/1.0\r\nB: 2\r\n\r\n"
    assert headers.append(BLOCK, b"B", b"2") == BLOCK[:-2] + b"B: 2\r\n\r\n"


def test_a_value_forges_no_header() -> None:
    assert headers.append(b"", b"B", b"x\r\nC: 1") == b"NATS/1.0\r\nB: x  C: 1\r\n\r\n"


def test_a_header_is_replaced_in_place() -> None:
    assert headers.replace(BLOCK, b"A", b"longer") == BLOCK.replace(b"A: 1", b"A: longer")
    assert headers.replace(BLOCK, b"New", b"x") == BLOCK[:-2] + b"New: x\r\n\r\n"


def test_all_headers_of_a_name_are_removed() -> None:
    assert headers.remove(BLOCK, b"A") == b"NATS/1.0\r\nNats-Msg-Id:  two words \r\nEmpty:\r\n\r\n"
    assert headers.remove(b"NATS/1.0\r\nA: 1\r\n\r\n", b"A") == b""


def test_a_line_without_an_end_stays() -> None:
    assert headers.remove(b"NATS/1.0\r\nA: 1", b"A") == b"NATS/1.0\r\nA: 1"
    assert headers.remove_prefixed(b"NATS/1.0\r\nA: 1", b"A") == b"NATS/1.0\r\nA: 1"


def test_headers_are_removed_by_their_prefix() -> None:
    block = b"NATS/1.0\r\nNats-Schedule: x\r\nNats-Scheduler: y\r\nB: Nats-Schedule\r\n\r\n"
    assert headers.remove_prefixed(block, b"Nats-Schedule") == b"NATS/1.0\r\nB: Nats-Schedule\r\n\r\n"
    assert headers.remove_prefixed(b"NATS/1.0\r\nNats-Batch-Id: x\r\n\r\n", b"Nats-Batch-") == b""


def test_a_status_is_stripped() -> None:
    assert headers.strip_status(b"NATS/1.0 503\r\n\r\n") == b""
    assert headers.strip_status(b"NATS/1.0 100 Idle\r\nA: 1\r\n\r\n") == b"NATS/1.0\r\nA: 1\r\n\r\n"
    assert headers.strip_status(BLOCK) == BLOCK


@pytest.mark.parametrize(
    ("digits", "number"),
    [(b"12", 12), (b"-1", 2**64 - 1), (b"", 2**64 - 1), (b"1x", 2**64 - 1), (b"%d" % (2**64 + 5), 5)],
)
def test_sequences(digits: bytes, number: int) -> None:
    assert headers.parse_sequence(digits) == number


@pytest.mark.parametrize(("level", "refused"), [(b"5", False), (b"6", True), (b"x", True), (b"", False)])
def test_a_newer_api_is_refused(level: bytes, refused: bool) -> None:
    block = headers.append(b"", headers.REQUIRED_API_LEVEL, level)
    assert headers.is_level_too_high(block) is refused


@given(st.binary(max_size=60), st.sampled_from([b"A", b"Nats-Msg-Id"]))
def test_any_bytes_are_survived(block: bytes, name: bytes) -> None:
    for damaged in (block, b"NATS/1.0\r\n" + block, b"NATS/1.0\r\n" + block + b"\r\n\r\n"):
        headers.get(damaged, name)
        headers.remove(damaged, name)
        headers.remove_prefixed(damaged, name)
        headers.replace(damaged, name, b"x")
        headers.strip_status(damaged)
    assert headers.get(headers.remove(b"NATS/1.0\r\n" + block + b"\r\n\r\n", name), name) is None

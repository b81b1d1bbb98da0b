"""Rules of publishes that need no stream: lifetimes, schedules, numbers, batches' reply subjects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.streams import headers
from headrace.streams.config import External, StreamSource, SubjectTransform
from headrace.streams.errors import ApiError
from headrace.streams.ingest.counters import Total, count, format_number, parse_number
from headrace.streams.ingest.fast_batches import Order, parse_order
from headrace.streams.ingest.publication import Publication
from headrace.streams.ingest.schedules import parse_pattern
from headrace.streams.ingest.ttl import NEVER, parse_ttl
from headrace.streams.origins.source import index_name, short_hash
from headrace.streams.origins.source_positions import Position, parse_header

SECOND = 10**9
FAR = 4_000_000_000 * SECOND


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(b"60", 60), (b"1h", 3600), (b"1.5s", 1), (b"never", NEVER), (b"Never", NEVER), (b"1h30m", 5400)],
)
def test_lifetimes(value: bytes, seconds: int) -> None:
    assert parse_ttl(value) == seconds


@pytest.mark.parametrize("value", [b"0", b"0s", b"999ms", b"-1", b"x", b"1d", b"", b"\xff", b"9" * 100])
def test_invalid_lifetimes(value: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        parse_ttl(value)
    assert caught.value.err_code == 10165


def test_schedules() -> None:
    assert parse_pattern("@at 2099-01-01T00:00:00Z", None, 0).repeats is False
    every = parse_pattern("@every 90s", None, FAR + 1)
    assert (every.time, every.repeats) == (FAR + 90 * SECOND, True)
    assert parse_pattern("@hourly", None, FAR).time == FAR - FAR % (3600 * SECOND) + 3600 * SECOND


def test_a_schedule_that_was_missed_continues_from_now() -> None:
    assert parse_pattern("@every 1s", None, 0).time > 1_700_000_000 * SECOND
    assert parse_pattern("* * * * * *", None, 0).time > 1_700_000_000 * SECOND


@given(st.integers(), st.integers(0, 20000))
def test_numbers_of_any_length_survive(value: int, zeros: int) -> None:
    text = format_number(value) + b"0" * zeros
    number = parse_number(text)
    assert number is not None
    assert format_number(number) == text.lstrip(b"0") or (value == 0 and number == 0)


@pytest.mark.parametrize("text", [b"", b"+", b"1.0", b"0x1", b"1_0", b" 1", b"\xb2"])
def test_what_is_no_number(text: bytes) -> None:
    assert parse_number(text) is None


def test_a_counter_adds_what_another_stream_has_more_than_before() -> None:
    source = headers.append(b"", headers.INCREMENT, b"1")
    source = headers.append(source, headers.STREAM_SOURCE, b"ORIGIN 7 > > o.a IDENT")
    publication = Publication(b"s.a", b"", source, b'{"val":"10"}', is_sourced=True, increment=1)
    total = count(publication, Total(100, {"ORIGIN": {"o.a": "4"}, "A": {"x": "1"}}))
    assert total.sum == 106
    assert publication.payload == b'{"val":"106"}'
    assert headers.get(publication.headers, headers.INCREMENT) == b"6"
    assert (
        headers.get(publication.headers, headers.COUNTER_SOURCES) == b'{"A":{"x":"1"},"ORIGIN":{"o.a":"10"}}'
    )


def test_the_reply_subject_of_a_fast_batch() -> None:
    assert parse_order(b"_INBOX.x.ID.100.fail.1.0.$FI") == Order(b"ID", 100, False, 1, 0)
    assert parse_order(b"p.ID.0.ok.5.2.$FI") == Order(b"ID", 10, True, 5, 2)
    assert parse_order(b"p.ID.99999999.ok.5.2.$FI") == Order(b"ID", 65535, True, 5, 2)


@pytest.mark.parametrize(
    "reply",
    [
        b".$FI",
        b"p.ID.10.fail.1.$FI",
        b"p.ID.10.maybe.1.0.$FI",
        b"p.ID.10.fail.0.0.$FI",
        b"p.ID.10.fail.2.0.$FI",
        b"p.ID.10.fail.1.1.$FI",
        b"p.ID.10.fail.1.3.$FI",
        b"p.ID.10.fail.1.5.$FI",
        b"p.ID.10.fail.x.1.$FI",
        b"p.ID.10.fail.18446744073709551615.1.$FI",
    ],
)
def test_reply_subjects_that_belong_to_no_fast_batch(reply: bytes) -> None:
    assert parse_order(reply) is None


def test_sources_are_told_apart_by_what_they_take() -> None:
    assert index_name(StreamSource(name="A")) == "A > >"
    assert index_name(StreamSource(name="A", filter_subject="x.*")) == "A x.* >"
    transforms = [SubjectTransform(src="x", dest="y"), SubjectTransform(src="z", dest="")]
    assert index_name(StreamSource(name="A", subject_transforms=transforms)) == "A x\fz y\f>"
    elsewhere = StreamSource(name="A", external=External(api="$JS.hub.API", deliver=""))
    assert index_name(elsewhere) == f"A:{short_hash('$JS.hub.API')} > >"


def test_where_a_sourced_message_came_from() -> None:
    block = headers.append(b"", headers.STREAM_SOURCE, b"A 12 x.* > x.y IDENT")
    assert parse_header(block) == ("A x.* >", Position(12, "IDENT"))
    assert parse_header(headers.append(b"", headers.STREAM_SOURCE, b"A 12 > >")) == ("A > >", Position(12))
    assert parse_header(headers.append(b"", headers.STREAM_SOURCE, b"A x > >")) is None
    assert parse_header(headers.append(b"", headers.STREAM_SOURCE, "A \u00b2 > >".encode())) is None
    assert parse_header(b"") is None

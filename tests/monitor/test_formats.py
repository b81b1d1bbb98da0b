import pytest

from headrace.go_formats import format_time, quote
from headrace.monitor.documents import encode_pieces
from headrace.monitor.formats import format_round_trip, format_uptime, plain_number
from headrace.monitor.query import BadQuery, decode_bool, decode_int, decode_uint64, parse_query

SECOND = 10**9
DAY = 86400 * SECOND


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (1794775086_135721580, "2026-11-15T20:38:06.13572158Z"),
    ],
)
def test_times_have_nanoseconds_without_trailing_zeros(nanoseconds: int, text: str) -> None:
    assert format_time(nanoseconds) == text


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (-5, "0s"),
        (SECOND - 1, "0s"),
        (61 * SECOND, "1m1s"),
        (3600 * SECOND, "1h0m0s"),
        (DAY + SECOND, "1d0h0m1s"),
        (365 * DAY, "1y0d0h0m0s"),
        (800 * DAY + 3723 * SECOND, "2y70d1h2m3s"),
    ],
)
def test_uptimes_show_the_units_that_are_needed(nanoseconds: int, text: str) -> None:
    assert format_uptime(nanoseconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0s"), (0.000867123, "867µs"), (0.002159084, "2.159084ms"), (1.5, "1.5s")],
)
def test_round_trips_are_go_durations(seconds: float, text: str) -> None:
    assert format_round_trip(seconds) == text


def test_whole_numbers_have_no_fraction() -> None:
    assert repr(plain_number(2.0)) == "2"
    assert plain_number(0.5) == 0.5


def test_documents_are_indented_and_escaped_as_by_go() -> None:
    document = {"a": [], "b": {}, "c": iter([{"d": "<&>\u2028é"}, 1]), "e": None, "f": iter([])}
    assert b"".join(encode_pieces(document)).decode() == (
        '{\n  "a": [],\n  "b": {},\n'
        '  "c": [\n    {\n      "d": "\\u003c\\u0026\\u003e\\u2028é"\n    },\n    1\n  ],\n'
        '  "e": null,\n  "f": []\n}'
    )


def test_queries_are_read_as_by_go() -> None:
    query = parse_query("a=1&a=2&b=%zz&c=x;y&d=1+2%2B&&e&%66=f")
    assert query == {"a": "1", "d": "1 2+", "e": "", "f": "f"}


@pytest.mark.parametrize(
    "digits",
    ["9223372036854775808", "-9223372036854775809", "1" * 50_000, "1_0", " 1", "\u0661", "0x1", "+", "1.0"],
)
def test_a_number_that_is_none_or_too_large_is_refused(digits: str) -> None:
    with pytest.raises(BadQuery, match="Error decoding int for 'limit'"):
        decode_int({"limit": digits}, "limit")


@pytest.mark.parametrize("digits", ["18446744073709551616", "-1", "+1", "9" * 50_000, "x"])
def test_an_unsigned_number_has_no_sign(digits: str) -> None:
    with pytest.raises(BadQuery, match="Error decoding uint64 for 'cid'"):
        decode_uint64({"cid": digits}, "cid")


def test_numbers_reach_to_the_ends_of_their_types() -> None:
    assert decode_int({"n": "-9223372036854775808"}, "n") == -(2**63)
    assert decode_int({"n": "+9223372036854775807"}, "n") == 2**63 - 1
    assert decode_uint64({"n": "18446744073709551615"}, "n") == 2**64 - 1


def test_truth_has_the_spellings_of_go() -> None:
    assert [decode_bool({"b": text}, "b") for text in ("t", "True", "0", "F", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    with pytest.raises(BadQuery):
        decode_bool({"b": "tRUE"}, "b")


def test_quoted_texts_show_what_cannot_be_printed() -> None:
    assert quote('é"\\\n\x00\x7f\u2028\U000e0001\udcff') == r'"é\"\\\n\x00\x7f\u2028\U000e0001\xff"'

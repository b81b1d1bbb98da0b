"""Durations in Go's notation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds", "printed"),
    [
        ("0", 0.0, "0s"),
        ("1s", 1.0, "1s"),
        ("+5s", 5.0, "5s"),
        ("-5s", -5.0, "-5s"),
        ("1.5s", 1.5, "1.5s"),
        (".5s", 0.5, "500ms"),
        ("1.s", 1.0, "1s"),
        ("100ms", 0.1, "100ms"),
        ("1h30m", 5400.0, "1h30m0s"),
        ("2m", 120.0, "2m0s"),
        ("10us", 1e-5, "10µs"),
        ("3ns", 3e-9, "3ns"),
        ("1h0m0.5s", 3600.5, "1h0m0.5s"),
    ],
)
def test_durations(text: str, seconds: float, printed: str) -> None:
    assert parse_duration(text) == seconds
    assert format_duration(seconds) == printed


@pytest.mark.parametrize(
    "text", ["", "-", "5", "s", ".s", "5x", "5 s", "1h30", "s5", "1e3s", "9" * 5000 + "s", "300000000h"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"^time: "):
        parse_duration(text)


@given(st.integers(-(10**12), 10**12).map(lambda milliseconds: milliseconds / 1000))
def test_a_printed_duration_reads_back(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds

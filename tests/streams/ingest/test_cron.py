"""Cron patterns: when they fire next, in any time zone, and which patterns are none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streams.ingest.cron import next_time

BERLIN = ZoneInfo("Europe/Berlin")


def after(pattern: str, moment: str, zone: ZoneInfo | None = None) -> str:
    start = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    found = next_time(pattern, zone or UTC, int(start.timestamp()) * 10**9)
    return datetime.fromtimestamp(found // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@pytest.mark.parametrize(
    ("pattern", "moment", "expected"),
    [
        ("* * * * * *", "2026-01-01T00:00:00", "2026-01-01T00:00:01"),
        ("0 0 * * * *", "2026-01-01T00:00:00", "2026-01-01T01:00:00"),
        ("0 0 0 * * *", "2026-12-31T12:00:00", "2027-01-01T00:00:00"),
        ("*/15 * * * * *", "2026-01-01T00:00:14", "2026-01-01T00:00:15"),
        ("5/20 * * * * *", "2026-01-01T00:00:26", "2026-01-01T00:00:45"),
        ("0 30 9-17/4 * * *", "2026-01-01T10:00:00", "2026-01-01T13:30:00"),
        ("0 0 0 1 jan *", "2026-01-01T00:00:00", "2027-01-01T00:00:00"),
        ("0 0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 0 0 * * mon", "2026-01-01T00:00:00", "2026-01-05T00:00:00"),
        ("0 0 0 15 * fri", "2026-01-10T00:00:00", "2026-01-15T00:00:00"),  # one of them suffices
        ("0 0 0 */2 * fri", "2026-01-10T00:00:00", "2026-01-11T00:00:00"),
        ("0 0 0 ? * FRI", "2026-01-10T00:00:00", "2026-01-16T00:00:00"),
    ],
)
def test_next_times(pattern: str, moment: str, expected: str) -> None:
    assert after(pattern, moment) == expected


def test_a_time_zone_moves_the_clock() -> None:
    assert after("0 0 12 * * *", "2026-07-01T00:00:00", BERLIN) == "2026-07-01T10:00:00"


def test_an_hour_that_a_zone_skips_does_not_fire() -> None:
    assert after("0 30 2 * * *", "2026-03-29T00:00:00", BERLIN) == "2026-03-30T00:30:00"


def test_an_hour_that_a_zone_repeats_fires_twice() -> None:
    assert after("0 30 2 * * *", "2026-10-25T00:00:00", BERLIN) == "2026-10-25T00:30:00"
    assert after("0 30 2 * * *", "2026-10-25T00:30:00", BERLIN) == "2026-10-25T01:30:00"


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "* * * * *",
        "60 * * * * *",
        "* * * 0 * *",
        "* * * * 13 *",
        "* * * * * 7",
        "5-1 * * * * *",
        "1-2-3 * * * * *",
        "*/0 * * * * *",
        "1/2/3 * * * * *",
        "x * * * * *",
        "-1 * * * * *",
        "1_0 * * * * *",
        "0 0 0 30 2 *",
        ", * * * * *",
    ],
)
def test_patterns_that_never_fire(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        next_time(pattern, UTC, 0)


_TWO = st.tuples(st.integers(0, 59), st.integers(1, 30)).map(lambda pair: f"{pair[0]}/{pair[1]}")
_MINUTES = st.one_of(st.just("*"), _TWO, st.integers(0, 59).map(str))
_HOURS = st.one_of(st.just("*"), st.integers(0, 23).map(str))


@settings(max_examples=60, deadline=None)
@given(_MINUTES, _HOURS, st.integers(0, 3600 * 24 * 365))
def test_nothing_that_fits_is_left_out(minutes: str, hours: str, offset: int) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=offset)
    found = next_time(f"0 {minutes} {hours} * * *", BERLIN, int(start.timestamp()) * 10**9)
    moment = start.replace(second=0) + timedelta(minutes=1)
    low, _, step = minutes.partition("/")
    allowed = (
        set(range(60)) if minutes == "*" else set(range(int(low), 60, int(step))) if step else {int(low)}
    )
    while True:
        local = moment.astimezone(BERLIN)
        if local.minute in allowed and (hours == "*" or local.hour == int(hours)):
            break
        moment += timedelta(minutes=1)
    assert datetime.fromtimestamp(found // 10**9, UTC) == moment

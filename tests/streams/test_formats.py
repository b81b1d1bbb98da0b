"""Times on the wire: what is read can be written again."""

from __future__ import annotations

import pytest

from headrace.streams.formats import ZERO_TIME, format_time, parse_time


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (ZERO_TIME, ZERO_TIME),
        ("0001-01-01T00:00:00.5Z", "0001-01-01T00:00:00.5Z"),
        ("2026-11-15T23:20:13.504390754+01:00", "2026-11-15T22:20:13.504390754Z"),
        ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"),
        ("9999-12-31T23:59:59.999999999+12:00", "9999-12-31T11:59:59.999999999Z"),
        # In UTC these have no year of four digits: pausing a consumer until then was an internal error.
        ("9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59.999999999Z"),
        ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z"),
    ],
)
def test_a_time_that_is_read_can_be_written(text: str, written: str) -> None:
    assert format_time(parse_time(text)) == written

"""Times on the wire: what is read can be written again."""

from __future__ import annotations

import re

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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('a"b', r'parsing time "a\"b" as "2006-01-02T15:04:05Z07:00": cannot parse "a\"b" as "2006"'),
        (
            "\t",
            r'parsing time "\x09" as "2006-01-02T15:04:05Z07:00": cannot parse "\x09" as "2006"',
        ),
        (
            "2020-01-01T00:00:00Z\x7fé",
            'parsing time "2020-01-01T00:00:00Z\x7f\\xc3\\xa9": extra text: "\x7f\\xc3\\xa9"',
        ),
        ("2020-01-41T00:00:00Z", 'parsing time "2020-01-41T00:00:00Z": day out of range'),
    ],
)
def test_a_wrong_time_is_refused_in_the_words_of_go(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_time(text)

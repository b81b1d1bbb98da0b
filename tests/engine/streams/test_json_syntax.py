"""The syntax of JSON: right where Python's own parser says so, explained otherwise, and weighed."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.engine.streams.json_syntax import examine

DECODER = json.JSONDecoder(parse_constant=int)  # which refuses NaN and the like
PIECES = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    '"a"',
    "0",
    "-1.5e+3",
    ".",
    "true",
    "nul",
    "\\u12",
    "\\n",
    "é",
    " ",
    "\n",
]
TEXTS = st.builds("".join, st.lists(st.sampled_from(PIECES), max_size=12))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


def is_right(text: str) -> bool:
    """Any number of values, one after another."""
    place = 0
    try:
        while place < len(text):
            if text[place] in " \t\r\n":
                place += 1
            else:
                _, place = DECODER.raw_decode(text, place)
    except ValueError:
        return False
    return True


@given(TEXTS)
@example('{"a":[1,{}]} []')
@example('"\\u12')
@example("[1,]")
def test_it_finds_a_fault_where_python_finds_one(text: str) -> None:
    assert (examine(text.encode())[0] == "") == is_right(text)


@given(VALUES, st.booleans())
def test_what_is_written_has_no_fault_until_it_is_cut(value: object, is_ascii: bool) -> None:
    data = json.dumps([value], ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    assert examine(data)[0] == ""
    for place in range(1, len(data)):
        assert examine(data[:place])[0] == "unexpected EOF"


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("", 0),
        ('"a"', 4),
        ("[]", 8),
        ("{}{} {}", 24),
        ('{"a":"b"}', 20),
        ('{"a":[1,true,null,"x","y"]}', 8 + 8 + 8 + 3 * 8 + 2 * 4),
    ],
)
def test_a_string_weighs_less_than_other_values(text: str, weight: int) -> None:
    assert examine(text.encode()) == ("", weight)


@pytest.mark.parametrize(("depth", "fault"), [(10_000, ""), (10_001, "exceeded max depth at offset 10001")])
def test_nesting_has_a_limit(depth: int, fault: str) -> None:
    assert examine(b"[" * depth + b"]" * depth)[0] == fault

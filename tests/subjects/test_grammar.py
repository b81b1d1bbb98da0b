"""The grammar of subjects: what is valid, what matches, overlaps and is a subset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.subjects import grammar


@pytest.mark.parametrize(
    "subject", ["foo", "foo.bar", "*", ">", "foo.*.>", "foo*", "foo>.bar", "$JS.>", "é.ü"]
)
def test_valid_subjects(subject: str) -> None:
    assert grammar.is_valid_subject(subject)


@pytest.mark.parametrize(
    "subject",
    ["", ".", "foo.", ".foo", "foo..bar", ">.foo", "foo.>.bar", "foo bar", "\t", "a.b\r", "a.\n", " "],
)
def test_invalid_subjects(subject: str) -> None:
    assert not grammar.is_valid_subject(subject)


@pytest.mark.parametrize(
    ("subject", "literal"),
    [("foo", True), ("foo*.>x", True), ("foo.*", False), (">", False), ("foo..x", False), ("", False)],
)
def test_literal_subjects(subject: str, literal: bool) -> None:
    assert grammar.is_valid_literal(subject) is literal


@pytest.mark.parametrize(
    ("subject", "of", "subset"),
    [
        ("foo.bar", "foo.bar", True),
        ("foo.bar", "foo.*", True),
        ("foo.bar", ">", True),
        ("foo.bar", "foo.>", True),
        ("foo", "foo.>", False),
        ("foo.bar.baz", "foo.*", False),
        ("foo.*", ">", True),
        ("foo.*", "*.*", True),
        ("foo.*", "foo.bar", False),
        ("foo.>", "foo.*", False),
        ("foo.>", "foo.>", True),
        (">", "*.>", False),
        ("*.>", ">", True),
    ],
)
def test_subsets(subject: str, of: str, subset: bool) -> None:
    assert grammar.is_subset(subject, of) is subset


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("foo", "foo", True),
        ("foo", "bar", False),
        ("foo.*", "*.bar", True),
        ("foo.*", "bar.*", False),
        ("foo.*", "foo.*.*", False),
        ("foo.>", "foo.*.*", True),
        ("foo.>", "foo", False),
        ("foo.>", ">", True),
        ("*.*", "foo.>", True),
        ("*", "foo.>", False),
        ("foo.*.bar", "foo.>", True),
        ("foo.bar", "foo.*", True),
    ],
)
def test_overlaps(first: str, second: str, expected: bool) -> None:
    assert grammar.overlap(first, second) is expected
    assert grammar.overlap(second, first) is expected


_LITERALS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map(".".join)
_PATTERNS = st.builds(
    lambda tokens, tail: ".".join(tokens + tail),
    st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=3),
    st.sampled_from([[], [">"]]),
)


@given(_LITERALS, _PATTERNS, _PATTERNS)
def test_a_subject_that_matches_both_makes_them_overlap_and_one_that_matches_the_subset_matches_the_set(
    subject: str, first: str, second: str
) -> None:
    if grammar.matches(subject, first) and grammar.matches(subject, second):
        assert grammar.overlap(first, second)
    if grammar.is_subset(first, second) and grammar.matches(subject, first):
        assert grammar.matches(subject, second)


@given(st.binary())
def test_decoding_loses_nothing(subject: bytes) -> None:
    assert grammar.encode(grammar.decode(subject)) == subject

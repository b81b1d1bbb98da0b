"""The tree of taken subjects must find what comparing each with each finds, and never take long."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from headrace.streams.errors import ApiError
from headrace.streams.subject_tree import FilterTree, SubjectTree
from headrace.subjects.grammar import is_subset, is_valid_subject, overlap

TOKENS = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=4)
SUBJECTS = st.builds(lambda tokens, end: ".".join(tokens + end), TOKENS, st.sampled_from([[], [">"]]))


@given(taken=st.lists(SUBJECTS, max_size=6), subject=SUBJECTS)
def test_it_finds_the_overlaps_that_comparing_each_with_each_finds(taken: list[str], subject: str) -> None:
    tree = SubjectTree()
    for place, each in enumerate(taken):
        tree.add(each, str(place))
    for place in range(len(taken) + 1):
        assert tree.overlaps(subject) == any(overlap(subject, each) for each in taken[place:])
        if place < len(taken):
            tree.discard(taken[place], str(place))


FILTER_TOKENS = st.lists(st.sampled_from(["a", "b", "*", "*a", ">", ""]), min_size=1, max_size=4)
FILTERS = st.builds(".".join, FILTER_TOKENS)


@given(st.lists(FILTERS, max_size=6), FILTERS)
@example(["a.a", ">."], "a")
def test_it_finds_the_filters_that_comparing_each_with_each_finds(filters: list[str], subject: str) -> None:
    """Those that are looked at are valid; those that are looked for need not be."""
    assume(is_valid_subject(subject))
    tree = FilterTree()
    for place, each in enumerate([*filters, subject]):
        tree.add(each, str(place))
    assert tree.covers(subject, but=str(len(filters))) == any(is_subset(subject, each) for each in filters)


def test_very_many_filters_are_compared_in_few_steps() -> None:
    """One filter of 10,000 after another, each with all others, kept the server busy for a minute."""
    filters = [f"orders.{number}.*" for number in range(10_000)]
    tree = FilterTree(steps=10 * len(filters))
    for place, subject in enumerate(filters):
        tree.add(subject, str(place))
    assert not any(tree.covers(subject, but=str(place)) for place, subject in enumerate(filters))


def test_a_subject_with_an_empty_token_is_not_in_the_tree() -> None:
    tree = SubjectTree()
    for subject in ("a..b", "a", "", ".", "a."):
        tree.add(subject, "b")
    tree.discard("a..b", "b")
    assert tree.overlaps("a")
    tree.discard("a", "b")
    assert not tree.overlaps(">")


def test_an_owner_may_overlap_with_itself() -> None:
    tree = SubjectTree()
    for subject in ("a.*", "b.>"):
        tree.add(subject, "A")
    for subject in ("a.b", "a.>", "b.c", ">", "*.*"):
        assert tree.overlaps(subject)
        assert not tree.overlaps(subject, but="A")


def test_a_search_that_takes_too_long_is_given_up() -> None:
    tree = SubjectTree(steps=10_000)
    for number in range(1000):
        tree.add(f"a{number}.*.x", str(number))
    assert not any(tree.overlaps(f"*.b{number}.y") for number in range(3))
    with pytest.raises(ApiError):
        any(tree.overlaps(f"*.b{number}.y") for number in range(1000))

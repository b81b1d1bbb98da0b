"""The tree of taken subjects must find what comparing each with each finds, and never take long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.streams.errors import ApiError
from headrace.streams.subject_tree import SubjectTree
from headrace.subjects.grammar import overlap

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

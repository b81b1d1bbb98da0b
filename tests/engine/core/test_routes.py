"""The cache of routes: what is in it, and what a change of interest leaves in it."""

from __future__ import annotations

import pytest

from tests.engine.core.subscriptions import Trie

JOURNAL = 64  # wildcard changes that a cached route can catch up with


@pytest.fixture
def trie() -> Trie:
    return Trie()


def cache(trie: Trie, subject: bytes) -> None:
    """A subject is cached when it comes again after others."""
    for one in (subject, b"another", subject):
        trie.found(one)


def test_a_route_is_cached_when_its_subject_comes_again(trie: Trie) -> None:
    trie.add(b"foo")
    for _ in range(5):
        trie.found(b"foo")
    assert (trie.interest.matches, trie.interest.cache_hits, trie.interest.cached_routes) == (5, 4, 0)
    cache(trie, b"foo")
    assert (trie.interest.matches, trie.interest.cache_hits, trie.interest.cached_routes) == (8, 5, 1)
    trie.found(b"another one")
    trie.found(b"foo")
    assert (trie.interest.matches, trie.interest.cache_hits, trie.interest.cached_routes) == (10, 6, 1)


def test_subjects_that_come_once_replace_nothing(trie: Trie) -> None:
    trie.add(b">")
    cache(trie, b"foo")
    for number in range(20_000):
        assert trie.found(b"inbox.%d" % number) == [b">"]
    assert trie.interest.cached_routes == 1
    hits = trie.interest.cache_hits
    assert trie.found(b"foo") == [b">"]
    assert trie.interest.cache_hits == hits + 1


@pytest.mark.parametrize("pattern", [b"foo", b"*", b">"])
def test_the_route_of_a_subject_that_came_once_is_not_used_after_a_change(trie: Trie, pattern: bytes) -> None:
    trie.add(b"foo")
    assert trie.found(b"foo") == [b"foo"]
    added = trie.add(pattern)
    assert trie.found(b"foo") == sorted([b"foo", pattern])
    trie.discard(added)
    assert trie.found(b"foo") == [b"foo"]


def test_interest_that_does_not_match_leaves_a_route_cached(trie: Trie) -> None:
    trie.add(b"foo.bar")
    cache(trie, b"foo.bar")
    for other in (b"bar", b"bar.*", b"bar.>", b"foo.*.x", b"*"):
        trie.add(other)
        hits = trie.interest.cache_hits
        assert trie.found(b"foo.bar") == [b"foo.bar"]
        assert trie.interest.cache_hits == hits + 1


@pytest.mark.parametrize("pattern", [b"foo.bar", b"foo.*", b"*.bar", b"foo.>", b">", b"*.*"])
@pytest.mark.parametrize("queue", [None, b"q"])
def test_interest_that_matches_reaches_a_cached_route(
    trie: Trie, pattern: bytes, queue: bytes | None
) -> None:
    def count() -> int:
        plain, queues = trie.interest.match(b"foo.bar")
        return len(plain) + sum(map(len, queues))

    assert count() == 0
    first = trie.add(pattern, queue)
    assert count() == 1
    second = trie.add(pattern, queue)
    assert count() == 2
    trie.discard(first)
    assert count() == 1
    trie.discard(second)
    assert count() == 0


@pytest.mark.parametrize("changes", [1, JOURNAL - 1, JOURNAL, JOURNAL + 1, 2 * JOURNAL, 3 * JOURNAL + 5])
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_a_route_that_slept_through_many_wildcard_changes_is_right(
    trie: Trie, changes: int, place: float
) -> None:
    trie.add(b"foo.bar")
    assert trie.found(b"foo.bar") == [b"foo.bar"]
    for change in range(changes):
        trie.add(b"foo.*" if change == int(place * (changes - 1)) else b"other.*")
    assert trie.found(b"foo.bar") == [b"foo.*", b"foo.bar"]


def test_changes_between_uses_are_not_counted_twice(trie: Trie) -> None:
    trie.add(b"foo")
    cache(trie, b"foo")
    for _ in range(3 * JOURNAL):
        trie.add(b"other.*")
        trie.found(b"foo")
    assert trie.interest.cache_hits == 3 * JOURNAL


def test_more_subjects_than_the_cache_has_places(trie: Trie) -> None:
    trie.add(b"n.*")
    trie.add(b"n.17")
    for round_number in range(2):
        for number in range(20_000):
            expected = [b"n.*", b"n.17"] if number == 17 else [b"n.*"]
            assert trie.found(b"n.%d" % number) == expected, round_number
    assert trie.interest.cached_routes <= 8192

"""The trie of subscriptions and the routes cached from it."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from headrace.engine.core.interest import Interest
from headrace.engine.core.trie import InvalidSubject, Subscription
from tests.model import matches

JOURNAL = 64  # wildcard changes that a cached route can catch up with


class Trie:
    """An Interest and the subscriptions in it (it only borrows them)."""

    def __init__(self) -> None:
        self.interest = Interest()
        self.kept: list[Subscription] = []

    def add(self, subject: bytes, queue: bytes | None = None, sid: bytes = b"1") -> Subscription:
        subscription = Subscription(subject, queue, sid)
        self.kept.append(subscription)
        self.interest.add(subscription)
        return subscription

    def discard(self, subscription: Subscription) -> None:
        self.interest.discard(subscription)

    def found(self, subject: bytes) -> list[bytes]:
        """The subjects of the plain subscriptions that match, sorted."""
        plain, _ = self.interest.match(subject)
        return sorted(subscription.subject for subscription in plain)

    def groups(self, subject: bytes) -> dict[bytes | None, int]:
        """The queue groups that match, and how many members each has."""
        _, queues = self.interest.match(subject)
        assert all(len({member.queue for member in members}) == 1 for members in queues)
        return {members[0].queue: len(members) for members in queues}


@pytest.fixture
def trie() -> Trie:
    return Trie()


@pytest.mark.parametrize(
    ("pattern", "subject", "does_match"),
    [
        (b"foo", b"foo", True),
        (b"foo", b"fo", False),
        (b"foo", b"fooo", False),
        (b"foo", b"Foo", False),
        (b"foo", b"foo.bar", False),
        (b"foo.bar", b"foo.bar", True),
        (b"foo.bar", b"foo", False),
        (b"*", b"foo", True),
        (b"*", b"foo.bar", False),
        (b"*.*", b"foo.bar", True),
        (b"foo.*", b"foo.bar", True),
        (b"foo.*", b"foo", False),
        (b"foo.*", b"foo.bar.baz", False),
        (b"*.bar", b"foo.bar", True),
        (b"foo.*.baz", b"foo.bar.baz", True),
        (b"foo.*.baz", b"foo.bar.qux", False),
        (b">", b"foo", True),
        (b">", b"foo.bar.baz", True),
        (b"foo.>", b"foo", False),
        (b"foo.>", b"foo.bar", True),
        (b"foo.>", b"foo.bar.baz", True),
        (b"*.>", b"foo", False),
        (b"*.>", b"foo.bar", True),
        (b"foo.*.>", b"foo.bar", False),
        (b"foo.*.>", b"foo.bar.baz", True),
        (b"foo*", b"foo*", True),
        (b"foo*", b"foobar", False),
        (b"f>", b"f>", True),
        (b"f>.x", b"f>.x", True),
        (b"**", b"**", True),
        (b"**", b"a", False),
        (b"*", b"*", True),
        (b"a.*", b"a.>", True),
        (b"\xff\x00\x80", b"\xff\x00\x80", True),
    ],
)
def test_a_pattern_matches_token_by_token(
    trie: Trie, pattern: bytes, subject: bytes, does_match: bool
) -> None:
    trie.add(pattern)
    for _ in range(2):  # from the trie, then from the cached route
        assert trie.found(subject) == ([pattern] if does_match else [])
    assert matches(pattern, subject) is does_match


@pytest.mark.parametrize("subject", [b"", b".", b".a", b"a.", b"a..b", b">.a", b"a.>.b", b">.>", b"*..a"])
def test_an_invalid_subject_is_refused_and_changes_nothing(trie: Trie, subject: bytes) -> None:
    trie.add(b"a.b")
    nodes = trie.interest.node_count
    with pytest.raises(InvalidSubject):
        trie.interest.add(Subscription(subject, None, b"1"))
    assert (trie.interest.count, trie.interest.inserts, trie.interest.node_count) == (1, 1, nodes)
    assert trie.found(b"a.b") == [b"a.b"]


@pytest.mark.parametrize("subject", [b"", b".", b".foo", b"foo.", b"foo..bar", b"..", b"foo.bar."])
def test_a_publish_with_an_empty_token_reaches_nobody(trie: Trie, subject: bytes) -> None:
    for pattern in (b">", b"*", b"*.*", b"foo.>", b"foo.*", b"*.>", b"foo", b"foo.bar"):
        trie.add(pattern)
    assert trie.found(subject) == []


def test_all_patterns_that_match_are_found(trie: Trie) -> None:
    patterns = [b"a.b.c", b"a.*.c", b"*.*.*", b"a.>", b">", b"a.b.*", b"a.b", b"*", b"b.>", b"a.b.c.d"]
    for pattern in patterns:
        trie.add(pattern)
    assert trie.found(b"a.b.c") == sorted(patterns[:6])


def test_equal_subscriptions_are_each_found(trie: Trie) -> None:
    first, second = trie.add(b"foo", sid=b"1"), trie.add(b"foo", sid=b"2")
    assert trie.interest.match(b"foo")[0] in ([first, second], [second, first])
    trie.discard(first)
    assert trie.interest.match(b"foo")[0] == [second]


def test_a_discarded_subscription_can_be_discarded_again(trie: Trie) -> None:
    subscription = trie.add(b"foo.*")
    trie.discard(subscription)
    trie.discard(subscription)
    assert (trie.interest.count, trie.interest.removes) == (0, 1)


def test_queue_groups_are_kept_apart_by_name(trie: Trie) -> None:
    for queue, members in ((b"x", 3), (b"y", 1), (None, 2)):
        for _ in range(members):
            trie.add(b"foo", queue)
    assert trie.groups(b"foo") == {b"x": 3, b"y": 1}
    assert trie.found(b"foo") == [b"foo", b"foo"]


def test_a_queue_group_spans_the_patterns_that_match(trie: Trie) -> None:
    for pattern in (b"foo.bar", b"foo.*", b"foo.>", b"other"):
        trie.add(pattern, b"workers")
    assert trie.groups(b"foo.bar") == {b"workers": 3}
    assert trie.groups(b"foo.baz") == {b"workers": 2}


def test_a_queue_group_lives_on_when_its_first_member_leaves(trie: Trie) -> None:
    # The group borrows its name from a member: make every name an object of its own.
    members = [trie.add(b"foo", bytes(bytearray(b"workers"))) for _ in range(3)]
    others = trie.add(b"foo", b"others")
    for left, member in enumerate(reversed(members[1:]), 1):
        assert trie.groups(b"foo") == {b"workers": 4 - left, b"others": 1}
        trie.discard(members[0] if left == 1 else member)
    assert trie.groups(b"foo") == {b"workers": 1, b"others": 1}
    trie.add(b"foo", b"workers")
    assert trie.groups(b"foo") == {b"workers": 2, b"others": 1}
    trie.discard(others)
    assert trie.groups(b"foo") == {b"workers": 2}


def test_a_name_is_compared_whole(trie: Trie) -> None:
    trie.add(b"foo", b"a")
    trie.add(b"foo", b"a\x00")
    trie.add(b"foo", b"")
    assert trie.groups(b"foo") == {b"a": 1, b"a\x00": 1, b"": 1}


def test_an_empty_trie_has_no_nodes(trie: Trie) -> None:
    patterns = [b"a", b"a.b", b"a.b.c", b"a.*.c", b"*.x.>", b">", b"a.>", b"*.*.*", b"a.*.*.d"]
    subscriptions = [trie.add(pattern, queue) for pattern in patterns for queue in (None, b"q", b"r")]
    assert trie.interest.node_count == 6  # a, b, c, c under *, x under *, d: wildcards are no literal nodes
    random.Random(7).shuffle(subscriptions)
    for subscription in subscriptions:
        trie.discard(subscription)
    assert (trie.interest.node_count, trie.interest.count) == (0, 0)
    assert trie.found(b"a.b.c") == []


def test_a_node_with_children_is_kept(trie: Trie) -> None:
    short, long = trie.add(b"a.b"), trie.add(b"a.b.c")
    trie.discard(short)
    assert trie.found(b"a.b.c") == [b"a.b.c"]
    trie.discard(long)
    assert trie.interest.node_count == 0


def test_a_route_is_cached(trie: Trie) -> None:
    trie.add(b"foo")
    for _ in range(5):
        trie.found(b"foo")
    assert (trie.interest.matches, trie.interest.cache_hits, trie.interest.cached_routes) == (5, 4, 1)


def test_interest_that_does_not_match_leaves_a_route_cached(trie: Trie) -> None:
    trie.add(b"foo.bar")
    trie.found(b"foo.bar")
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
    trie.found(b"foo")
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


def test_a_hundred_thousand_subscriptions() -> None:
    trie = Trie()
    chance = random.Random(1)
    subscriptions = [trie.add(b"s.%d.%d" % (number % 317, number)) for number in range(100_000)]
    wildcards = [trie.add(b"s.%d.*" % number) for number in range(317)]
    assert trie.interest.count == 100_317
    for number in chance.sample(range(100_000), 2000):
        subject = b"s.%d.%d" % (number % 317, number)
        assert trie.found(subject) == sorted([subject, b"s.%d.*" % (number % 317)])
    chance.shuffle(subscriptions)
    for subscription in subscriptions[:50_000]:
        trie.discard(subscription)
    gone = {subscription.subject for subscription in subscriptions[:50_000]}
    for subscription in chance.sample(subscriptions, 2000):
        assert (subscription.subject not in trie.found(subscription.subject)) == (
            subscription.subject in gone
        )
    for subscription in subscriptions[50_000:] + wildcards:
        trie.discard(subscription)
    assert (trie.interest.node_count, trie.interest.count) == (0, 0)


def test_a_hundred_thousand_subscriptions_to_one_subject(trie: Trie) -> None:
    subscriptions = [trie.add(b"foo", sid=b"%d" % number) for number in range(100_000)]
    assert len(trie.interest.match(b"foo")[0]) == 100_000
    for subscription in subscriptions[::2]:
        trie.discard(subscription)
    assert set(trie.interest.match(b"foo")[0]) == set(subscriptions[1::2])


def test_a_deep_subject(trie: Trie) -> None:
    deep = b".".join([b"a"] * 2000)
    stars = b".".join([b"*"] * 2000)
    subscriptions = [trie.add(deep), trie.add(stars), trie.add(b".".join([b"*"] * 1999) + b".>")]
    assert len(trie.found(deep)) == 3
    assert trie.found(deep + b".a") == [subscriptions[2].subject]
    for subscription in subscriptions:
        trie.discard(subscription)
    assert trie.interest.node_count == 0


def test_cached_routes_take_bounded_memory(trie: Trie) -> None:
    """A peer chooses the subjects: ever new ones must not make the server keep ever more."""
    for _ in range(1000):
        trie.add(b">")
    tracemalloc.start()
    try:
        for number in range(3000):
            trie.interest.match(b"some.subject.of.usual.length.%d" % number)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 64 * 1024 * 1024


TOKENS = st.sampled_from([b"a", b"b", b"c", b"a*", b">b"])
PATTERNS = st.tuples(
    st.lists(st.one_of(TOKENS, st.just(b"*")), min_size=1, max_size=4), st.sampled_from([[], [b">"]])
).map(lambda parts: b".".join(parts[0] + parts[1])) | st.just(b">")
SUBJECTS = st.lists(TOKENS | st.sampled_from([b"d", b""]), min_size=1, max_size=5).map(b".".join)


class InterestAgainstAList(RuleBasedStateMachine):
    """Whatever is added and discarded in between, a match finds what a walk over a list finds."""

    subscriptions = Bundle("subscriptions")

    def __init__(self) -> None:
        super().__init__()
        self.interest = Interest()
        self.listed: list[Subscription] = []

    @rule(
        target=subscriptions,
        subject=PATTERNS,
        queue=st.sampled_from([None, None, b"q", b"r"]),
        sid=st.sampled_from([b"1", b"2"]),
    )
    def add(self, subject: bytes, queue: bytes | None, sid: bytes) -> Subscription:
        subscription = Subscription(subject, queue and bytes(bytearray(queue)), sid)
        self.interest.add(subscription)
        self.listed.append(subscription)
        return subscription

    @rule(subscription=consumes(subscriptions))
    def discard(self, subscription: Subscription) -> None:
        self.interest.discard(subscription)
        self.listed.remove(subscription)

    @rule(subject=PATTERNS, times=st.integers(1, 80))
    def change_often(self, subject: bytes, times: int) -> None:
        subscription = Subscription(subject, None, b"9")
        for _ in range(times):
            self.interest.add(subscription)
            self.interest.discard(subscription)

    @rule(subjects=st.lists(SUBJECTS, min_size=1, max_size=6))
    def match(self, subjects: list[bytes]) -> None:
        for subject in subjects:
            found = [sub for sub in self.listed if matches(sub.subject, subject)]
            plain, queues = self.interest.match(subject)
            assert Counter(plain) == Counter(sub for sub in found if sub.queue is None)
            assert len(queues) == len({sub.queue for sub in found} - {None})
            members = [member for group in queues for member in group]
            assert Counter(members) == Counter(sub for sub in found if sub.queue is not None)

    @invariant()
    def count_is_right(self) -> None:
        assert self.interest.count == len(self.listed)

    def teardown(self) -> None:
        for subscription in self.listed:
            self.interest.discard(subscription)
        assert self.interest.node_count == 0


TestInterestAgainstAList = InterestAgainstAList.TestCase
TestInterestAgainstAList.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)


def test_subjects_are_found_while_the_table_grows() -> None:
    """Nodes move to a larger table a few at a time; meanwhile some are in the one and some in the other."""
    interest, known = Interest(), {}
    for number in range(3000):
        subject = b"a.%d.%d" % (number % 7, number)
        known[subject] = Subscription(subject, None, b"1")
        interest.add(known[subject])
        if number % 3 == 0:
            gone = b"a.%d.%d" % (number // 2 % 7, number // 2)
            if gone in known:
                interest.discard(known.pop(gone))
        if number % 50 == 0:
            assert all(interest.match(one)[0] == [subscription] for one, subscription in known.items())
    for subscription in known.values():
        interest.discard(subscription)
    assert interest.node_count == 0

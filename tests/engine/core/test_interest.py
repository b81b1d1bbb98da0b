"""The trie of subscriptions."""

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
from tests.engine.core.subscriptions import Trie
from tests.model import matches


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


@pytest.mark.parametrize(
    ("added", "subject", "does_match"),
    [
        (b"_INBOX.x.*", b"_INBOX.x.3", True),
        (b"_INBOX.x.3", b"_INBOX.x.3", True),
        (b"_INBOX.x.3", b"_INBOX.x.4", False),
        (b"_INBOX.*.3", b"_INBOX.x.3", True),
        (b"_INBOX.*.3", b"_INBOX.x.4", False),
        (b"*.x.3", b"_INBOX.x.3", True),
        (b"*.*.*", b"_INBOX.x.3", True),
        (b"_INBOX.x.>", b"_INBOX.x.3", True),
        (b"_INBOX.>", b"_INBOX.x.3", True),
        (b">", b"_INBOX.x.3", True),
        (b"_INBOX.x.3.*", b"_INBOX.x.3", False),
        (b"_INBOX.y.*", b"_INBOX.x.3", False),
        (b"_INBOX.x", b"_INBOX.x.3", False),
    ],
)
@pytest.mark.parametrize("queue", [None, b"q"])
def test_a_change_reaches_the_next_reply_to_an_inbox(
    trie: Trie, added: bytes, queue: bytes | None, subject: bytes, does_match: bool
) -> None:
    """Replies to an inbox differ in the last token; what one of them matched is remembered for the others."""
    inbox = trie.add(b"_INBOX.x.*")
    trie.interest.match(b"_INBOX.x.1")
    other = trie.add(added, queue)
    plain, queues = trie.interest.match(subject)
    assert set(plain) == {inbox} | ({other} if does_match and queue is None else set())
    assert queues == ([[other]] if does_match and queue is not None else [])
    trie.interest.match(b"_INBOX.x.5")
    trie.discard(other)
    assert trie.interest.match(b"_INBOX.x.6") == ([inbox], [])
    trie.discard(inbox)
    assert trie.interest.match(b"_INBOX.x.7") == ([], [])


@pytest.mark.parametrize(
    "subject",
    [b"_INBOX.x", b"_INBOX.x.", b"_INBOX.x.2.3", b"_INBOX.x..", b"_INBOX.xx.2", b"_INBOX.y.2", b"INBOX.x.2"],
)
def test_what_only_resembles_the_replies_to_an_inbox_does_not_reach_it(trie: Trie, subject: bytes) -> None:
    trie.add(b"_INBOX.x.*")
    trie.interest.match(b"_INBOX.x.1")
    assert trie.found(subject) == []


def test_a_literal_subscription_gets_its_reply_to_an_inbox_alone(trie: Trie) -> None:
    """Its node is there before the first match."""
    trie.add(b"_INBOX.x.*")
    trie.add(b"*.*.3")
    assert [len(trie.found(b"_INBOX.x.%d" % number)) for number in (1, 2, 3, 4)] == [1, 1, 2, 1]
    assert [len(trie.found(b"_INBOX.y.%d" % number)) for number in (1, 2, 3, 4)] == [0, 0, 1, 0]


def test_the_replies_to_an_inbox_reach_queue_groups_once_each(trie: Trie) -> None:
    trie.add(b"_INBOX.x.*", b"q")
    trie.add(b"_INBOX.>", b"q")
    trie.add(b"_INBOX.x.*", b"r")
    for number in range(5):
        assert trie.groups(b"_INBOX.x.%d" % number) == {b"q": 2, b"r": 1}


@pytest.mark.parametrize("length", [126, 127, 128, 129, 4000])
def test_an_inbox_may_have_a_long_name(trie: Trie, length: int) -> None:
    inbox = b"x" * length
    trie.add(inbox + b".*")
    for number in range(3):
        assert trie.found(inbox + b".%d" % number) == [inbox + b".*"]
        assert trie.found(inbox[:-1] + b"y.%d" % number) == []


def test_inboxes_of_two_accounts_are_apart(trie: Trie) -> None:
    other = Trie()
    trie.add(b"_INBOX.x.*")
    for number in range(3):
        assert trie.found(b"_INBOX.x.%d" % number) == [b"_INBOX.x.*"]
        assert other.found(b"_INBOX.x.%d" % number) == []


def test_an_invalid_subscription_leaves_the_inbox_as_it_is(trie: Trie) -> None:
    trie.add(b"_INBOX.x.*")
    trie.interest.match(b"_INBOX.x.1")
    with pytest.raises(InvalidSubject):
        trie.add(b"_INBOX..x")
    assert trie.found(b"_INBOX.x.2") == [b"_INBOX.x.*"]


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
        self.serial = 0

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

    @rule(prefix=SUBJECTS, tokens=st.lists(TOKENS | st.just(b"d"), min_size=2, max_size=4))
    def match_replies(self, prefix: bytes, tokens: list[bytes]) -> None:
        """Subjects that differ in their last token, of which the cache of routes has not heard."""
        self.serial += 1
        self.match([prefix + b"." + token for token in [*tokens, b"%d" % self.serial]])

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

"""Filters: the patterns of a subscription, several at once, and none for everything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.basics.filters import Filter
from headrace.engine.core.interest import Interest
from headrace.engine.core.trie import InvalidSubject, Subscription


@pytest.mark.parametrize(
    ("patterns", "subject", "passes"),
    [
        ((), b"any.thing", True),
        ((b">",), b"any.thing", True),
        ((b"a",), b"a", True),
        ((b"a",), b"a.b", False),
        ((b"a.>",), b"a", False),
        ((b"a.>",), b"a.b.c", True),
        ((b"a.*",), b"a.b", True),
        ((b"a.*",), b"a.b.c", False),
        ((b"*.b",), b"a.b", True),
        ((b"a*",), b"ab", False),
        ((b"a*",), b"a*", True),
        ((b"x", b"a.*"), b"a.b", True),
        ((b"x", b"y.*"), b"a.b", False),
    ],
)
def test_a_subject_passes_if_one_pattern_matches(
    patterns: tuple[bytes, ...], subject: bytes, passes: bool
) -> None:
    assert Filter(patterns).matches(subject) is passes


def test_a_filter_knows_whether_it_needs_to_look() -> None:
    assert Filter(()).everything
    assert Filter((b"a", b">")).everything
    assert Filter((b"a", b"b*.c")).literal
    assert not Filter((b"a", b"b.*")).literal
    assert not Filter(()).literal


@pytest.mark.parametrize("wrong", [None, [b"a"], ("a",), (None,)])
def test_a_pattern_is_bytes(wrong: object) -> None:
    with pytest.raises(TypeError):
        Filter(wrong)  # type: ignore[arg-type]


TOKENS = st.sampled_from([b"a", b"b", b"*", b">", b"a*", b"long-token"])


@given(st.lists(TOKENS, min_size=1, max_size=4), st.lists(TOKENS, min_size=1, max_size=4))
def test_a_filter_matches_what_a_subscription_matches(pattern: list[bytes], subject: list[bytes]) -> None:
    interest = Interest()
    subscription = Subscription(b".".join(pattern), None, b"1")  # the trie only borrows it
    try:
        interest.add(subscription)
    except InvalidSubject:
        return
    plain, _ = interest.match(b".".join(subject))
    assert Filter((b".".join(pattern),)).matches(b".".join(subject)) is bool(plain)


PATTERNS = st.lists(st.lists(TOKENS, min_size=1, max_size=4).map(b".".join), min_size=9, max_size=30)


@given(
    PATTERNS, st.lists(st.sampled_from([b"a", b"b", b"a*", b"long-token", b"", b"*"]), min_size=1, max_size=5)
)
def test_many_patterns_match_what_each_of_them_matches(patterns: list[bytes], tokens: list[bytes]) -> None:
    subject = b".".join(tokens)
    matches = any(Filter((pattern,)).matches(subject) for pattern in patterns)
    assert Filter(tuple(patterns)).matches(subject) is matches


def test_very_many_and_very_long_patterns_match() -> None:
    long = b".".join([b"a"] * 5000)
    filter_ = Filter((*[b"s.%d.*" % number for number in range(5000)], long, b"*." * 4999 + b"b"))
    assert filter_.matches(b"s.4999.x")
    assert not filter_.matches(b"s.5000.x")
    assert filter_.matches(long)
    assert filter_.matches(long[:-1] + b"b")
    assert not filter_.matches(long + b".a")

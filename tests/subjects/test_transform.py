"""Transforms: what a destination makes of a subject, and the words for destinations that make no sense."""

from __future__ import annotations

import pytest

from headrace.subjects.transform import Transform, TransformError, check_mapping

BAD_ARGUMENT = "invalid mapping destination: function argument is invalid or in the wrong format"


@pytest.mark.parametrize(
    ("source", "destination", "subject", "expected"),
    [
        ("foo", "bar", "foo", "bar"),
        ("foo", "bar", "baz", None),
        ("foo.*", "bar.$1", "foo.x", "bar.x"),
        ("foo.*.*", "bar.{{wildcard(2)}}.{{Wildcard( 1 )}}", "foo.x.y", "bar.y.x"),
        ("foo.*.>", "bar.$1.>", "foo.a.b.c", "bar.a.b.c"),
        ("foo.>", ">", "foo.a.b", "a.b"),
        ("", "all.>", "a.b", "all.a.b"),
        (">", ">", "a.b", "a.b"),
        ("*", "$JS.$1", "a", "$JS.a"),
        ("*.*", "{{partition(10,1,2)}}", "foo.bar", "0"),
        ("*", "{{partition(0,1)}}", "foo", "0"),
        ("foo", "part.{{partition(5)}}", "foo", "part.3"),
        ("*", "{{SplitFromLeft(1,3)}}", "abcdef", "abc.def"),
        ("*", "{{splitfromleft(1,9)}}", "abcdef", "abcdef"),
        ("*", "{{splitFromRight(1,2)}}", "abcdef", "abcd.ef"),
        ("*", "{{slicefromleft(1,3)}}", "12345678", "123.456.78"),
        ("*", "{{slicefromright(1,3)}}", "12345678", "12.345.678"),
        ("*", "{{slicefromright(1,4)}}", "12345678", "1234.5678"),
        ("*", "{{split(1,-)}}", "-abc-def--ghi-", "abc.def.ghi"),
        ("*", "{{left(1,2)}}.{{Right(1,3)}}", "abcdef", "ab.def"),
        ("*", "{{random(1)}}", "x", "0"),
        ("*", "{{left(1,1)}}", "é", "\udcc3"),  # lengths are bytes
    ],
)
def test_transforms(source: str, destination: str, subject: str, expected: str | None) -> None:
    made = Transform(source, destination).apply(subject.encode())
    assert made == (None if expected is None else expected.encode("utf-8", "surrogateescape"))


def test_random_stays_below_its_ceiling() -> None:
    transform = Transform("*", "{{random(3)}}")
    assert {transform.apply(b"x") for _ in range(200)} == {b"0", b"1", b"2"}


@pytest.mark.parametrize(
    ("source", "destination", "text"),
    [
        ("foo.*", "bar.*", "invalid subject"),
        ("foo.>", "bar", "invalid subject"),
        ("foo..x", "bar", "invalid subject"),
        ("foo.*", "bar.$2", "invalid mapping destination: wildcard index out of range in $2: [2]"),
        (
            "foo",
            "{{wildcard(1)}}",
            "invalid mapping destination: wildcard index out of range in {{wildcard(1)}}",
        ),
        (
            "*",
            "{{wildcard()}}",
            "invalid mapping destination: not enough arguments passed to the function in {{wildcard()}}",
        ),
        (
            "*",
            "{{wildcard(1,2)}}",
            "invalid mapping destination: too many arguments passed to the function in {{wildcard(1,2)}}",
        ),
        (
            "*",
            "{{split(1,a b)}}",
            BAD_ARGUMENT + " in {{split(1,a b)}}",
        ),
        (
            "*",
            "{{left(x,2)}}",
            BAD_ARGUMENT + " in {{left(x,2)}}",
        ),
        ("*", "{{unknown(1)}}", "invalid mapping destination: unknown function in {{unknown(1)}}"),
    ],
)
def test_bad_transforms(source: str, destination: str, text: str) -> None:
    with pytest.raises(TransformError) as caught:
        Transform(source, destination)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("destination", "text"),
    [
        ("a..b", "invalid mapping destination: invalid transform"),
        (">.b", "invalid mapping destination: invalid transform in b"),
        ("a b", "invalid mapping destination: invalid transform"),
        ("$9.{{x(1,2)}}", "invalid mapping destination: unknown function in {{x(1,2)}}"),
    ],
)
def test_what_a_configuration_may_not_have(destination: str, text: str) -> None:
    with pytest.raises(TransformError) as caught:
        check_mapping("*", destination)
    assert str(caught.value) == text


def test_what_a_configuration_may_have() -> None:
    check_mapping("foo.*", "bar.{{split(1,-)}}.{{partition(3,1)}}")
    check_mapping("foo", "")

"""Subject transforms: a source pattern, and a destination that is filled with the tokens of a matching
subject.

`foo.*.>` to `bar.{{wildcard(1)}}.>` turns `foo.a.b.c` into `bar.a.b.c`. A destination without functions and
without `>` is a constant. Which destinations are valid, and the errors for others, follow nats-server.
"""

from __future__ import annotations

import re
from itertools import count

from headrace.subjects import grammar
from headrace.subjects.functions import (
    INVALID_TRANSFORM,
    NOT_REVERSIBLE,
    OUT_OF_RANGE,
    UNKNOWN_FUNCTION,
    WILDCARDS_LEFT,
    Call,
    TransformError,
    apply_call,
    destination_error,
    is_known,
    looks_like_call,
    parse_token,
)

__all__ = ["Transform", "TransformError", "check_mapping", "place_wildcards", "with_wildcards"]

_INVALID_SUBJECT = "invalid subject"
_WHITESPACE = frozenset("\t\n\f\r ")
_PLACEHOLDER = re.compile(r"\$[1-9].*|{{\s*[wW]ildcard\s*\([^,]+\)\s*}}", re.ASCII | re.DOTALL)


class Transform:
    """One source and destination; raises TransformError if they do not fit.

    An empty source matches every subject. An empty destination changes nothing. One that `is_reversible` must
    use every wildcard of the source, and no function but `wildcard`.
    """

    def __init__(self, source: str, destination: str, *, is_reversible: bool = False) -> None:
        self.source = source or grammar.FULL_WILDCARD
        self.destination = destination
        self._steps: list[tuple[bytes, Call | None, tuple[int, ...]]] = []
        self._source_tokens = self.source.split(grammar.SEPARATOR)
        if destination:
            self._read_destination(is_reversible)
        self._keeps_rest = bool(destination) and destination.split(".")[-1] == grammar.FULL_WILDCARD
        self._is_identity = self.source == ">" and destination in ("", ">")

    def apply(self, subject: bytes) -> bytes | None:
        """The new subject, or None if this one does not match the source (or is not literal)."""
        if self._is_identity or not self._steps:
            return subject
        text = grammar.decode(subject)
        if not grammar.is_valid_literal(text):
            return None
        if self.source != ">" and not grammar.is_subset_of_tokens(text.split("."), self._source_tokens):
            return None
        return self._build(subject.split(b"."))

    def _build(self, tokens: list[bytes]) -> bytes:
        written = []
        for literal, call, places in self._steps:
            if call is not None:
                written.append(apply_call(call, tokens, places))
            elif literal != b">":
                written.append(literal)
        if self._keeps_rest:
            written += tokens[len(self._source_tokens) - 1 :]
        return b".".join(written)

    @property
    def is_random(self) -> bool:
        """Whether the same subject becomes another one each time."""
        return any(call is not None and call.name == "random" for _, call, _ in self._steps)

    def reverse(self) -> Transform:
        """From destination to source, of a transform that is reversible.

        As in nats-server, this is the reverse unless more than two wildcards change places.
        """
        source, placeholders = with_wildcards(self.destination)
        tokens = self.source.split(grammar.SEPARATOR)
        found = [token if token != grammar.PARTIAL_WILDCARD else placeholders.pop(0) for token in tokens]
        return Transform(source, grammar.SEPARATOR.join(found), is_reversible=True)

    def build(self, subject: bytes) -> bytes:
        """The new subject for one that is known to match the source; it may have wildcards, too."""
        return self._build(subject.split(b"."))

    def _read_destination(self, is_reversible: bool) -> None:
        source = _describe(self.source)
        destination = _describe(self.destination)
        if source is None or destination is None or destination.wildcards or source.full != destination.full:
            raise TransformError(_INVALID_SUBJECT)
        matches_one_subject = not source.wildcards and not source.full
        used = 0
        for token in destination.tokens:
            call = parse_token(token)
            if call is not None and is_reversible and not matches_one_subject:
                if call.name != "wildcard":
                    raise destination_error(NOT_REVERSIBLE, token)
                used += len(call.wildcards)
            places: tuple[int, ...] = ()
            if call is not None and matches_one_subject:
                if call.name not in ("random", "partition"):
                    raise destination_error(OUT_OF_RANGE, token)
            elif call is not None:
                places = tuple(_place_of(index, source.wildcards, token) for index in call.wildcards)
            self._steps.append((grammar.encode(token), call, places))
        if is_reversible and used < len(source.wildcards):
            raise destination_error(WILDCARDS_LEFT, self.destination)


class _Described:
    """A subject's tokens, the indexes of its `*`, and whether it ends with `>`."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.wildcards = [place for place, token in enumerate(tokens) if token == grammar.PARTIAL_WILDCARD]
        self.full = tokens[-1] == grammar.FULL_WILDCARD


def _describe(subject: str) -> _Described | None:
    """None if a token is empty or `>` is not the last. Whitespace is allowed: functions may contain it."""
    tokens = subject.split(grammar.SEPARATOR)
    if "" in tokens or grammar.FULL_WILDCARD in tokens[:-1]:
        return None
    return _Described(tokens)


def _place_of(index: int, wildcards: list[int], token: str) -> int:
    if index > len(wildcards):
        raise destination_error(OUT_OF_RANGE, f"{token}: [{index}]")
    return wildcards[index - 1] if index > 0 else 0  # $0 is the first token in nats-server, too


def check_mapping(source: str, destination: str) -> None:
    """Raise TransformError unless a stream's configuration may have this transform."""
    if not destination:
        return
    ended = False
    for token in destination.split(grammar.SEPARATOR):
        if not token or ended:
            raise destination_error(INVALID_TRANSFORM, token)
        if looks_like_call(token):
            if not is_known(token):
                raise destination_error(UNKNOWN_FUNCTION, token)
        elif token == grammar.FULL_WILDCARD:
            ended = True
        elif not _WHITESPACE.isdisjoint(token):
            raise TransformError(INVALID_TRANSFORM)
    Transform(source, destination)


def place_wildcards(subject: str) -> str:
    """`foo.*.*` as the destination `foo.$1.$2`."""
    numbers = count(1)
    tokens = subject.split(grammar.SEPARATOR)
    return ".".join(f"${next(numbers)}" if token == grammar.PARTIAL_WILDCARD else token for token in tokens)


def with_wildcards(destination: str) -> tuple[str, list[str]]:
    """`foo.$2.{{wildcard(1)}}` as the subject `foo.*.*`, and what was there: `$2` and `{{wildcard(1)}}`."""
    tokens = destination.split(grammar.SEPARATOR)
    is_placeholder = [_PLACEHOLDER.fullmatch(token) is not None for token in tokens]
    written = [
        grammar.PARTIAL_WILDCARD if one else token for one, token in zip(is_placeholder, tokens, strict=True)
    ]
    return ".".join(written), [token for one, token in zip(is_placeholder, tokens, strict=True) if one]

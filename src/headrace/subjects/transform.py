"""Subject transforms: a source pattern, and a destination that is filled with the tokens of a matching
subject.

`foo.*.>` to `bar.{{wildcard(1)}}.>` turns `foo.a.b.c` into `bar.a.b.c`. A destination without functions and
without `>` is a constant. Which destinations are valid, and the errors for others, follow nats-server.
"""

from __future__ import annotations

from headrace.subjects import grammar
from headrace.subjects.functions import (
    INVALID_TRANSFORM,
    OUT_OF_RANGE,
    UNKNOWN_FUNCTION,
    Call,
    TransformError,
    apply_call,
    destination_error,
    is_known,
    looks_like_call,
    parse_token,
)

__all__ = ["Transform", "TransformError", "check_mapping"]

_INVALID_SUBJECT = "invalid subject"
_WHITESPACE = frozenset("\t\n\f\r ")


class Transform:
    """One source and destination; raises TransformError if they do not fit.

    An empty source matches every subject. An empty destination changes nothing.
    """

    def __init__(self, source: str, destination: str) -> None:
        self.source = source or grammar.FULL_WILDCARD
        self.destination = destination
        self._steps: list[tuple[bytes, Call | None, tuple[int, ...]]] = []
        self._source_tokens = self.source.split(grammar.SEPARATOR)
        if destination:
            self._read_destination()
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

    def _read_destination(self) -> None:
        source = _describe(self.source)
        destination = _describe(self.destination)
        if source is None or destination is None or destination.wildcards or source.full != destination.full:
            raise TransformError(_INVALID_SUBJECT)
        matches_one_subject = not source.wildcards and not source.full
        for token in destination.tokens:
            call = parse_token(token)
            places: tuple[int, ...] = ()
            if call is not None and matches_one_subject:
                if call.name not in ("random", "partition"):
                    raise destination_error(OUT_OF_RANGE, token)
            elif call is not None:
                places = tuple(_place_of(index, source.wildcards, token) for index in call.wildcards)
            self._steps.append((grammar.encode(token), call, places))


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

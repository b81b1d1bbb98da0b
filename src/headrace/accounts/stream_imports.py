"""Streams that an account imports: where else its subscriptions have to be.

A subscription to `c.orders.*` in an account that imports `orders.>` from C under `c.orders.>` has a shadow
in C, which subscribes to `orders.*` there. What is subscribed to there follows nats-server in every case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from headrace.config.accounts.import_checks import local_subject, stream_transform
from headrace.config.identity import StreamImport
from headrace.subjects import grammar
from headrace.subjects.transform import with_wildcards

if TYPE_CHECKING:
    from headrace.engine.core.interest import Import, Interest


class ImportedStream:
    """One import."""

    def __init__(self, source: Interest, options: StreamImport) -> None:
        to = local_subject(options)
        self.source = source
        self.subject = options.subject
        self.allows_trace = options.allow_trace
        self.transform = stream_transform(options)
        self.to = with_wildcards(to)[0] if self.transform else to
        self._to_tokens = self.to.split(".")
        self._is_same = grammar.has_wildcard(self.subject) and to == self.subject
        self._back = self.transform.reverse() if self.transform else None
        self.delivered: Callable[[bytes], bytes] | None = None
        if self.transform:
            self.delivered = self.transform.build
        elif to != self.subject:
            self.delivered = partial(_constant, grammar.encode(to))

    def shadow_of(self, subject: str) -> str | None:
        """What a subscription to `subject` subscribes to in the other account; None: nothing."""
        if subject == self.to:
            return self.subject
        tokens = subject.split(".")
        if grammar.is_subset_of_tokens(tokens, self._to_tokens):
            return self._translate(subject)
        if not grammar.has_wildcard(subject):
            return None
        if grammar.is_subset_of_tokens(self._to_tokens, tokens):
            return self.subject
        narrowed = _narrow(tokens, self._to_tokens)
        if grammar.is_subset_of_tokens(narrowed, self._to_tokens):
            return self._translate(".".join(narrowed))
        return None

    def _translate(self, subject: str) -> str:
        if self._back:
            return grammar.decode(self._back.build(grammar.encode(subject)))
        return subject if self._is_same else self.subject


def _constant(subject: bytes, _: bytes) -> bytes:
    return subject


def _narrow(tokens: list[str], by: list[str]) -> list[str]:
    """The first pattern with its wildcards replaced by what the second has in their places."""
    narrowed = [
        by[place] if place < len(by) and token == "*" and by[place] != ">" else token
        for place, token in enumerate(tokens)
    ]
    last = len(narrowed) - 1
    if narrowed[last] == ">" and len(by) >= len(narrowed):
        narrowed[last:] = by[last:]
    return narrowed


class StreamImports:
    """All streams that an account imports."""

    def __init__(self, streams: Iterable[ImportedStream]) -> None:
        self._streams = list(streams)

    def find(self, subject: bytes) -> list[Import]:
        """For Interest.imports."""
        text = grammar.decode(subject)
        found: list[Import] = []
        for stream in self._streams:
            shadow = stream.shadow_of(text)
            if shadow is not None:
                encoded = grammar.encode(shadow)
                found.append((stream.source, encoded, stream.delivered, stream.allows_trace))
        return found

"""An account: what its clients share, and nobody else sees."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

import msgspec

from headrace.accounts.mappings import SubjectMappings
from headrace.accounts.stream_imports import ImportedStream, StreamImports
from headrace.config.identity import AccountOptions
from headrace.engine.core.interest import Interest
from headrace.subjects import grammar


class Counters(Protocol):
    """Of a link."""

    @property
    def in_msgs(self) -> int: ...
    @property
    def in_bytes(self) -> int: ...
    @property
    def out_msgs(self) -> int: ...
    @property
    def out_bytes(self) -> int: ...


class Traffic(msgspec.Struct):
    """Messages and bytes, from clients (in) and to them (out)."""

    in_msgs: int = 0
    in_bytes: int = 0
    out_msgs: int = 0
    out_bytes: int = 0

    def add(self, link: Counters) -> None:
        self.in_msgs += link.in_msgs
        self.in_bytes += link.in_bytes
        self.out_msgs += link.out_msgs
        self.out_bytes += link.out_bytes


class Account:
    """Its subscriptions, how many clients it has, and the traffic of those that have left."""

    def __init__(self, options: AccountOptions) -> None:
        self.options = options
        self.name = options.name
        self.interest = Interest()
        self.connections = 0
        self.slow_consumers = 0
        self.past = Traffic()
        self.updated_at = time.time_ns()

    @property
    def title(self) -> str:
        """Its name for people."""
        return self.options.title or self.name

    @property
    def is_full(self) -> bool:
        """Whether it takes no more clients."""
        return 0 <= self.options.limits.max_connections <= self.connections

    def imports_service(self, subject: str) -> bool:
        """Whether requests to this subject go to another account."""
        return any(grammar.matches(subject, one.to) for one in self.options.service_imports)

    def imports_from(self, other: Account) -> bool:
        """Whether it imports anything from the other account."""
        streams = any(one.account == other.name for one in self.options.stream_imports)
        return streams or any(one.account == other.name for one in self.options.service_imports)

    def follow_options(self, accounts: Mapping[str, Account]) -> None:
        """Set up imports and mappings as the options say. In operator mode, accounts may be loaded later."""
        interest, options = self.interest, self.options
        streams = [
            ImportedStream(accounts[one.account].interest, one)
            for one in options.stream_imports
            if one.account in accounts
        ]
        had_imports = interest.imports is not None
        interest.imports = StreamImports(streams).find if streams else None
        interest.traces_parents = bool(options.trace.destination)
        interest.map_subjects(SubjectMappings(options.mappings).find if options.mappings else None)
        if streams or had_imports:
            for receiver in interest.own_receivers():
                receiver.renew_shadows()

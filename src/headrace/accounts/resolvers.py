"""Where the tokens of accounts come from."""

from __future__ import annotations

from typing import Protocol


class AccountNotFound(Exception):
    """The resolver has no token for an account."""


class Resolver(Protocol):
    """Tokens of accounts by public key."""

    def load(self, name: str) -> str:
        """What it has at hand. Raises AccountNotFound."""

    def store(self, name: str, token: str) -> None: ...


class MemoryResolver:
    """What the configuration has, and nothing else."""

    def __init__(self, tokens: dict[str, str]) -> None:
        self._tokens = dict(tokens)

    def load(self, name: str) -> str:
        try:
            return self._tokens[name]
        except KeyError:
            raise AccountNotFound("account missing") from None

    def store(self, name: str, token: str) -> None:
        self._tokens[name] = token

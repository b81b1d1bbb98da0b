"""Whom the server trusts to say who its clients are, as the configuration says it: operators and the tokens
of their accounts, or an authorization callout.

Plain data. What follows from it is decided in the room `accounts`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from headrace.config.identity import GLOBAL_ACCOUNT

FETCH_SECONDS = 1.9
"""How long a resolver may take to find an account."""
SYNC_SECONDS = 60.0
CACHE_SECONDS = 3600.0
MAX_STORED = 2**63 - 1


class ResolverOptions(msgspec.Struct, frozen=True):
    """Where the tokens of accounts come from."""

    kind: Literal["memory", "full", "cache", "url"]
    directory: str = ""
    url: str = ""
    allow_delete: bool = False
    hard_delete: bool = False  # whether a deleted token is gone, not renamed
    limit: int = 0  # how many tokens are kept; 0: any number
    ttl: float = CACHE_SECONDS  # how long a token is kept in the cache; 0 or less: for ever
    interval: float = SYNC_SECONDS  # between exchanges with other servers
    timeout: float = FETCH_SECONDS


class TrustOptions(msgspec.Struct, frozen=True):
    """Operator mode: users prove who they are with tokens of their accounts, and accounts with tokens of an
    operator that the server trusts.
    """

    operators: tuple[str, ...] = ()
    """Their tokens."""
    trusted_keys: tuple[str, ...] = ()
    """Public keys of operators, if there are no tokens of them."""
    resolver: ResolverOptions | None = None
    preload: dict[str, str] = {}
    """Tokens of accounts, by public key."""
    pinned_accounts: frozenset[str] | None = None
    """Only users of these may connect; None: of all."""
    default_sentinel: str = ""
    """The token of clients that bring none."""

    @property
    def is_operator_mode(self) -> bool:
        return bool(self.operators or self.trusted_keys)

    def __repr__(self) -> str:
        return f"TrustOptions({len(self.operators)} operators, {len(self.preload)} accounts)"


class CalloutOptions(msgspec.Struct, frozen=True):
    """`auth_callout`: a service of an account decides who may connect."""

    issuer: str
    """The public key that signs its answers."""
    account: str = GLOBAL_ACCOUNT
    auth_users: tuple[str, ...] = ()
    """Who connects without being asked for: the service itself."""
    xkey: str = ""
    """Its curve key: requests to it are encrypted then."""
    allowed_accounts: tuple[str, ...] = ()
    """Whose users it decides about; empty: of all."""

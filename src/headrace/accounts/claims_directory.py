"""The accounts of an operator that the server has loaded so far, from their tokens.

An account is fetched from the resolver when its first user connects, or when an account imports from it. It
is then kept until the resolver has a newer token for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.accounts.claim_account import ClaimAccount, account_of, options_of
from headrace.accounts.credentials import Log
from headrace.accounts.entitlements import entitled_imports
from headrace.accounts.resolvers import AccountNotFound, Resolver
from headrace.accounts.trust import Trust
from headrace.accounts.validation import account_problems
from headrace.config.identity import AccountOptions
from headrace.keys.claims import AccountClaims
from headrace.keys.jwt import InvalidToken, decode_as

UPDATE_SECONDS = 1.0
"""An account that has expired is not asked for again sooner."""

Listener = Callable[[ClaimAccount | None, ClaimAccount], None]
"""Gets an account before and after a change; before, there may have been none."""


class AccountInvalid(Exception):
    """Its token cannot be trusted. The text is nats-server's."""


class ClaimsDirectory:
    """Everything runs in the thread of the event loop."""

    def __init__(self, trust: Trust, resolver: Resolver, log: Log) -> None:
        self.trust = trust
        self.resolver = resolver
        self._log = log
        self._accounts: dict[str, ClaimAccount] = {}
        self.on_change: Listener = lambda before, after: None

    def __getitem__(self, name: str) -> ClaimAccount:
        return self._accounts[name]

    def get(self, name: str) -> ClaimAccount | None:
        """An account that is known already."""
        return self._accounts.get(name)

    @property
    def names(self) -> list[str]:
        """Of all that are known."""
        return list(self._accounts)

    def forget(self, name: str) -> None:
        self._accounts.pop(name, None)

    def adopt(self, account: ClaimAccount) -> None:
        """An account that is known without a token."""
        self._accounts[account.name] = account
        self.on_change(None, account)

    def find(self, name: str) -> ClaimAccount:
        """An account, fetched if need be. Raises AccountNotFound or AccountInvalid."""
        known = self._accounts.get(name)
        if known is None:
            token = self._load(name)
            return self._take(name, token)
        if known.is_expired():
            self._log.debug(f"Requested account [{name}] has expired")
            self._refresh(known)
            known = self._accounts[name]
            if known.is_expired():
                raise AccountInvalid("account expired")
        return known

    def _refresh(self, known: ClaimAccount) -> None:
        if time.monotonic() - known.fetched_at < UPDATE_SECONDS:
            self._log.debug(f"Requested account update for [{known.name}] ignored, too soon")
            raise AccountInvalid("account expired")
        try:
            self.update(known.name, self._load(known.name))
        except (AccountNotFound, AccountInvalid):
            raise AccountInvalid("account expired") from None

    def _load(self, name: str) -> str:
        try:
            return self.resolver.load(name)
        except AccountNotFound as error:
            self._log.warn(f"Account fetch failed: {error}")
            raise

    def update(self, name: str, token: str) -> None:
        """The resolver has a token for an account. Raises AccountInvalid, and then nothing changes."""
        known = self._accounts.get(name)
        if known is not None and known.token == token:
            self._log.debug(f"Requested account update for [{name}], same claims detected")
            return
        self._take(name, token)

    def _take(self, name: str, token: str) -> ClaimAccount:
        claims = self.verify(token)
        if claims.subject != name:
            raise AccountInvalid("account validation failed")
        before = self._accounts.get(name)
        after = account_of(claims, token, needs_signing_keys=self.trust.is_strict(claims.issuer))
        self._accounts[name] = after
        self._log.debug(f"Updating account claims: {name}/{claims.name}")
        self.on_change(before, after)
        return after

    def verify(self, token: str) -> AccountClaims:
        """Raises AccountInvalid unless an operator that is trusted has signed it, and its time has come."""
        try:
            claims = decode_as(AccountClaims, token)
        except InvalidToken as error:
            raise AccountInvalid(str(error)) from None
        if claims.issuer not in self.trust.keys or account_problems(claims):
            raise AccountInvalid("account validation failed")
        return claims

    def options_of(self, account: ClaimAccount) -> tuple[AccountOptions, float | None]:
        """For the broker, and when they change by themselves, in seconds since 1970 (None: never)."""
        imports, ends_at = entitled_imports(account, self._find_exporter)
        return options_of(account, imports), ends_at

    def _find_exporter(self, name: str) -> ClaimAccount | None:
        try:
            return self.find(name)
        except (AccountNotFound, AccountInvalid) as error:
            self._log.error(f"Can't locate account [{name}] for import (err={error})")
            return None

    def importers_of(self, name: str) -> list[ClaimAccount]:
        """Who imports from an account."""
        return [
            account
            for account in self._accounts.values()
            if any(entry.account == name for entry in account.claims.nats.imports)
        ]

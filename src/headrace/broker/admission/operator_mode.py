"""Operator mode, as far as connections and accounts that live are concerned.

The directory of claims (accounts/claims_directory.py) says what tokens mean. Here their accounts become
accounts of the broker, and what a new token changes is applied to the clients that are connected: those that
lose their right are closed, and nobody else.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Protocol

import msgspec

from headrace.accounts.claim_account import ClaimAccount, permissions_of
from headrace.accounts.claims_directory import AccountInvalid, ClaimsDirectory
from headrace.accounts.directory import Accounts
from headrace.accounts.remote_resolvers import CacheResolver, UrlResolver
from headrace.accounts.resolvers import AccountNotFound, MemoryResolver, Resolver
from headrace.accounts.token_directory import CannotStore, TokenDirectory
from headrace.accounts.trust import Trust
from headrace.accounts.validation import account_problems
from headrace.broker.admission.claims_service import ClaimsService
from headrace.broker.admission.expiry import ExpiryTimers
from headrace.config.accounts.import_checks import without_cycles
from headrace.config.identity import AccountOptions
from headrace.config.operators.checks import SIGNER_HINT, signer_problem
from headrace.config.options import Options
from headrace.engine.core.hub import Hub
from headrace.errors import ConfigError, UsageError
from headrace.keys.claims import Account, AccountClaims, unlimited_account
from headrace.keys.jwt import InvalidToken, decode_as
from headrace.keys.nkeys import is_public

if TYPE_CHECKING:
    from headrace.broker.connection import ClientConnection
    from headrace.broker.server_info import ServerStamp
    from headrace.logs import Logger


class OperatorContext(Protocol):
    """What it needs of the broker."""

    logger: Logger
    accounts: Accounts
    connections: dict[int, ClientConnection]
    hub: Hub
    stamp: ServerStamp

    def on_bug(self, error: Exception) -> None: ...


class OperatorMode:
    """Made once; what a reload changes is applied to it."""

    def __init__(self, options: Options, broker: OperatorContext) -> None:
        self._broker = broker
        self._logger = broker.logger
        self._options = options
        self.is_started = False
        self._service: ClaimsService | None = None
        self._remote: UrlResolver | CacheResolver | None = None
        self.store: TokenDirectory | None = None
        self.directory = ClaimsDirectory(Trust(options.trust), self._make_resolver(), broker.logger)
        self.directory.on_change = self._on_change
        self._expiries: ExpiryTimers[str] = ExpiryTimers(self._on_account_expired)
        self._activations: ExpiryTimers[str] = ExpiryTimers(self._on_activation_expired)

    def _make_resolver(self) -> Resolver:
        trust = self._options.trust
        resolver = trust.resolver
        if resolver is None or resolver.kind == "memory":
            return MemoryResolver(trust.preload)
        if resolver.kind == "url":
            self._remote = UrlResolver(resolver.url, resolver.timeout)
            return self._remote
        self.store = TokenDirectory(
            resolver.directory, limit=resolver.limit, drops_oldest=resolver.kind == "cache"
        )
        if resolver.kind == "cache":
            self._remote = CacheResolver(self.store, resolver.ttl, self._ask_others)
            return self._remote
        return self.store

    @property
    def is_remote(self) -> bool:
        """Whether the resolver may have to ask others."""
        return self._remote is not None

    async def _ask_others(self, name: str) -> str:
        if self._service is None or self._options.trust.resolver is None:
            raise AccountNotFound("account missing")
        return await self._service.ask_others(name, self._options.trust.resolver.timeout)

    async def prepare(self, name: str) -> None:
        """Fetch an account, and those that it imports from, if the resolver has to ask others for them."""
        wanted, seen = [name], set[str]()
        while wanted and self._remote is not None:
            account = wanted.pop()
            known = self.directory.get(account)
            if account in seen or (known is not None and not known.is_expired()):
                continue
            seen.add(account)
            try:
                claims = decode_as(AccountClaims, await self._fetch(self._remote, account))
            except (AccountNotFound, InvalidToken) as error:
                self._logger.debug(f"Account [{account}] fetch failed: {error}")
                continue
            wanted += [entry.account for entry in claims.nats.imports]

    async def _fetch(self, remote: UrlResolver | CacheResolver, name: str) -> str:
        if isinstance(remote, CacheResolver):
            try:
                return remote.load(name)
            except AccountNotFound:
                return await remote.fetch(name)
        token = await remote.fetch(name)
        remote.store(name, token)
        return token

    # -- starting and stopping

    def start(self) -> None:
        """Raises UsageError or ConfigError if the system account, the directory or a token cannot be used."""
        self.is_started = True
        self._log_operators()
        if self.store is not None:
            self._start_store(self.store)
        elif isinstance(self._remote, UrlResolver):
            self._start_url(self._remote)
        self._check_preloads()
        self._start_system_account()
        if self.store is not None:
            self._service = ClaimsService(self, self.store, self._options, self._broker)

    def stop(self) -> None:
        self._expiries.stop_all()
        self._activations.stop_all()
        if self._service:
            self._service.close()

    def _log_operators(self) -> None:
        if self.directory.trust.operators:
            self._logger.info("Trusted Operators")
        for operator in self.directory.trust.operators:
            self._logger.info(f'  System  : "{operator.audience}"')
            self._logger.info(f'  Operator: "{operator.name}"')
        if not self._options.system_account:
            self._logger.warn("Trusted Operators should utilize a System Account")

    def _start_store(self, store: TokenDirectory) -> None:
        try:
            store.make()
            for name, token in self._options.trust.preload.items():
                self._store_preload(store, name, token)
        except (OSError, CannotStore) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(
                f"Could not start resolver: {store.directory}: {reason}",
                hint="the dir of the resolver must be a directory that the server can write to",
            ) from None

    def _store_preload(self, store: TokenDirectory, name: str, token: str) -> None:
        """A token that nobody trusted has signed must not replace one that works."""
        signers = self.directory.trust.keys
        problem = signer_problem(token, signers)
        if not problem:
            store.store(name, token)
        elif store.has_newer(name, token) and not signer_problem(store.load(name), signers):
            self._logger.warn(f"{problem}: the newer token in {store.directory} is used")
        else:
            raise ConfigError(problem, path=self._options.config_path, hint=SIGNER_HINT)

    def _start_url(self, remote: UrlResolver) -> None:
        """See whether anybody answers, and fetch the system account: the only time that this blocks."""
        try:
            if self._options.trust.preload:
                raise AccountNotFound(
                    "resolver preloads only available for writeable resolver types MEM/DIR/CACHE_DIR"
                )
            remote.fetch_now("")
        except AccountNotFound as error:
            raise UsageError(
                str(error), hint="resolver: URL(...) must answer when the server starts"
            ) from None
        with contextlib.suppress(AccountNotFound):
            name = self._options.system_account
            remote.store(name, remote.fetch_now(name))

    def _check_preloads(self) -> None:
        for name, token in self._options.trust.preload.items():
            claims = decode_as(AccountClaims, token)
            if problems := account_problems(claims):
                self._logger.warn(f"Account [{name}] has validation issues:")
                for problem in problems:
                    self._logger.warn(f"  - {problem.text}")

    def _start_system_account(self) -> None:
        """A resolver that tools fill needs a system account to begin with: its own key may sign users."""
        name = self._options.system_account
        if not name:
            return
        try:
            self.directory.find(name)
        except AccountNotFound:
            if self.store is None and self._remote is None:
                raise UsageError(
                    f"Can't set system account: account missing: {name}",
                    hint="add its JWT to resolver_preload",
                ) from None
            claims = AccountClaims(subject=name, nats=Account(limits=unlimited_account()))
            self.directory.adopt(ClaimAccount(claims, "", {name: None}, 0.0))
        except AccountInvalid as error:
            raise UsageError(
                f"Can't set system account: {error}: {name}",
                hint="its JWT has expired, or an operator has signed it that is not trusted here",
            ) from None

    def meet_accounts_of(self, directory: str) -> None:
        """Fetch the accounts that have streams in this directory, so that these are recovered."""
        try:
            names = os.listdir(directory)
        except OSError:
            return
        for name in sorted(name for name in names if is_public(name, "account")):
            try:
                self.directory.find(name)
            except (AccountNotFound, AccountInvalid) as error:
                self._logger.warn(f"Could not resolve account [{name}] of streams on disk: {error}")

    def reload(self, options: Options) -> None:
        """Of a resolver in memory, other tokens count from now on; accounts without one are closed."""
        self._options = options
        if self.store is not None or self._remote is not None:
            return
        self.directory.resolver = MemoryResolver(options.trust.preload)
        self._check_preloads()
        for name in self.directory.names:
            try:
                self.directory.update(name, self.directory.resolver.load(name))
            except (AccountNotFound, AccountInvalid) as error:
                kind = "removed" if isinstance(error, AccountNotFound) else "bad claims"
                self._logger.info(f'Reloaded: deleting account [{kind}]: "{name}"')
                self.forget(name, "authorization")

    def forget(self, name: str, violation: str = "account_expired") -> None:
        """An account has no token any more: nobody may stay, and nobody may come."""
        self.directory.forget(name)
        self._expiries.stop(name)
        self._activations.stop(name)
        self._close_all(name, violation)

    # -- what a token changes

    def _on_change(self, before: ClaimAccount | None, after: ClaimAccount) -> None:
        self._apply(after)
        for importer in self.directory.importers_of(after.name):
            if importer.name != after.name:
                self._apply(importer)
        self._expiries.start(after.name, float(after.claims.expires) or None)
        if before is not None:
            self._check_connections(before, after)

    def _apply(self, account: ClaimAccount) -> AccountOptions:
        wanted, ends_at = self.directory.options_of(account)
        options, errors = without_cycles(wanted, self._options_of)
        for error in errors:
            self._logger.debug(f"{error}, account [{account.name}]")
        self._broker.accounts.adopt(options)
        self._activations.start(account.name, ends_at)
        return options

    def _options_of(self, name: str) -> AccountOptions | None:
        account = self._broker.accounts.get(name)
        return None if account is None else account.options

    def _on_activation_expired(self, name: str) -> None:
        account = self.directory.get(name)
        if account is not None:
            self._apply(account)

    def _on_account_expired(self, name: str) -> None:
        self._close_all(name, "account_expired")

    def _close_all(self, name: str, violation: str) -> None:
        for connection in self._clients_of(name):
            connection.close_for(violation)

    def _clients_of(self, name: str) -> list[ClientConnection]:
        """In the order in which they came."""
        connections = list(self._broker.connections.values())
        return [one for one in connections if one.account is not None and one.account.name == name]

    def _check_connections(self, before: ClaimAccount, after: ClaimAccount) -> None:
        limit = self._broker.accounts[after.name].options.limits.max_connections
        defaults = permissions_of(after.claims.nats.default_permissions)
        defaults_changed = defaults != permissions_of(before.claims.nats.default_permissions)
        for place, connection in enumerate(self._clients_of(after.name)):
            if 0 <= limit <= place:
                connection.close_for("account_connections")
                continue
            identity = connection.identity
            if reason := self._reason_to_close(connection, before, after):
                connection.close_for(reason)
                continue
            if defaults_changed and identity.has_default_permissions:
                identity = msgspec.structs.replace(identity, permissions=defaults)
            connection.rejoin(identity)

    def _reason_to_close(
        self, connection: ClientConnection, before: ClaimAccount, after: ClaimAccount
    ) -> str:
        """The violation; empty: it may stay."""
        identity = connection.identity
        if identity.is_bearer and after.claims.nats.limits.disallow_bearer:
            return "authorization"
        if identity.issued_at and after.has_revoked(identity.nkey, identity.issued_at):
            return "revoked"
        key = identity.signing_key
        if key and (key not in after.signers or after.signers[key] != before.signers.get(key)):
            return "signing_key"
        return ""

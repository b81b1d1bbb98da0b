"""Asks the service of an authorization callout, and waits for its answer."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Protocol

import msgspec

from headrace.accounts.auth_callout import SUBJECT, Callout, CalloutFailed, Exchange, without_callout_subject
from headrace.accounts.authentication import Authenticator
from headrace.accounts.claims_directory import ClaimsDirectory
from headrace.accounts.credentials import Credentials, Identity, Log
from headrace.accounts.directory import Accounts
from headrace.broker.admission.operator_mode import OperatorMode
from headrace.broker.info import ServerKeys
from headrace.broker.internal import InternalClient
from headrace.config.identity import GLOBAL_ACCOUNT
from headrace.config.operators.trust import CalloutOptions
from headrace.config.options import NATS_VERSION, Options
from headrace.engine.core.hub import Hub
from headrace.engine.core.sinks import InboxMessage
from headrace.keys.claims import ServerId

if TYPE_CHECKING:
    from headrace.logs import Logger

REPLY_PREFIX = b"$SYS._INBOX.AUTH."


class Context(Protocol):
    """What it needs of the broker."""

    logger: Logger
    accounts: Accounts
    hub: Hub
    keys: ServerKeys

    def on_bug(self, error: Exception) -> None: ...


class _Asker:
    """Sends requests in one account. Each answer goes to whoever waits for it, and is looked at once."""

    def __init__(self, name: str, context: Context) -> None:
        account = context.accounts[name]
        self._client = InternalClient(context.hub, account.interest, context.on_bug)

    async def ask(self, headers: bytes, payload: bytes, seconds: float) -> bytes | None:
        """None: there was no answer in time."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def on_answer(message: InboxMessage) -> None:
            if not answer.done():
                answer.set_result(message.payload)

        reply = REPLY_PREFIX + secrets.token_urlsafe(16).encode()
        handle = self._client.subscribe(reply, on_answer)
        try:
            self._client.publish(SUBJECT, payload, reply=reply, headers=headers)
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            return None
        finally:
            self._client.unsubscribe(handle)

    def close(self) -> None:
        self._client.close()


class _Callouts:
    """What both modes share."""

    def __init__(self, options: Options, context: Context) -> None:
        self._options = options
        self._context = context
        self._logger = context.logger
        self._askers: dict[str, _Asker] = {}

    def close(self) -> None:
        for asker in self._askers.values():
            asker.close()

    async def _ask(
        self, callout: Callout, credentials: Credentials, user: str, directory: ClaimsDirectory | None
    ) -> Identity | None:
        options = self._options
        if callout.account not in self._askers:
            self._askers[callout.account] = _Asker(callout.account, self._context)
        keys = self._context.keys
        server = ServerId(
            name=options.server_name or keys.signing.public_key,
            host=options.host,
            id=keys.signing.public_key,
            version=NATS_VERSION,
            tags=list(options.tags),
        )
        exchange = Exchange(callout, keys, credentials)
        headers, payload = exchange.request(server, user, options.auth_timeout)
        answer = await self._askers[callout.account].ask(headers, payload, options.auth_timeout)
        if answer is None:
            self._logger.debug(
                f'Authorization callout response not received in time on account "{callout.account}"'
            )
            return None
        try:
            claims, _ = exchange.read(answer, directory)
            identity = exchange.identify(claims, directory)
            if self._context.accounts.get(identity.account) is None:
                raise CalloutFailed(
                    f'no valid account "{identity.account}" for auth callout response '
                    f'on account "{callout.account}": account missing'
                )
        except CalloutFailed as error:
            self._logger.warn(str(error))
            return None
        return identity

    def _deny_callout_subject(self, identity: Identity | None, account: str) -> Identity | None:
        if identity is None or identity.account != account:
            return identity
        return msgspec.structs.replace(identity, permissions=without_callout_subject(identity.permissions))


class ConfiguredCallouts(_Callouts):
    """`auth_callout` in the configuration: everybody but its own users is asked for."""

    def __init__(
        self, options: Options, callout: CalloutOptions, authenticator: Authenticator, context: Context
    ) -> None:
        super().__init__(options, context)
        self._own = callout
        self._authenticator = authenticator
        self._callout = Callout(callout.account, callout.issuer, callout.xkey)

    async def decide(self, credentials: Credentials, log: Log) -> Identity | None:
        identity = await check_off_the_loop(self._authenticator, credentials, log)
        if self._is_delegated(credentials, identity):
            user = credentials.nkey or credentials.user
            identity = await self._ask(self._callout, credentials, user, None)
        return self._deny_callout_subject(identity, self._own.account)

    def _is_delegated(self, credentials: Credentials, identity: Identity | None) -> bool:
        account = identity.account if identity is not None else GLOBAL_ACCOUNT
        allowed = self._own.allowed_accounts
        if account != GLOBAL_ACCOUNT and allowed and account not in allowed:
            return False
        named = credentials.nkey or credentials.user or (identity.user if identity else "")
        return named not in self._own.auth_users


class OperatorCallouts(_Callouts):
    """Accounts whose tokens name users of an authorization service: it is asked for all other users."""

    def __init__(
        self, options: Options, authenticator: Authenticator, mode: OperatorMode, context: Context
    ) -> None:
        super().__init__(options, context)
        self._authenticator = authenticator
        self._directory = mode.directory
        self._mode = mode

    async def decide(self, credentials: Credentials, log: Log) -> Identity | None:
        if self._mode.is_remote and (named := self._authenticator.account_of(credentials)):
            await self._mode.prepare(named)
        identity = self._authenticator.check(credentials, log)
        if identity is None:
            return None
        account = self._directory[identity.account]
        if not account.has_callout:
            return identity
        authorization = account.claims.nats.authorization
        if identity.nkey not in authorization.auth_users:
            callout = Callout(account.name, account.name, authorization.xkey)
            identity = await self._ask(callout, credentials, identity.nkey, self._directory)
        return self._deny_callout_subject(identity, account.name)


async def check_off_the_loop(
    authenticator: Authenticator, credentials: Credentials, log: Log
) -> Identity | None:
    """A comparison that takes long belongs in a thread."""
    if authenticator.is_slow:
        return await asyncio.to_thread(authenticator.check, credentials, log)
    return authenticator.check(credentials, log)

"""What tools ask a resolver that has a directory, in the system account: take, find, list and delete tokens.

    $SYS.REQ.CLAIMS.UPDATE                  a token
    $SYS.REQ.ACCOUNT.<account>.CLAIMS.UPDATE    the same, for just this account
    $SYS.REQ.ACCOUNT.<account>.CLAIMS.LOOKUP    answered with the token
    $SYS.REQ.CLAIMS.LIST                    answered with all accounts
    $SYS.REQ.CLAIMS.DELETE                  a token of the operator that names accounts
    $SYS.REQ.CLAIMS.PACK                    the hash of what another server has; answered with all tokens

Only users of the system account can ask. What they bring must be signed by the operator all the same.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from headrace.accounts.claims_directory import AccountInvalid, ClaimsDirectory
from headrace.accounts.directory import Accounts
from headrace.accounts.resolvers import AccountNotFound
from headrace.accounts.token_directory import CannotStore, TokenDirectory
from headrace.accounts.validation import account_problems
from headrace.broker.internal import Handler, InternalClient
from headrace.broker.server_info import ServerStamp
from headrace.config.options import Options
from headrace.engine.core.hub import Hub
from headrace.engine.core.sinks import InboxMessage
from headrace.keys.claims import AccountClaims, AnyClaims, GenericClaims
from headrace.keys.jwt import InvalidToken, decode, decode_as
from headrace.keys.nkeys import is_public

if TYPE_CHECKING:
    from headrace.logs import Logger

ACCOUNT_TOKEN = {6: 3, 5: 2}
"""Which token names the account, of $SYS.REQ.ACCOUNT.A.CLAIMS.UPDATE and $SYS.ACCOUNT.A.CLAIMS.UPDATE."""


class Mode(Protocol):
    """What it needs of operator mode."""

    directory: ClaimsDirectory

    def forget(self, name: str) -> None: ...


class Context(Protocol):
    logger: Logger
    accounts: Accounts
    hub: Hub
    stamp: ServerStamp

    def on_bug(self, error: Exception) -> None: ...


class ClaimsService:
    """Serves until it is closed."""

    def __init__(self, mode: Mode, store: TokenDirectory, options: Options, context: Context) -> None:
        self._mode = mode
        self._store = store
        self._options = options
        self._logger = context.logger
        self._stamp = context.stamp
        assert options.trust.resolver is not None
        self._resolver = options.trust.resolver
        self._is_cache = self._resolver.kind == "cache"
        system = context.accounts[options.system_account]
        self._client = InternalClient(context.hub, system.interest, context.on_bug)
        routes: dict[bytes, Handler] = {
            b"$SYS.REQ.CLAIMS.UPDATE": self._on_update,
            b"$SYS.REQ.ACCOUNT.*.CLAIMS.UPDATE": self._on_update,
            b"$SYS.ACCOUNT.*.CLAIMS.UPDATE": self._on_update,
            b"$SYS.REQ.CLAIMS.LIST": self._on_list,
            b"$SYS.REQ.CLAIMS.DELETE": self._on_delete,
        }
        if not self._is_cache:
            routes[b"$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP"] = self._on_lookup
            self._client.subscribe(b"$SYS.REQ.CLAIMS.PACK", self._on_pack, queue=b"responder")
        for subject, handler in routes.items():
            self._client.subscribe(subject, handler)
        scope = "some" if self._is_cache else "all"
        self._logger.info(f"Managing {scope} jwt in exclusive directory {store.directory}")

    def close(self) -> None:
        self._client.close()

    async def ask_others(self, name: str, seconds: float) -> str:
        """A token that somebody else in the system account has. Raises AccountNotFound."""
        if not is_public(name, "account"):
            raise AccountNotFound("account missing")
        found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def on_answer(message: InboxMessage) -> None:
            if message.payload and not found.done():
                found.set_result(message.payload)

        reply = b"$SYS._INBOX.CLAIMS." + secrets.token_urlsafe(16).encode()
        handle = self._client.subscribe(reply, on_answer)
        try:
            self._client.publish(f"$SYS.REQ.ACCOUNT.{name}.CLAIMS.LOOKUP".encode(), reply=reply)
            async with asyncio.timeout(seconds):
                return (await found).decode(errors="replace")
        except TimeoutError:
            raise AccountNotFound("fetching jwt timed out") from None
        finally:
            self._client.unsubscribe(handle)

    # -- requests

    def _on_update(self, message: InboxMessage) -> None:
        named = _account_in(message.subject)
        done = "jwt updated cache" if self._is_cache else "jwt updated"
        failed = "jwt update cache resulted in error" if self._is_cache else "jwt update resulted in error"
        try:
            token = message.payload.decode("ascii")
            claims = decode_as(AccountClaims, token)
        except (InvalidToken, UnicodeDecodeError) as error:
            reason = str(error) if isinstance(error, InvalidToken) else "illegal base64 data"
            self._fail(message, named if self._is_cache and named else "n/a", failed, reason)
            return
        account = claims.subject
        invalid = "jwt update cache validation failed" if self._is_cache else "jwt validation failed"
        problems = [problem.text for problem in account_problems(claims) if not problem.is_of_time]
        if problems:
            self._fail(message, account, invalid, f"validation errors: [{' '.join(problems)}]")
        elif named is not None and named != account:
            self._fail(message, named, failed, "subject does not match jwt content")
        elif self._must_not_sign(claims.issuer):
            self._fail(message, account, failed, "operator requires issuer to be a signing key")
        elif claims.issuer not in self._mode.directory.trust.keys:
            # nats-server keeps it, says that all is well, and refuses the users of the account.
            reason = f"{claims.issuer} is not a trusted operator or a signing key of one"
            self._fail(message, account, invalid, reason)
        elif self._is_cache and self._mode.directory.get(account) is None:
            self._answer(message, account, "jwt update cache skipped")
        else:
            self._save(message, account, token, done, failed)

    def _save(self, message: InboxMessage, account: str, token: str, done: str, failed: str) -> None:
        try:
            self._store.save(account, token)
        except CannotStore as error:
            self._fail(message, account, failed, str(error))
            return
        # Also if the file is the same: a tool may have written it, and now tells us.
        if self._mode.directory.get(account) is not None:
            try:
                self._mode.directory.update(account, token)
            except AccountInvalid as error:
                self._logger.error(f'DirResolver - Update for account "{account}" resulted in error {error}')
        self._answer(message, account, done)

    def _must_not_sign(self, issuer: str) -> bool:
        first = self._mode.directory.trust.operators[0]
        return first.nats.strict_signing_key_usage and issuer == first.subject

    def _on_lookup(self, message: InboxMessage) -> None:
        if not message.reply:
            return
        account = _account_in(message.subject) or ""
        if not is_public(account, "account"):
            self._logger.error(f'DirResolver - Error looking up account "{account}": invalid public key')
            return
        try:
            self._client.publish(message.reply, self._store.load(account).encode())
        except AccountNotFound:
            self._logger.debug(f'DirResolver - Could not find account "{account}"')
            self._client.publish(message.reply)

    def _on_list(self, message: InboxMessage) -> None:
        if message.reply:
            names = self._store.names()
            self._logger.debug(f"list request responded with {len(names)} account ids")
            self._send(message.reply, {"data": names, "server": self._stamp.next()})

    def _on_pack(self, message: InboxMessage) -> None:
        """An empty message ends the answer."""
        if not message.reply:
            return
        if message.payload != self._store.hash():
            for name, token in self._store.tokens():
                self._client.publish(message.reply, f"{name}|{token}".encode())
        self._client.publish(message.reply)

    def _on_delete(self, message: InboxMessage) -> None:
        subject = ""
        try:
            claims = decode(message.payload.decode("ascii"))
            subject = claims.subject
            accounts = self._accounts_to_delete(claims)
        except (InvalidToken, UnicodeDecodeError, _Refusal) as error:
            self._fail(message, "", f"delete accounts request by {subject} failed", str(error))
            return
        errors = []
        for account in accounts:
            try:
                self._store.delete(account, for_good=self._resolver.hard_delete)
            except CannotStore as error:
                errors.append(str(error))
            else:
                self._logger.debug(f"Disable account {account} due to remove")
                self._mode.forget(account)
        count = len(accounts) - len(errors)
        if errors:
            self._fail(message, "", f"deleted {count} accounts, failed for {len(errors)}", "\n".join(errors))
        else:
            self._answer(message, "", f"deleted {count} accounts")

    def _accounts_to_delete(self, claims: AnyClaims) -> list[str]:
        """Raises _Refusal."""
        accounts = claims.nats.get("accounts") if isinstance(claims, GenericClaims) else None
        if not self._resolver.allow_delete:
            raise _Refusal("delete must be enabled in server config")
        if claims.subject != claims.issuer:
            raise _Refusal("not self signed")
        if claims.issuer not in self._mode.directory.trust.keys:
            raise _Refusal("not trusted")
        if not isinstance(accounts, list):
            raise _Refusal("malformed request")
        for account in accounts:
            if not isinstance(account, str) or not is_public(account, "account"):
                raise _Refusal("malformed request")
            if account == self._options.system_account:
                raise _Refusal("not allowed to delete system account")
        return accounts

    # -- answers

    def _answer(self, message: InboxMessage, account: str, text: str) -> None:
        self._logger.debug(f"{text} - {account}" if account else text)
        status = {"account": account} if account else {}
        self._reply(message, {"data": {**status, "code": 200, "message": text}})

    def _fail(self, message: InboxMessage, account: str, text: str, reason: str) -> None:
        self._logger.error(f"{text} - {account} - {reason}" if account else f"{text} - {reason}")
        status = {"account": account} if account else {}
        self._reply(message, {"error": {**status, "code": 500, "description": f"{text} - {reason}"}})

    def _reply(self, message: InboxMessage, answer: dict[str, Any]) -> None:
        if message.reply:
            self._send(message.reply, {"server": self._stamp.next(), **answer})

    def _send(self, reply: bytes, answer: dict[str, Any]) -> None:
        self._client.publish(reply, msgspec.json.encode(answer))


class _Refusal(Exception):
    """Why accounts are not deleted."""


def _account_in(subject: bytes) -> str | None:
    """The account that a subject names; None: it names none."""
    tokens = subject.decode(errors="replace").split(".")
    place = ACCOUNT_TOKEN.get(len(tokens))
    return tokens[place] if place is not None else None

"""The files of an operator: keys, tokens, credentials, and the configuration of a server that trusts them.

    DIR/server.conf                 operator: .../operator.jwt, resolver: { type: full, dir: .../tokens }
        operator.jwt
        tokens/AD....jwt            the token of each account, where the server looks for it
        keys/operator.nk            seeds: only their owner can read them
        keys/accounts/NAME.nk
        creds/NAME/USER.creds

Anyone who has the keys can create accounts and users; the server needs none of them.
"""

from __future__ import annotations

import os
import re
import time

from headrace.accounts.resolvers import AccountNotFound
from headrace.accounts.token_directory import CannotStore, TokenDirectory
from headrace.errors import UsageError
from headrace.keys.claims import (
    ALL,
    UNLIMITED,
    Account,
    AccountClaims,
    Operator,
    OperatorClaims,
    PermissionClaims,
    User,
    UserClaims,
    unlimited_account,
)
from headrace.keys.creds import format_creds
from headrace.keys.jwt import InvalidToken, decode_as, encode, undecorated
from headrace.keys.nkeys import InvalidKey, KeyPair, Kind, is_public

SYSTEM = "SYS"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

CONFIGURATION = """\
# Made by `headrace auth init`. The server needs this file, operator.jwt and tokens/; keep keys/ and creds/
# elsewhere once it works.

listen: 127.0.0.1:4222

operator: "{directory}/operator.jwt"
system_account: {system_account}

resolver {{
    type: full
    dir: "{directory}/tokens"
    allow_delete: false
    interval: "2m"
}}

jetstream {{
    store_dir: "{directory}/jetstream"
}}
"""


class Keyring:
    """What is in such a directory. Every method raises UsageError if a file cannot be read or written."""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)
        self._tokens = TokenDirectory(self._path("tokens"))

    # -- making

    @classmethod
    def create(cls, directory: str, operator: str, account: str, user: str) -> Keyring:
        """An operator, a system account with a user, and an account with a user."""
        ring = cls(directory)
        for name in (operator, account, user):
            check_name(name)
        if account == SYSTEM:
            raise UsageError(f"an account cannot be named {SYSTEM}: that is the system account")
        if os.path.exists(ring._path("operator.jwt")):
            raise UsageError(
                f"{ring.directory} has an operator already",
                hint="choose another directory, or add to this one with `headrace auth account`",
            )
        if '"' in ring.directory or "\n" in ring.directory:
            raise UsageError(f"{ring.directory!r} cannot be written into a configuration file")
        pair = ring._new_key("operator", "operator.nk")
        system = ring._new_key("account", "accounts", f"{SYSTEM}.nk")
        claims = OperatorClaims(
            subject=pair.public_key, name=operator, nats=Operator(system_account=system.public_key)
        )
        ring._write_account(system, SYSTEM, pair, has_streams=False)
        ring.add_account(account)
        ring.add_user(SYSTEM, "sys")
        ring.add_user(account, user)
        text = CONFIGURATION.format(directory=ring.directory, system_account=system.public_key)
        ring._write("server.conf", text=text)
        ring._write("operator.jwt", text=encode(claims, pair) + "\n")
        return ring

    def add_account(self, name: str) -> str:
        """Its public key."""
        check_name(name)
        if os.path.exists(self._path("keys", "accounts", f"{name}.nk")):
            raise UsageError(f"there is an account {name} in {self.directory} already")
        operator = self._key("operator.nk")
        pair = self._new_key("account", "accounts", f"{name}.nk")
        self._write_account(pair, name, operator, has_streams=True)
        return pair.public_key

    def add_user(
        self,
        account: str,
        name: str,
        *,
        permissions: PermissionClaims | None = None,
        expires: int = 0,
        is_bearer: bool = False,
    ) -> str:
        """The path of its .creds file."""
        check_name(name)
        path = self._path("creds", account, f"{name}.creds")
        if os.path.exists(path):
            raise UsageError(
                f"there is a user {name} in account {account} already: {path}",
                hint="choose another name, or revoke the user and delete that file",
            )
        signer = self._account_key(account)
        pair = KeyPair.create("user")
        allowed = permissions or PermissionClaims()
        claims = UserClaims(
            subject=pair.public_key,
            name=name,
            expires=expires,
            nats=User(
                pub=allowed.pub,
                sub=allowed.sub,
                resp=allowed.resp,
                bearer_token=is_bearer,
                subs=UNLIMITED,
                data=UNLIMITED,
                payload=UNLIMITED,
            ),
        )
        self._write("creds", account, f"{name}.creds", text=format_creds(encode(claims, signer), pair))
        return path

    # -- looking and changing

    @property
    def accounts(self) -> list[str]:
        """By name, without the system account."""
        try:
            found = os.listdir(self._path("keys", "accounts"))
        except OSError as error:
            raise UsageError(
                f"{self.directory} is not a directory of `headrace auth`: {error.strerror}",
                hint="make one with `headrace auth init`",
            ) from None
        return sorted(name.removesuffix(".nk") for name in found if name not in (f"{SYSTEM}.nk",))

    def only_account(self) -> str:
        """The account that is meant if none is named."""
        accounts = self.accounts
        if len(accounts) != 1:
            raise UsageError(
                f"which account? There are {', '.join(accounts) or 'none'}", hint="name it with --account"
            )
        return accounts[0]

    def revoke(self, account: str, user: str) -> str:
        """Revoke the tokens of this user that were issued so far. `user` is a name, a public
        key, or `*` for all. Returns the public key.
        """
        key = self._find_user(account, user)
        claims = self._account_claims(account)
        claims.nats.revocations[key] = int(time.time())
        self._store(claims, self._key("operator.nk"))
        return key

    def tokens(self) -> list[str]:
        """Of all accounts."""
        return [token for _, token in self._tokens.tokens()]

    @property
    def system_creds(self) -> str:
        return self._path("creds", SYSTEM, "sys.creds")

    def _find_user(self, account: str, user: str) -> str:
        if user == ALL or is_public(user, "user"):
            return user
        check_name(user)
        path = self._path("creds", account, f"{user}.creds")
        if not os.path.exists(path):
            raise UsageError(
                f"there is no user {user} in account {account}: {path} does not exist",
                hint="check the name, or give the public key of the user",
            )
        text = self._read("creds", account, f"{user}.creds")
        try:
            return decode_as(UserClaims, undecorated(text)).subject
        except InvalidToken as error:
            raise UsageError(f"{self._path('creds', account, f'{user}.creds')}: {error}") from None

    def _account_claims(self, account: str) -> AccountClaims:
        try:
            token = self._tokens.load(self._account_key(account).public_key)
            return decode_as(AccountClaims, token)
        except (AccountNotFound, InvalidToken) as error:
            raise UsageError(f"account {account} in {self._tokens.directory}: {error}") from None

    def _write_account(self, pair: KeyPair, name: str, operator: KeyPair, *, has_streams: bool) -> None:
        limits = unlimited_account()
        if has_streams:
            limits.mem_storage = limits.disk_storage = limits.streams = limits.consumer = UNLIMITED
        claims = AccountClaims(subject=pair.public_key, name=name, nats=Account(limits=limits))
        self._store(claims, operator)

    def _store(self, claims: AccountClaims, operator: KeyPair) -> None:
        try:
            self._tokens.make()
            self._tokens.save(claims.subject, encode(claims, operator))
        except (OSError, CannotStore) as error:
            raise UsageError(f"cannot write to {self._tokens.directory}: {error}") from None

    # -- files

    def _account_key(self, account: str) -> KeyPair:
        check_name(account)
        if account != SYSTEM and account not in self.accounts:
            raise UsageError(
                f"there is no account {account} in {self.directory}",
                hint="add it with `headrace auth account`",
            )
        return self._key("accounts", f"{account}.nk")

    def _key(self, *parts: str) -> KeyPair:
        try:
            return KeyPair.from_seed(self._read("keys", *parts))
        except InvalidKey as error:
            raise UsageError(f"{self._path('keys', *parts)} is {error}") from None

    def _new_key(self, kind: Kind, *parts: str) -> KeyPair:
        pair = KeyPair.create(kind)
        self._write("keys", *parts, text=pair.seed + "\n")
        return pair

    def _path(self, *parts: str) -> str:
        return os.path.join(self.directory, *parts)

    def _read(self, *parts: str) -> str:
        path = self._path(*parts)
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from None

    def _write(self, *parts: str, text: str) -> None:
        """Create a file. Those in keys and creds are readable by their owner only, from the start."""
        path = self._path(*parts)
        mode = 0o600 if parts[0] in ("keys", "creds") else 0o644
        try:
            if mode == 0o600:
                os.makedirs(self._path(parts[0]), 0o700, exist_ok=True)
            os.makedirs(os.path.dirname(path), 0o700 if mode == 0o600 else 0o755, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "w") as file:
                os.fchmod(file.fileno(), mode)
                file.write(text)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None


def check_name(name: str) -> None:
    """Names become names of files. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be a name: it has letters, digits and - _ . only")

"""From credentials to an identity: users, nkeys, one user, or a token, as the options have them."""

from __future__ import annotations

import hmac

import bcrypt
import msgspec

from headrace.accounts.challenge import check_signature
from headrace.accounts.credentials import (
    ANONYMOUS,
    SILENCE,
    Credentials,
    Identity,
    Log,
    Refused,
)
from headrace.config.identity import User
from headrace.config.options import Options, is_bcrypt

__all__ = ["ANONYMOUS", "Authenticator", "Credentials", "Identity", "matches"]

NOTHING = Credentials()
MAX_BCRYPT_PASSWORD_BYTES = 72  # bcrypt ignores the rest; nats-server refuses longer ones, too


class Authenticator:
    """Made from options once; a reload makes a new one."""

    def __init__(self, options: Options) -> None:
        self.required = options.auth_required
        self.no_auth_user = options.no_auth_user
        users = options.users or ()
        self._users = {user.user: user for user in users if not user.nkey}
        self._nkeys = {user.nkey: user for user in users if user.nkey}
        self.wants_nonce = bool(self._nkeys) or bool(options.python_hook)
        """Whether INFO has a nonce for clients to sign."""
        self._username = options.username
        self._password = options.password
        self._token = options.token
        self._admits_anybody = options.has_system_account_only
        self._maps_certificates = options.tls is not None and options.tls.maps_users
        secrets = [options.password, options.token, *(user.password for user in self._users.values())]
        hashes = [secret for secret in secrets if is_bcrypt(secret)]
        self.is_slow = bool(hashes)
        """A bcrypt comparison takes about 0.1 s: it belongs in a thread, not in the event loop."""
        self._nobody = User(password=hashes[0] if hashes else "nobody")

    def check(self, credentials: Credentials, log: Log = SILENCE) -> Identity | None:
        """Whose credentials these are; None: they are refused, and the log says why if that may help."""
        try:
            return self._check(credentials)
        except Refused as refused:
            refused.tell(log)
            return None

    def _check(self, credentials: Credentials) -> Identity | None:
        user, password, token = credentials.user, credentials.password, credentials.token
        if not self.required:
            return Identity(user) if user else ANONYMOUS
        if self._maps_certificates and self._users:
            return self._map_certificate(credentials)
        is_nobody = not user and not password and not token
        if self._nkeys:
            nkey = credentials.nkey or (self.no_auth_user if is_nobody else "")
            if credentials.nkey or nkey in self._nkeys:
                return self._check_nkey(credentials, nkey)
        if self._users and user:
            return self._check_user(credentials)
        if is_nobody and (identity := self._identify_anybody(credentials)):
            return identity
        if self._token:
            return ANONYMOUS if matches(self._token, token) else None
        if self._username:
            # Both are compared, so that the time does not reveal which of them was wrong.
            is_named = hmac.compare_digest(self._username.encode(), user.encode(errors="surrogatepass"))
            return Identity(user) if matches(self._password, password) and is_named else None
        matches(self._nobody.password, password)
        return None

    def _check_nkey(self, credentials: Credentials, nkey: str) -> Identity | None:
        known = self._nkeys.get(nkey)
        if known is None or not _may_connect_by(known, credentials.connection_type):
            return None
        if nkey != self.no_auth_user:
            check_signature(credentials, nkey)
        return identify(known)

    def _check_user(self, credentials: Credentials) -> Identity | None:
        # An unknown user takes as long as a known one: the time must not reveal who exists.
        named = self._users.get(credentials.user, self._nobody)
        if matches(named.password, credentials.password) and named is not self._nobody:
            return self._admit(named, credentials)
        if self.is_slow and not is_bcrypt(named.password):
            matches(self._nobody.password, credentials.password)
        return None

    def account_of(self, credentials: Credentials) -> str:
        """The account that a token names, which may have to be fetched first; empty: none."""
        return ""

    def _admit(self, user: User, credentials: Credentials) -> Identity | None:
        return identify(user) if _may_connect_by(user, credentials.connection_type) else None

    def _map_certificate(self, credentials: Credentials) -> Identity | None:
        """`verify_and_map`: the user is whom the certificate names, whatever CONNECT says.

        A user with a password must send it, too.
        """
        if not credentials.certificate:
            return None
        from headrace.accounts.certificates import map_to_user, read_names  # few servers need it

        name = map_to_user(read_names(credentials.certificate), self._users)
        if name is None or not matches(self._users[name].password, credentials.password):
            return None
        return self._admit(self._users[name], credentials)

    def renewed(self, identity: Identity) -> Identity:
        """The same user with the permissions that it has now, until its password is compared again."""
        user = self._users.get(identity.user)
        return identity if user is None else msgspec.structs.replace(identity, permissions=user.permissions)

    def identify_without_connect(self, known: Credentials = NOTHING) -> Identity | None:
        """The identity of a peer whose first operation is not CONNECT. None: it is refused, as in nats-server
        even if no_auth_user is an nkey. Only its connection is known, and perhaps its certificate.
        """
        if not self.required:
            return ANONYMOUS
        if self._maps_certificates and self._users and self.no_auth_user in self._users:
            return self._map_certificate(known)  # whom it names, and nobody else
        return self._identify_anybody(known)

    def _identify_anybody(self, credentials: Credentials) -> Identity | None:
        """Who a peer without credentials is; None: it is refused."""
        if self._admits_anybody:
            return ANONYMOUS
        known = self._users.get(self.no_auth_user)
        return self._admit(known, credentials) if known is not None else None


def identify(user: User) -> Identity:
    """Who a user of the configuration is, once it has proved it."""
    return Identity(
        user.nkey or user.user, account=user.account, permissions=user.permissions, nkey=user.nkey
    )


def _may_connect_by(user: User, connection_type: str) -> bool:
    return not user.connection_types or connection_type in user.connection_types


def matches(secret: str, given: str) -> bool:
    """Compare in constant time. The secret may be a bcrypt hash."""
    if not is_bcrypt(secret):
        return hmac.compare_digest(secret.encode(), given.encode(errors="surrogatepass"))
    password = given.encode(errors="surrogatepass")
    if len(password) > MAX_BCRYPT_PASSWORD_BYTES:
        return False
    try:
        return bcrypt.checkpw(password, secret.encode())
    except ValueError:  # a broken hash in the configuration admits nobody
        return False

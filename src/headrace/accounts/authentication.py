"""From credentials to an identity: users, one user, or a token, as the options have them."""

from __future__ import annotations

import hmac

import bcrypt
import msgspec

from headrace.config.options import GLOBAL_ACCOUNT, Options, is_bcrypt

MAX_BCRYPT_PASSWORD_BYTES = 72  # bcrypt ignores the rest; nats-server refuses longer ones, too


class Credentials(msgspec.Struct, frozen=True):
    """What a client proves with who it is."""

    user: str = ""
    password: str = ""
    token: str = ""

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r})"  # secrets must not reach a log by way of a repr


class Identity(msgspec.Struct, frozen=True):
    """Who a client is, and what follows from it."""

    user: str = ""
    """Empty: nobody in particular."""
    account: str = GLOBAL_ACCOUNT
    """Whose subjects and streams it sees. There is one account so far."""
    permissions: None = None
    """None: it may publish and subscribe to everything. There are no others so far."""
    expires_at: float | None = None
    """Seconds since 1970; None: never."""


ANONYMOUS = Identity()


class Authenticator:
    """Made from options once; a reload makes a new one."""

    def __init__(self, options: Options) -> None:
        self.required = options.auth_required
        self.no_auth_user = options.no_auth_user
        self._users = None if options.users is None else {user.user: user.password for user in options.users}
        self._username = options.username
        self._password = options.password
        self._token = options.token
        secrets = [options.password, options.token, *(self._users or {}).values()]
        self.is_slow = any(is_bcrypt(secret) for secret in secrets)
        """A bcrypt comparison takes about 0.1 s: it belongs in a thread, not in the event loop."""

    def check(self, credentials: Credentials) -> Identity | None:
        """Whose credentials these are; None: they are refused."""
        user, password, token = credentials.user, credentials.password, credentials.token
        if not self.required:
            return Identity(user)
        if self._users is not None and user in self._users:
            return Identity(user) if matches(self._users[user], password) else None
        if self._users is not None and not user and not token and self.no_auth_user:
            return Identity(self.no_auth_user)
        if self._token:
            return ANONYMOUS if matches(self._token, token) else None
        if self._username:
            # Both are compared, so that the time does not reveal which of them was wrong.
            known = hmac.compare_digest(self._username.encode(), user.encode())
            return Identity(user) if matches(self._password, password) and known else None
        return None

    def identify_without_connect(self) -> Identity | None:
        """Who a peer is whose first operation is not CONNECT; None: it is refused."""
        if not self.required:
            return ANONYMOUS
        if self._users is not None and self.no_auth_user in self._users:
            return Identity(self.no_auth_user)
        return None


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

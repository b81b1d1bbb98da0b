"""Checks the credentials of a CONNECT against the options: users, one user, or a token."""

from __future__ import annotations

import hmac

import bcrypt

from headrace.config.options import Options, is_bcrypt

MAX_BCRYPT_PASSWORD_BYTES = 72  # bcrypt ignores the rest; nats-server refuses longer ones, too


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

    def check(self, *, user: str, password: str, token: str) -> str | None:
        """The name under which these credentials are admitted ("" for nobody in particular), or None."""
        if not self.required:
            return user
        if self._users is not None and user in self._users:
            return user if matches(self._users[user], password) else None
        if self._users is not None and not user and not token and self.no_auth_user:
            return self.no_auth_user
        if self._token:
            return "" if matches(self._token, token) else None
        if self._username:
            # Both are compared, so that the time does not reveal which of them was wrong.
            known = hmac.compare_digest(self._username.encode(), user.encode())
            return user if matches(self._password, password) and known else None
        return None

    def admits_without_connect(self) -> bool:
        """Whether peers whose first operation is not CONNECT are `no_auth_user`."""
        return self._users is not None and self.no_auth_user in self._users


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

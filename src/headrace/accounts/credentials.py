"""A client's credentials, and the identity that follows from them."""

from __future__ import annotations

from typing import Protocol

import msgspec

from headrace.config.identity import GLOBAL_ACCOUNT, Permissions
from headrace.keys.nkeys import is_public

STANDARD = "STANDARD"
UNLIMITED = -1


class Credentials(msgspec.Struct, frozen=True):
    """How a client proves its identity, and what else is known about it."""

    user: str = ""
    password: str = ""
    token: str = ""
    jwt: str = ""
    nkey: str = ""
    sig: str = ""
    nonce: str = ""
    """What the server asked it to sign; empty: nothing."""
    host: str = ""
    port: int = 0
    connection_type: str = STANDARD
    cid: int = 0
    name: str = ""
    lang: str = ""
    version: str = ""
    protocol: int = 0
    certificate: bytes = b""
    """As DER, if there is TLS and it has one that was verified."""

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r})"  # secrets must not reach a log through a repr

    @property
    def label(self) -> str:
        """For the log: who it claims to be, without secrets; empty: it does not say."""
        if self.nkey:  # whatever else it is may be a seed, by mistake
            return f'Nkey "{self.nkey if is_public(self.nkey, "user") else "[REDACTED]"}"'
        if self.user:
            return f'User "{self.user}"'
        return 'Token "[REDACTED]"' if self.token else ""


class Limits(msgspec.Struct, frozen=True):
    """What a user may use, apart from its account. -1: no limit."""

    subscriptions: int = UNLIMITED
    payload: int = UNLIMITED


NO_LIMITS = Limits()


def stricter(one: int, other: int) -> int:
    """Of two limits."""
    return max(one, other) if UNLIMITED in (one, other) else min(one, other)


class Identity(msgspec.Struct, frozen=True):
    """Who a client is, and what follows from it."""

    user: str = ""
    """Empty: nobody in particular."""
    account: str = GLOBAL_ACCOUNT
    """Whose subjects and streams it sees."""
    permissions: Permissions | None = None
    """None: it may publish and subscribe to everything."""
    expires_at: float | None = None
    """Seconds since 1970; None: never."""
    nkey: str = ""
    """Its public key, if it has proved that it owns one."""
    issued_at: int = 0
    """When its token was issued, in seconds since 1970; 0: it has none."""
    signing_key: str = ""
    """With which its token was signed, if not with the key of the account itself."""
    is_bearer: bool = False
    has_default_permissions: bool = False
    """Whether its permissions are those of its account by default, and change with them."""
    limits: Limits = NO_LIMITS
    """Its own, apart from those of its account and of the server."""
    name: str = ""
    """What its token calls it."""
    tags: tuple[str, ...] = ()

    @property
    def issuer_key(self) -> str:
        """Which key has signed its token."""
        return self.signing_key or (self.account if self.nkey else "")


ANONYMOUS = Identity()


class Log(Protocol):
    """Where the reason for a refusal goes. The client never sees it."""

    def debug(self, text: str) -> None: ...
    def error(self, text: str) -> None: ...
    def warn(self, text: str) -> None: ...


class Silence:
    """No log."""

    def debug(self, text: str) -> None: ...
    def error(self, text: str) -> None: ...
    def warn(self, text: str) -> None: ...


SILENCE = Silence()


class Refused(Exception):
    """Why a client is not admitted, in the words of nats-server."""

    def __init__(self, reason: str, *, is_error: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_error = is_error

    def tell(self, log: Log) -> None:
        (log.error if self.is_error else log.debug)(self.reason)

"""Who is logged in: random ids in cookies, everything else here.

A session ends when it is not used, when it is old, when its user logs out, and when the user has lost its
right to connect: its credentials are compared again after every reload and, where somebody else than the
configuration decides, every minute.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import msgspec

from headrace.accounts.credentials import Credentials, Identity

IDLE_SECONDS = 3600.0
LONGEST_SECONDS = 12 * 3600.0
MAX_SESSIONS = 1000
"""The one that was not used for the longest time gives way."""


class Session(msgspec.Struct):
    """`checked_at` is the version of the configuration by which its user was admitted."""

    id: str
    token: str
    """What a POST has to carry in a header."""
    identity: Identity
    credentials: Credentials
    started: float
    used: float
    checked_configuration: int
    checked: float

    def __repr__(self) -> str:
        return f"Session(user={self.identity.user!r})"  # the id lets others in


class Sessions:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._by_id: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def open(self, identity: Identity, credentials: Credentials, configuration: int) -> Session:
        now = self.now()
        while len(self._by_id) >= MAX_SESSIONS:
            self.close(min(self._by_id.values(), key=lambda session: session.used))
        session = Session(
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(32),
            identity,
            credentials,
            now,
            now,
            configuration,
            now,
        )
        self._by_id[session.id] = session
        return session

    def find(self, session_id: str) -> Session | None:
        """None: there is none, or it has expired. Finding one is using it."""
        session = self._by_id.get(session_id)
        if session is None:
            return None
        now = self.now()
        expires_at = session.identity.expires_at
        if (
            now - session.used > IDLE_SECONDS
            or now - session.started > LONGEST_SECONDS
            or (expires_at is not None and time.time() >= expires_at)
        ):
            self.close(session)
            return None
        session.used = now
        return session

    def close(self, session: Session) -> None:
        self._by_id.pop(session.id, None)

"""From credentials to an identity, in the way a NATS client is admitted, and how often one may try."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus

import msgspec

from headrace.accounts.challenge import new_nonce
from headrace.accounts.credentials import Credentials, Identity
from headrace.broker.broker import Broker
from headrace.monitor.console.refusal import Refusal

FAILURES_OF_ADDRESS = 5
FAILURES_OF_ALL = 100
WINDOW_SECONDS = 60.0
MAX_ADDRESSES = 1000
MAX_NONCES = 1000
NONCE_SECONDS = 120.0
LANGUAGE = "console"
MAX_SECRET_CHARACTERS = 16 * 1024


class LoginBody(msgspec.Struct):
    """What the form sends: a user with a password, a token, or a signature by an nkey."""

    user: str = ""
    password: str = ""
    token: str = ""
    jwt: str = ""
    nkey: str = ""
    sig: str = ""
    nonce: str = ""

    def __repr__(self) -> str:
        return f"LoginBody(user={self.user!r})"

    @property
    def is_empty(self) -> bool:
        return not any((self.user, self.password, self.token, self.jwt, self.nkey))


class Attempts:
    """Failed logins of the last minute. Passwords cannot be guessed at five a minute."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raises Refusal if there were too many."""
        since = self._now() - WINDOW_SECONDS
        of_all = [when for failures in self._failures.values() for when in failures if when > since]
        of_address = [when for when in self._failures.get(address, ()) if when > since]
        for failures, most in ((of_address, FAILURES_OF_ADDRESS), (of_all, FAILURES_OF_ALL)):
            if len(failures) >= most:
                wait = max(1, round(min(failures) - since))
                raise Refusal(
                    HTTPStatus.TOO_MANY_REQUESTS,
                    f"Too many failed attempts. Try again in {wait} seconds.",
                    retry_seconds=wait,
                )

    def note_success(self, address: str) -> None:
        """The last one was none."""
        if failures := self._failures.get(address):
            failures.pop()

    def note_failure(self, address: str) -> None:
        since = self._now() - WINDOW_SECONDS
        recent = [when for when in self._failures.pop(address, ()) if when > since]
        self._failures[address] = [*recent, self._now()][-FAILURES_OF_ADDRESS:]
        while len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)


class Nonces:
    """What browsers were asked to sign. Each is good for one login, and not for long."""

    def __init__(self) -> None:
        self._issued: OrderedDict[str, float] = OrderedDict()

    def issue(self) -> str:
        nonce = new_nonce()
        self._issued[nonce] = time.monotonic()
        while len(self._issued) > MAX_NONCES:
            self._issued.popitem(last=False)
        return nonce

    def redeem(self, nonce: str) -> bool:
        issued = self._issued.pop(nonce, None)
        return issued is not None and time.monotonic() - issued < NONCE_SECONDS


class Gate:
    """Compares credentials with what the server knows now."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._one_at_a_time = asyncio.Lock()

    @property
    def decides_elsewhere(self) -> bool:
        """Whether the answer can change without a reload: a callout, a Python function, operator mode."""
        return self._broker.doorkeeper is not None

    async def check(self, credentials: Credentials) -> Identity | None:
        """Who that is; None: it is refused."""
        broker = self._broker
        if broker.doorkeeper is not None:
            identity = await broker.doorkeeper.decide(credentials, broker.logger)
        elif broker.authenticator.is_slow:
            async with self._one_at_a_time:  # a bcrypt comparison takes about 0.1 s
                identity = await asyncio.to_thread(broker.authenticator.check, credentials)
        else:
            identity = broker.authenticator.check(credentials)
        if identity is None or broker.accounts.get(identity.account) is None:
            return None
        return identity


def credentials_of(body: LoginBody, address: str) -> Credentials:
    """Raises Refusal if they are absurdly long."""
    if any(len(value) > MAX_SECRET_CHARACTERS for value in msgspec.structs.astuple(body)):
        raise Refusal(HTTPStatus.BAD_REQUEST, "These credentials are too long.")
    return Credentials(
        body.user,
        body.password,
        body.token,
        jwt=body.jwt,
        nkey=body.nkey,
        sig=body.sig,
        nonce=body.nonce,
        host=address,
        name="Headrace console",
        lang=LANGUAGE,
    )

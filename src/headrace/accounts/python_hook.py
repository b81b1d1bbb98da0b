"""`authorization { python: "my_auth:check" }`: a Python function decides who a client is.

    from headrace.auth import Connection, User

    async def check(connection: Connection) -> User | None:
        return User(account="APP") if await is_known(connection.token) else None

It runs in separate threads, each with its own event loop, so even if it blocks, it delays only other checks.
If a check takes longer than the authorization timeout, raises, or returns something else, the client is
refused. The client's secrets never reach the log.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from typing import Any

import msgspec

from headrace.accounts.challenge import check_signature
from headrace.accounts.credentials import Credentials, Identity, Log, Refused
from headrace.config.identity import GLOBAL_ACCOUNT, Permissions
from headrace.errors import ConfigError

THREADS = 4
REDACTED = "[REDACTED]"


class User(msgspec.Struct, frozen=True):
    """Who a client is."""

    name: str = ""
    """As monitoring and logs show it; empty: the name that the client gave."""
    account: str = GLOBAL_ACCOUNT
    permissions: Permissions | None = None
    """None: everything."""
    expires: datetime | float | None = None
    """When its connection is closed: a time with a zone, or seconds since 1970; None: never."""


class Connection:
    """A client that asks to be admitted, and what it sent."""

    __slots__ = ("_credentials",)

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    @property
    def user(self) -> str:
        return self._credentials.user

    @property
    def password(self) -> str:
        return self._credentials.password

    @property
    def token(self) -> str:
        return self._credentials.token

    @property
    def jwt(self) -> str:
        return self._credentials.jwt

    @property
    def nkey(self) -> str:
        """The public key that it claims to own; see `is_signed_by`."""
        return self._credentials.nkey

    @property
    def name(self) -> str:
        return self._credentials.name

    @property
    def lang(self) -> str:
        return self._credentials.lang

    @property
    def version(self) -> str:
        return self._credentials.version

    @property
    def host(self) -> str:
        """Its address."""
        return self._credentials.host

    @property
    def port(self) -> int:
        return self._credentials.port

    @property
    def connection_type(self) -> str:
        """STANDARD or WEBSOCKET."""
        return self._credentials.connection_type

    def is_signed_by(self, nkey: str) -> bool:
        """Whether it has signed its nonce with this key."""
        try:
            check_signature(self._credentials, nkey)
        except Refused:
            return False
        return True

    def __repr__(self) -> str:
        return f"Connection(user={self.user!r}, host={self.host!r})"


Hook = Callable[[Connection], Any]


def load_hook(named: str, config_path: str) -> Hook:
    """The function `module:function`, from the directory of the configuration or from sys.path. A module that
    was loaded before is reloaded. Raises ConfigError.
    """
    module_name, separator, function_name = named.partition(":")
    if not separator or not module_name or not function_name:
        raise ConfigError(f'authorization python: "{named}" is not of the form "module:function"')
    directory = os.path.dirname(os.path.abspath(config_path)) if config_path else os.getcwd()
    if directory not in sys.path:
        sys.path.append(directory)  # last: it must not hide what others import
    importlib.invalidate_caches()
    try:
        known = sys.modules.get(module_name)
        module = importlib.reload(known) if known is not None else importlib.import_module(module_name)
    except Exception as error:  # whatever the operator's module may raise
        raise ConfigError(
            f'authorization python: cannot import "{module_name}": {type(error).__name__}: {error}',
            hint=f"the module is looked for in {directory} and in the Python path",
        ) from error
    hook = getattr(module, function_name, None)
    if not callable(hook):
        raise ConfigError(
            f'authorization python: "{module_name}" has no function "{function_name}"',
            hint=f"it is {getattr(module, '__file__', 'a built-in module')}",
        )
    checked: Hook = hook
    return checked


class _Worker:
    """A thread with an event loop. Everything but `_run` is used by the thread that made it."""

    def __init__(self, number: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.waiting = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"headrace-python-auth-{number}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.loop.run_forever()
        if cancelled := asyncio.all_tasks(self.loop):  # nobody waits for them, but they may have to clean up
            self.loop.run_until_complete(asyncio.wait(cancelled))
        self.loop.close()

    def begin(self) -> None:
        self.waiting += 1

    def end(self) -> None:
        self.waiting -= 1
        self._stop_if_unused()

    def close(self) -> None:
        """Checks in progress end first: by themselves, with their time, or when their client is gone.

        One that blocks keeps its thread until it ends, or until the process does.
        """
        self._is_closed = True
        self._stop_if_unused()

    def _stop_if_unused(self) -> None:
        if self._is_closed and not self.waiting:
            self.loop.call_soon_threadsafe(self.loop.stop)


class PythonHook:
    """Runs the function. Made in the thread of the event loop, which is the only one that uses it."""

    def __init__(self, hook: Hook, name: str, timeout: float) -> None:
        self._hook = hook
        self._name = name
        self._timeout = timeout
        self._workers: list[_Worker] = []

    async def decide(self, credentials: Credentials, log: Log) -> Identity | None:
        worker = self._pick_worker()
        worker.begin()
        future: Future[Any] = asyncio.run_coroutine_threadsafe(self._call(credentials), worker.loop)
        try:
            answer = await asyncio.wait_for(asyncio.wrap_future(future), self._timeout)
        except TimeoutError:
            log.error(f"{self._name} did not answer within {self._timeout:g} s")
            return None
        except Exception as error:  # whatever the operator's function may raise
            log.error(f"{self._name} raised an exception: {redacted(format_error(error), credentials)}")
            return None
        finally:
            worker.end()
        return self._identify(answer, credentials, log)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers.clear()

    async def _call(self, credentials: Credentials) -> Any:
        """In the worker's thread. A plain function blocks this loop, which is what it is for."""
        answer = self._hook(Connection(credentials))
        return await answer if inspect.isawaitable(answer) else answer

    def _pick_worker(self) -> _Worker:
        """One that has nothing to do, a new one, or the one with the fewest checks."""
        idle = next((worker for worker in self._workers if not worker.waiting), None)
        if idle is not None:
            return idle
        if len(self._workers) < THREADS:
            self._workers.append(_Worker(len(self._workers)))
            return self._workers[-1]
        return min(self._workers, key=lambda worker: worker.waiting)

    def _identify(self, answer: object, credentials: Credentials, log: Log) -> Identity | None:
        if answer is None:
            return None
        if not isinstance(answer, User):
            log.error(f"{self._name} returned {type(answer).__name__}, neither a User nor None")
            return None
        expires = answer.expires.timestamp() if isinstance(answer.expires, datetime) else answer.expires
        return Identity(
            answer.name or credentials.user,
            account=answer.account,
            permissions=answer.permissions,
            expires_at=expires,
        )


def format_error(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def redacted(text: str, credentials: Credentials) -> str:
    """The text of an exception often contains the value that caused it."""
    secrets = (credentials.password, credentials.token, credentials.jwt, credentials.sig)
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, REDACTED).replace(repr(secret)[1:-1], REDACTED)
    return text

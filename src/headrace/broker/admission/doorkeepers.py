"""Who decides about a client if that takes time: a callout, a Python function, or operator mode.

The link is held meanwhile: nothing that the client sends is looked at before it is known who it is.
"""

from __future__ import annotations

import asyncio
import traceback
from typing import TYPE_CHECKING, Protocol

from headrace.accounts.authentication import Authenticator
from headrace.accounts.credentials import Credentials, Identity, Log
from headrace.config.options import Options

if TYPE_CHECKING:
    from headrace.broker.admission.auth_callouts import Context
    from headrace.broker.admission.operator_mode import OperatorMode
    from headrace.broker.connection import ClientConnection
    from headrace.broker.connection_context import ConnectionContext

MAX_WAITING = 1000
"""Clients that wait for a decision; more are turned away."""


class Doorkeeper(Protocol):
    async def decide(self, credentials: Credentials, log: Log) -> Identity | None:
        """Who the client is; None: it is refused."""

    def close(self) -> None: ...


def make_doorkeeper(
    options: Options, authenticator: Authenticator, operator_mode: OperatorMode | None, context: Context
) -> Doorkeeper | None:
    """None: the authenticator decides at once. Raises ConfigError if a Python function cannot be loaded."""
    if options.python_hook:
        from headrace.accounts.python_hook import PythonHook, load_hook  # few servers need it

        hook = load_hook(options.python_hook, options.config_path)
        return PythonHook(hook, options.python_hook, options.auth_timeout)
    if operator_mode is None and options.callout is None:
        return None
    from headrace.broker.admission.auth_callouts import ConfiguredCallouts, OperatorCallouts  # nor these

    if operator_mode is not None:
        return OperatorCallouts(options, authenticator, operator_mode, context)
    assert options.callout is not None
    return ConfiguredCallouts(options, options.callout, authenticator, context)


class Waiting:
    """The clients that a doorkeeper decides about now."""

    def __init__(self, server: ConnectionContext) -> None:
        self._server = server
        self._tasks: dict[ClientConnection, asyncio.Task[None]] = {}

    def ask(self, connection: ClientConnection, doorkeeper: Doorkeeper) -> None:
        """Hold the link until it is decided; the doorkeeper has a clock of its own."""
        options = connection.options
        if options.account or options.new_account:
            connection.admit(None)  # naming an account in CONNECT is no longer allowed
        elif len(self._tasks) >= MAX_WAITING:
            connection.on_violation("auth_timeout", b"too many clients wait for authentication")
        else:
            self._server.auth_timers.stop(connection)
            connection.link.hold()
            self._start(connection, doorkeeper, is_again=False)

    def ask_again(self, connection: ClientConnection, doorkeeper: Doorkeeper) -> None:
        """About a client that is connected, and may lose its right."""
        self._start(connection, doorkeeper, is_again=True)

    def _start(self, connection: ClientConnection, doorkeeper: Doorkeeper, *, is_again: bool) -> None:
        self.drop(connection)
        self._tasks[connection] = asyncio.get_running_loop().create_task(
            self._decide(connection, doorkeeper, is_again)
        )

    def drop(self, connection: ClientConnection) -> None:
        task = self._tasks.pop(connection, None)
        if task:
            task.cancel()

    def stop(self) -> None:
        for connection in list(self._tasks):
            self.drop(connection)

    async def _decide(self, connection: ClientConnection, doorkeeper: Doorkeeper, is_again: bool) -> None:
        try:
            identity = await doorkeeper.decide(connection.credentials, connection)
        except Exception as error:  # a mistake of ours admits nobody
            connection.error(
                f"Unexpected error in authentication: {''.join(traceback.format_exception(error))}"
            )
            identity = None
        if identity is not None and self._server.accounts.get(identity.account) is None:
            connection.error(f'there is no account "{identity.account}"')
            identity = None
        if self._tasks.get(connection) is not asyncio.current_task() or connection.link.closed:
            return
        del self._tasks[connection]
        if is_again:
            connection.on_checked_again(identity)
        else:
            connection.admit(identity)
            connection.link.resume()

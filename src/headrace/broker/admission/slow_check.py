"""A check of credentials in a thread, and what follows from it for the connection."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from headrace.accounts.credentials import Identity
from headrace.broker.admission.credential_checks import Check

if TYPE_CHECKING:
    from headrace.broker.connection import ClientConnection
    from headrace.broker.connection_context import ConnectionContext


class SlowCheck:
    """Everything but `_compare` runs in the thread of the event loop."""

    def __init__(self, connection: ClientConnection, server: ConnectionContext) -> None:
        self._connection = connection
        self._server = server
        self._authenticator = server.authenticator

    def start(self) -> None:
        """Hold the link until its turn has come. The clock of the authentication timeout keeps running."""
        connection = self._connection
        check = Check(self._compare, self._on_checked, self._on_failed)
        if self._server.credential_checks.check(connection, check):
            connection.link.hold()
        else:
            connection.on_violation("auth_timeout", b"too many clients wait for authentication")

    def start_again(self) -> None:
        """Of a client that is connected, and may lose its right."""
        check = Check(self._compare, self._on_checked_again, self._on_failed)
        self._server.credential_checks.check_again(self._connection, check)

    def _compare(self) -> Identity | None:
        return self._connection.authenticate(self._authenticator)

    def _on_checked(self, identity: Identity | None) -> None:
        connection, link = self._connection, self._connection.link
        if link.closed:
            return
        if self._authenticator is not self._server.authenticator:
            SlowCheck(connection, self._server).start()  # a reload has changed who is admitted
            if not link.closed:
                return
        else:
            connection.admit(identity)
        link.resume()

    def _on_checked_again(self, identity: Identity | None) -> None:
        if self._authenticator is self._server.authenticator:
            self._connection.on_checked_again(identity)

    def _on_failed(self, error: BaseException) -> None:
        """A mistake of ours admits nobody."""
        connection = self._connection
        text = "".join(traceback.format_exception(error))
        connection.error(f"Unexpected error in authentication: {text}")
        if not connection.link.closed:
            connection.on_violation("authorization", b"")
            connection.link.resume()

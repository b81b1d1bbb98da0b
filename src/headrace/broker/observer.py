"""What the broker calls when clients come, go or fail to log in; it does not know what follows from that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.accounts.account import Account
    from headrace.broker.connection import ClientConnection


class Observer(Protocol):
    def on_connect(self, connection: ClientConnection) -> None:
        """It was admitted, or admitted again."""

    def on_disconnect(self, connection: ClientConnection, reason: str) -> None:
        """It has ended, also if it was never admitted."""

    def on_connections(self, account: Account) -> None:
        """An account has more or fewer of them than before."""

    def on_bad_credentials(self, connection: ClientConnection, reason: str) -> None:
        """They were looked at and refused; `on_refused` follows."""

    def on_refused(self, connection: ClientConnection, reason: str) -> None:
        """It is about to be closed because it may not be here."""

    def on_lame_duck(self) -> None:
        """The server takes no new clients."""


class Nobody:
    """Where nobody wants to know."""

    def on_connect(self, connection: ClientConnection) -> None: ...
    def on_disconnect(self, connection: ClientConnection, reason: str) -> None: ...
    def on_connections(self, account: Account) -> None: ...
    def on_bad_credentials(self, connection: ClientConnection, reason: str) -> None: ...
    def on_refused(self, connection: ClientConnection, reason: str) -> None: ...
    def on_lame_duck(self) -> None: ...


NOBODY = Nobody()

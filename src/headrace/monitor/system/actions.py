"""Requests that do something: read the configuration again, close a client, or ask it to leave."""

from __future__ import annotations

from collections.abc import Callable

from headrace.broker.broker import Broker
from headrace.errors import HeadraceError
from headrace.monitor.query import BadQuery

KICKED = "Kicked"
Reload = Callable[[], HeadraceError | None]
"""Reads the configuration again, and returns what is wrong with it."""


def reload(reload: Reload) -> None:
    """Raises BadQuery."""
    if error := reload():
        raise BadQuery(error.message)


def kick(broker: Broker, cid: int) -> None:
    """Raises BadQuery."""
    connection = broker.connections.get(cid)
    if connection is None:
        raise BadQuery("no such client or leafnode id")
    connection.link.close(KICKED)
    broker.hub.flush()


def ask_to_leave(broker: Broker, cid: int) -> None:
    """As if the server were a lame duck: the client looks for another one. Raises BadQuery."""
    connection = broker.connections.get(cid)
    if connection is None:
        raise BadQuery("no such client id")
    if not connection.announce(lame_duck=True):
        raise BadQuery("client does not support Lame Duck Mode or is not ready to receive the notification")
    broker.hub.flush()

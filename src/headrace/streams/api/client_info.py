"""Who asked: what an audit advisory says about the client behind a request."""

from __future__ import annotations

from typing import Any

from headrace.broker.connection import Connection
from headrace.streams.formats import NANOSECONDS, format_time


def client_info(publisher: object, server_name: str, account: str) -> dict[str, Any]:
    """Only the account for a request from within the server."""
    connection = getattr(publisher, "owner", publisher)
    if not isinstance(connection, Connection):
        return {"acc": account}
    optional = {
        "user": connection.user,
        "name": connection.options.name,
        "lang": connection.options.lang,
        "ver": connection.options.version,
        "rtt": int(connection.rtt * NANOSECONDS),
    }
    return {
        "start": format_time(int(connection.started_at * NANOSECONDS)),
        "host": connection.host,
        "id": connection.cid,
        "acc": account,
        **{key: value for key, value in optional.items() if value},
        "server": server_name,
        "kind": "Client",
        "client_type": "nats",
    }

"""A client as events show it."""

from __future__ import annotations

from typing import Any

from headrace.accounts.account import Account
from headrace.broker.connection import ClientConnection
from headrace.go_formats import NANOSECONDS, format_time

REDACTED = "[REDACTED]"


def describe_client(
    connection: ClientConnection, account: Account, stopped: int | None = None, *, tag: str = ""
) -> dict[str, Any]:
    """In nats-server's order. `account` is the one it is in, or would be in if it had been admitted.

    `stopped` is when it left, in nanoseconds since 1970; None: it is connected. `tag` is what the account is
    called, if not by its own title.
    """
    options, identity = connection.options, connection.identity
    described = {
        "start": format_time(int(connection.started_at * NANOSECONDS)),
        "host": connection.host,
        "id": connection.cid,
        "acc": account.name,
        "user": claimed_user(connection),
        "name": options.name,
        "lang": options.lang,
        "ver": options.version,
        "rtt": 0 if stopped is None else int(connection.rtt * NANOSECONDS),
        "stop": "" if stopped is None else format_time(stopped),
        "jwt": options.jwt,
        "issuer_key": identity.issuer_key,
        "name_tag": tag or account.title,
        "tags": identity.tags,
        "kind": "Client",
        "client_type": "websocket" if connection.websocket else "nats",
    }
    return {name: value for name, value in described.items() if value}


def claimed_user(connection: ClientConnection) -> str:
    """Who it says it is; a token stays secret."""
    options = connection.options
    return options.nkey or options.user or connection.user or (REDACTED if options.auth_token else "")

"""Who sent a request, as other accounts, advisories and measurements see it."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.broker.connection import ClientConnection
from headrace.go_formats import NANOSECONDS, format_time

REQUEST_INFO = b"Nats-Request-Info"
FIRST_LINE = b"NATS/1.0\r\n"
ORDER = (
    "start",
    "host",
    "id",
    "acc",
    "svc",
    "user",
    "name",
    "lang",
    "ver",
    "rtt",
    "server",
    "issuer_key",
    "name_tag",
    "tags",
    "kind",
    "client_type",
)

Info = dict[str, Any]


def describe_client(connection: ClientConnection, account: str, server_name: str) -> Info:
    """Everything that is known about a client."""
    options, identity = connection.options, connection.identity
    optional = {
        "user": connection.user,
        "name": options.name,
        "lang": options.lang,
        "ver": options.version,
        "rtt": int(connection.rtt * NANOSECONDS),
    }
    of_token = {"issuer_key": identity.issuer_key, "name_tag": identity.name, "tags": identity.tags}
    return {
        "start": format_time(int(connection.started_at * NANOSECONDS)),
        "host": connection.host,
        "id": connection.cid,
        "acc": account,
        **{key: value for key, value in optional.items() if value},
        "server": server_name,
        **{key: value for key, value in of_token.items() if value},
        "kind": "Client",
        "client_type": "websocket" if connection.websocket else "nats",
    }


def describe_briefly(connection: ClientConnection, account: str) -> Info:
    """What everyone may know: the account, and the client's round-trip time."""
    rtt = int(connection.rtt * NANOSECONDS)
    return {"acc": account, **({"rtt": rtt} if rtt else {})}


def in_order(info: Info) -> Info:
    """The fields in the order in which nats-server has them."""
    return {name: info[name] for name in ORDER if name in info}


def with_request_info(headers: bytes, info: Info) -> bytes:
    """Headers that say who sent the request, and not what the client says about itself."""
    lines = headers.split(b"\r\n")[:-2] if headers else []
    kept = [line for line in lines if line.partition(b":")[0].lower() != REQUEST_INFO.lower()]
    head = b"".join(line + b"\r\n" for line in kept) or FIRST_LINE
    return head + REQUEST_INFO + b": " + msgspec.json.encode(info) + b"\r\n\r\n"

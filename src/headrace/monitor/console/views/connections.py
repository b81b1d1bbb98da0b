"""Connections: a sorted page of them, and one with its subscriptions. Rates are the page's business."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from headrace.broker.connection import ClientConnection
from headrace.monitor.console.asking import Asking, Document, shown
from headrace.monitor.console.refusal import not_found
from headrace.monitor.console.views.listing import Listing

CONNECTIONS_IN_A_TURN = 500
SUBSCRIPTIONS_SHOWN = 200
RIGHT_TO_LOOK = "$SYS.REQ.ACCOUNT.PING.CONNZ"
"""By this subject a client of nats-server asks for the connections of its account."""

SORTS: dict[str, Callable[[ClientConnection], Any]] = {
    "cid": lambda one: one.cid,
    "name": lambda one: one.options.name.lower(),
    "user": lambda one: user_of(one).lower(),
    "pending": lambda one: one.link.pending_bytes,
    "subscriptions": lambda one: len(one.link.subscriptions),
    "in_msgs": lambda one: one.link.in_msgs,
    "out_msgs": lambda one: one.link.out_msgs,
    "in_bytes": lambda one: one.link.in_bytes,
    "out_bytes": lambda one: one.link.out_bytes,
    "idle": lambda one: one.link.idle_seconds,
    "rtt": lambda one: one.rtt,
}


def user_of(connection: ClientConnection) -> str:
    return connection.user or connection.options.user or ("[token]" if connection.options.auth_token else "")


async def show_connections(ask: Asking) -> Document:
    ask.viewer.check_publish(RIGHT_TO_LOOK)
    listing = Listing(ask, SORTS)
    accounts = ask.accounts()
    everything = list(ask.broker.connections.values())
    found: list[ClientConnection] = []
    total = 0
    for start in range(0, len(everything), CONNECTIONS_IN_A_TURN):
        if start:
            await asyncio.sleep(0)
        for connection in everything[start : start + CONNECTIONS_IN_A_TURN]:
            if connection.account in accounts:
                total += 1
                if not listing.wanted or is_meant(connection, listing.wanted):
                    found.append(connection)
    page = listing.page(found, lambda one: (one.cid,))
    return {
        **listing.describe(total, len(found)),
        "connections": [describe_connection(one) for one in page],
    }


def is_meant(connection: ClientConnection, wanted: str) -> bool:
    texts = (connection.options.name, user_of(connection), connection.host, str(connection.cid))
    return any(wanted in text.lower() for text in texts)


def describe_connection(connection: ClientConnection) -> Document:
    link, options = connection.link, connection.options
    return {
        "cid": connection.cid,
        "name": options.name,
        "user": user_of(connection),
        "account": connection.account.name if connection.account else "",
        "address": f"{connection.host}:{connection.port}",
        "kind": "websocket" if connection.websocket else "nats",
        "client": f"{options.lang} {options.version}".strip(),
        "tls": connection.tls.version if connection.tls else "",
        "started": int(connection.started_at * 1000),
        "idle": round(link.idle_seconds, 1),
        "rtt": connection.rtt,
        "pending": link.pending_bytes,
        "subscriptions": len(link.subscriptions),
        "in_msgs": link.in_msgs,
        "out_msgs": link.out_msgs,
        "in_bytes": link.in_bytes,
        "out_bytes": link.out_bytes,
    }


def find_connection(ask: Asking, cid: int) -> ClientConnection:
    """Raises Refusal, whether it is another account's or does not exist."""
    connection = ask.broker.connections.get(cid)
    if connection is None or connection.account not in ask.accounts():
        raise not_found(f"There is no connection {cid}. It may have been closed.")
    return connection


async def show_connection(ask: Asking) -> Document:
    ask.viewer.check_publish(RIGHT_TO_LOOK)
    connection = find_connection(ask, ask.number("cid"))
    some, _ = connection.link.some_subscriptions(0, 0)
    return {
        "connection": describe_connection(connection),
        "subscriptions": [
            {
                "subject": shown(one.subject),
                "queue": shown(one.queue) if one.queue else "",
                "delivered": one.delivered,
            }
            for one in some[:SUBSCRIPTIONS_SHOWN]
        ],
    }

"""The first view: how much passes through, what is connected, what is stored, what is wrong.

It summarizes other views, and a user sees of each what its permissions allow: see PARTS.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from headrace import __version__
from headrace.accounts.account import Account, Traffic
from headrace.broker.broker import Broker
from headrace.config.options import NATS_VERSION
from headrace.monitor.console.asking import Asking, Document
from headrace.monitor.console.history import take_sample
from headrace.monitor.console.views.connections import RIGHT_TO_LOOK
from headrace.monitor.usage import resident_bytes

if TYPE_CHECKING:
    from headrace.streams.jetstream import JetStream
    from headrace.streams.jetstream_account import JetStreamAccount
    from headrace.streams.stream import Stream

CLOSED_TO_SEARCH = 500
SLOW_CONSUMERS_SHOWN = 5
PROBLEMS_SHOWN = 10
PARTS = {"traffic": RIGHT_TO_LOOK, "streams": "$JS.API.STREAM.LIST"}
"""By these subjects a client asks for what a part of the overview is made of."""


async def show_overview(ask: Asking) -> Document:
    """Raises Refusal if the user may see no part of it."""
    hidden = [part for part, subject in PARTS.items() if not ask.viewer.may_publish(subject)]
    if len(hidden) == len(PARTS):
        ask.viewer.check_publish(PARTS["streams"])
    document: Document = {
        "now": int(time.time() * 1000),
        "server": describe_server(ask.broker),
        "hidden": hidden,
    }
    if "streams" not in hidden:
        document["streams"] = describe_streams(ask)
    if "traffic" not in hidden:
        document |= describe_traffic(ask)
        document["slow"] = list_slow_consumers(ask)
        if shows_server(ask):
            document["usage"] = {"memory": resident_bytes(), "cpu": ask.context.processor_share.read()}
            if ask.text("history"):
                document["history"] = list(ask.history.samples)
    return document


def shows_server(ask: Asking) -> bool:
    """Whether the figures are those of the whole server, and not of accounts."""
    return ask.viewer.sees_server and not ask.text("account")


def describe_server(broker: Broker) -> Document:
    options = broker.options
    return {
        "name": options.server_name or broker.server_id,
        "version": __version__,
        "nats_version": NATS_VERSION,
        "started": broker.started_at // 1_000_000,
        "accepting": broker.is_accepting,
    }


def describe_traffic(ask: Asking) -> Document:
    """Of the server; for one account, of all clients that it has and had."""
    broker = ask.broker
    if shows_server(ask):
        return {
            "sample": take_sample(broker, ask.context.jetstream),
            "connections": len(broker.connections),
            "total_connections": broker.total_connections,
            "subscriptions": sum(account.interest.count for account in broker.accounts),
            "slow_consumers": broker.slow_consumers,
            "stale_connections": broker.stale_connections,
            "stalls": broker.hub.stalls,
        }
    accounts = ask.accounts()
    total = sum_traffic(broker, accounts)
    return {
        "sample": (
            int(time.time() * 1000),
            total.in_msgs,
            total.out_msgs,
            total.in_bytes,
            total.out_bytes,
            0,
            0.0,
        ),
        "connections": sum(account.connections for account in accounts),
        "subscriptions": sum(account.interest.count for account in accounts),
    }


def sum_traffic(broker: Broker, accounts: list[Account]) -> Traffic:
    """Of clients that have left, too, so that totals never fall. In one turn, for the same reason."""
    total = Traffic()
    for account in accounts:
        total.add(account.past)
    for connection in broker.connections.values():
        if connection.account in accounts and not connection.link.closed:
            total.add(connection.link)
    return total


def describe_streams(ask: Asking) -> Document | None:
    """None: the server has none."""
    jetstream = ask.context.jetstream
    if jetstream is None:
        return None
    streams = list(ask.streams())
    accounts = ask.jetstream_accounts()
    return {
        "count": len(streams),
        "consumers": sum(len(stream.consumers) for stream in streams),
        "messages": sum(stream.log.count for stream in streams),
        "bytes": sum(stream.log.byte_count for stream in streams),
        "last_sequences": sum(stream.log.last_seq for stream in streams),
        "storage": sum(account.resources.used("file") for account in accounts),
        "memory": sum(account.resources.used("memory") for account in accounts),
        "max_storage": find_max_storage(ask, jetstream, accounts),
        "problems": list(
            islice((problem for stream in streams for problem in troubles_of(stream)), PROBLEMS_SHOWN)
        ),
    }


def find_max_storage(ask: Asking, jetstream: JetStream, accounts: list[JetStreamAccount]) -> int:
    """Bytes on disk that the streams may use together; -1: an account has no limit of its own."""
    if shows_server(ask):
        return jetstream.options.jetstream_max_store
    limits = [account.resources.limit("file") for account in accounts]
    return -1 if any(limit < 0 for limit in limits) else sum(limits)


def troubles_of(stream: Stream) -> list[Document]:
    """What is wrong with its files, as far as is known without asking the disk."""
    log = stream.log
    texts = [
        *([f"cannot be written: {log.failure}"] if log.failure else []),
        *([f"cannot be read: {log.read_failure}"] if log.read_failure else []),
        *([f"is damaged: {log.damages[0]}"] if log.damages else []),
        *([f"cannot be erased: {log.erase_failure}"] if log.erase_failure else []),
    ]
    return [{"account": stream.account.name, "stream": stream.name, "text": text} for text in texts]


def list_slow_consumers(ask: Asking) -> list[Document]:
    """The latest connections that were closed because they did not keep up."""
    accounts = ask.accounts()
    recent = islice(reversed(ask.broker.closed), CLOSED_TO_SEARCH)
    slow = (
        {
            "cid": connection.cid,
            "name": connection.options.name,
            "account": connection.account.name if connection.account else "",
            "address": f"{connection.host}:{connection.port}",
            "stopped": int(connection.stopped_at * 1000),
            "reason": reason,
        }
        for connection, reason in recent
        if reason.startswith("Slow Consumer") and connection.account in accounts
    )
    return list(islice(slow, SLOW_CONSUMERS_SHOWN))

"""The first view: how much passes through, what is connected, what is stored, what is wrong."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from headrace import __version__
from headrace.broker.broker import Broker
from headrace.config.options import NATS_VERSION
from headrace.monitor.console.asking import Asking, Document
from headrace.monitor.console.history import take_sample
from headrace.monitor.usage import resident_bytes

if TYPE_CHECKING:
    from headrace.streams.stream import Stream

CLOSED_TO_SEARCH = 500
SLOW_CONSUMERS_SHOWN = 5
PROBLEMS_SHOWN = 10


async def show_overview(ask: Asking) -> Document:
    document: Document = {"now": int(time.time() * 1000), "server": describe_server(ask.broker)}
    document |= describe_traffic(ask)
    document["streams"] = describe_streams(ask)
    document["slow"] = list_slow_consumers(ask)
    if ask.viewer.sees_server and not ask.text("account"):
        document["usage"] = {"memory": resident_bytes(), "cpu": ask.context.processor_share.read()}
        if ask.text("history"):
            document["history"] = list(ask.history.samples)
    return document


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
    """Of the server; for one account, of those that are connected to it now."""
    broker = ask.broker
    if ask.viewer.sees_server and not ask.text("account"):
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
    links = [one.link for one in broker.connections.values() if one.account in accounts]
    return {
        "sample": (
            int(time.time() * 1000),
            sum(link.in_msgs for link in links),
            sum(link.out_msgs for link in links),
            sum(link.in_bytes for link in links),
            sum(link.out_bytes for link in links),
            0,
            0.0,
        ),
        "connections": len(links),
        "subscriptions": sum(account.interest.count for account in accounts),
    }


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
        "max_storage": jetstream.options.jetstream_max_store,
        "problems": list(
            islice((problem for stream in streams for problem in troubles_of(stream)), PROBLEMS_SHOWN)
        ),
    }


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

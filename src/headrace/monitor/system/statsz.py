"""STATSZ: the figures of the server that it publishes in the system account, and answers with."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from headrace.broker.broker import Broker
from headrace.go_formats import format_time
from headrace.monitor.formats import plain_number
from headrace.monitor.jetstream import describe_config, describe_limits, describe_stats
from headrace.monitor.usage import ProcessorShare, resident_bytes

if TYPE_CHECKING:
    from headrace.streams.jetstream import JetStream

OTHERS = {"routes": 0, "gateways": 0, "leafs": 0}


def describe_statsz(
    broker: Broker, jetstream: JetStream | None, processor_share: ProcessorShare
) -> dict[str, Any]:
    """The field `statsz`, in nats-server's order. What is zero there is left out where nats-server does."""
    hub = broker.hub
    sent = {"msgs": hub.out_msgs, "bytes": hub.out_bytes}
    received = {"msgs": hub.in_msgs, "bytes": hub.in_bytes}
    described: dict[str, Any] = {
        "start": format_time(broker.started_at),
        "mem": resident_bytes(),
        "cores": os.cpu_count(),
        "cpu": plain_number(processor_share.read()),
        "connections": len(broker.connections),
        "total_connections": broker.total_connections,
        "active_accounts": sum(account.connections > 0 for account in broker.accounts),
        "subscriptions": sum(account.interest.count for account in broker.accounts),
        "sent": sent,
        "sent_to_clients": sent,
        "received": received,
        "received_from_clients": received,
        "slow_consumers": broker.slow_consumers,
    }
    if broker.slow_consumers:
        described["slow_consumer_stats"] = {"clients": broker.slow_consumers, **OTHERS}
    if broker.stale_connections:
        described["stale_connections"] = broker.stale_connections
        described["stale_connection_stats"] = {"clients": broker.stale_connections, **OTHERS}
    if hub.stalls:
        described["stalled_clients"] = hub.stalls
    described["active_servers"] = 1
    if jetstream is not None:
        config = describe_config(jetstream.options)
        del config["store_dir"]
        described["jetstream"] = {
            "config": config,
            "stats": describe_stats(jetstream),
            "limits": describe_limits(jetstream.options),
        }
    described["gomaxprocs"] = 1
    return described

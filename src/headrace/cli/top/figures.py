"""What `headrace top` shows: documents of the monitor port, and rates between two of them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.cli.monitor_port import MonitorPort

CONNECTIONS, STREAMS = "connections", "streams"
CONNECTION_ORDERS = (
    "cid",
    "start",
    "subs",
    "pending",
    "msgs_to",
    "msgs_from",
    "bytes_to",
    "bytes_from",
    "last",
    "idle",
    "uptime",
    "rtt",
)
"""The server sorts: it may have more connections than it sends."""
STREAM_ORDERS = ("name", "messages", "bytes", "rate", "consumers", "pending", "ack_pending")
_COUNTERS = ("in_msgs", "out_msgs", "in_bytes", "out_bytes")


@dataclass(frozen=True)
class Request:
    """What to ask for."""

    view: str = CONNECTIONS
    order: str = "cid"
    limit: int = 1024
    subscriptions: bool = False


@dataclass(frozen=True)
class Snapshot:
    """A server at one moment. Rates are per second; 0 in the first snapshot."""

    request: Request
    moment: float
    varz: dict[str, Any]
    connections: list[dict[str, Any]] = field(default_factory=list)
    total_connections: int = 0
    streams: list[dict[str, Any]] = field(default_factory=list)
    has_jetstream: bool = True
    rates: dict[str, float] = field(default_factory=dict)


def take(port: MonitorPort, request: Request, before: Snapshot | None) -> Snapshot:
    """Raises HeadraceError."""
    try:
        return _take(port, request, before)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise HeadraceError(f"{port.address} is not the monitor port of a NATS server: {error}") from None


def _take(port: MonitorPort, request: Request, before: Snapshot | None) -> Snapshot:
    varz = port.get("/varz")
    moment = time.monotonic()
    same = before if before is not None and before.varz.get("server_id") == varz.get("server_id") else None
    seconds = moment - same.moment if same else 0.0
    old = same.varz if same else {}
    rates = {name: _rate(varz.get(name, 0), old.get(name), seconds) for name in _COUNTERS}
    if request.view == STREAMS:
        streams, enabled = _streams(port, same, seconds)
        return Snapshot(request, moment, varz, streams=streams, has_jetstream=enabled, rates=rates)
    query: dict[str, Any] = {"limit": request.limit, "sort": request.order}
    connz = port.get("/connz", **query, **({"subs": "1"} if request.subscriptions else {}))
    connections = connz.get("connections") or []
    earlier = {each.get("cid"): each for each in same.connections} if same else {}
    for connection in connections:
        last = earlier.get(connection.get("cid"), {})
        connection["rates"] = {
            name: _rate(connection.get(name, 0), last.get(name), seconds) for name in _COUNTERS
        }
    return Snapshot(request, moment, varz, connections, connz.get("total", len(connections)), rates=rates)


def _rate(now: float, before: float | None, seconds: float) -> float:
    """0 without a value before, and for a counter that went back: it is another one."""
    return max(0.0, (now - before) / seconds) if before is not None and seconds > 0 else 0.0


def _streams(port: MonitorPort, before: Snapshot | None, seconds: float) -> tuple[list[dict[str, Any]], bool]:
    """One row per stream, and whether there is JetStream at all."""
    jsz = port.get("/jsz", accounts="true", streams="true", consumers="true", limit=1024)
    earlier = {(row["account"], row["name"]): row for row in before.streams} if before else {}
    rows = []
    for account in jsz.get("account_details") or []:
        for stream in account.get("stream_detail") or []:
            state = stream.get("state") or {}
            consumers = stream.get("consumer_detail") or []
            row: dict[str, Any] = {
                "account": str(account.get("name", "")),
                "name": str(stream.get("name", "")),
                "messages": state.get("messages", 0),
                "bytes": state.get("bytes", 0),
                "first": state.get("first_seq", 0),
                "last": state.get("last_seq", 0),
                "consumers": state.get("consumer_count", len(consumers)),
                "pending": sum(each.get("num_pending", 0) for each in consumers),
                "ack_pending": sum(each.get("num_ack_pending", 0) for each in consumers),
            }
            # Stored per second: the last sequence only grows, whatever is removed meanwhile.
            last = earlier.get((row["account"], row["name"]), {})
            row["rate"] = _rate(row["last"], last.get("last"), seconds)
            row["byte_rate"] = row["rate"] * row["bytes"] / max(1, row["messages"])
            rows.append(row)
    return rows, not jsz.get("disabled", False)


def sorted_streams(rows: list[dict[str, Any]], order: str) -> list[dict[str, Any]]:
    """By name, or by a figure, the largest first."""
    by_name = sorted(rows, key=lambda row: (row["account"], row["name"]))
    return by_name if order == "name" else sorted(by_name, key=lambda row: -row[order])

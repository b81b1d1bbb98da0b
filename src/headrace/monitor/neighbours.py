"""/routez, /gatewayz and /leafz: the connections to other servers, of which there are none."""

from __future__ import annotations

import time
from typing import Any

from headrace.go_formats import format_time
from headrace.http.message import Answer
from headrace.monitor.endpoint import Context, answer_document
from headrace.monitor.query import Query, decode_bool


def answer_routez(context: Context, query: Query) -> Answer:
    check_subscriptions(query)
    context.request_counts["/routez"] += 1
    return answer_document(make_routez(context))


def answer_gatewayz(context: Context, query: Query) -> Answer:
    context.request_counts["/gatewayz"] += 1
    check_subscriptions(query)
    decode_bool(query, "accs")
    return answer_document(make_gatewayz(context))


def answer_leafz(context: Context, query: Query) -> Answer:
    context.request_counts["/leafz"] += 1
    decode_bool(query, "subs")
    return answer_document(make_leafz(context))


def check_subscriptions(query: Query) -> None:
    """Raises BadQuery for what is neither a boolean nor `detail`."""
    if query.get("subs", "").lower() != "detail":
        decode_bool(query, "subs")


def make_routez(context: Context) -> dict[str, Any]:
    options, server_id = context.broker.options, context.broker.server_id
    return {
        "server_id": server_id,
        "server_name": options.server_name or server_id,
        "now": format_time(time.time_ns()),
        "num_routes": 0,
        "routes": [],
    }


def make_gatewayz(context: Context) -> dict[str, Any]:
    return {
        "server_id": context.broker.server_id,
        "now": format_time(time.time_ns()),
        "outbound_gateways": {},
        "inbound_gateways": {},
    }


def make_leafz(context: Context) -> dict[str, Any]:
    return {
        "server_id": context.broker.server_id,
        "now": format_time(time.time_ns()),
        "leafnodes": 0,
        "leafs": [],
    }

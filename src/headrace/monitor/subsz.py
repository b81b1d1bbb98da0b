"""/subsz: statistics of the subscriptions and, on request, a list of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from headrace.broker.broker import Broker
from headrace.broker.connection import Connection
from headrace.engine.core.trie import Subscription
from headrace.go_formats import format_time
from headrace.monitor.endpoint import Answer, Context, answer_document
from headrace.monitor.formats import plain_number
from headrace.monitor.query import BadQuery, Query, decode_bool, decode_int
from headrace.monitor.subscriptions import account_labels, describe_subscription, page, subscriptions_of

Found = tuple[Connection, Subscription]

NO_STATISTICS: dict[str, int | float] = {
    "num_subscriptions": 0,
    "num_cache": 0,
    "num_inserts": 0,
    "num_removes": 0,
    "num_matches": 0,
    "cache_hit_rate": 0,
    "max_fanout": 0,
    "avg_fanout": 0,
}


def answer_subsz(context: Context, query: Query) -> Answer:
    context.request_counts["/subsz"] += 1
    with_list = decode_bool(query, "subs")
    offset, limit = page(decode_int(query, "offset"), decode_int(query, "limit"))
    test = query.get("test", "")
    if test and not is_publish_subject(test):
        raise BadQuery(f"invalid test subject, must be valid publish subject: {test}")
    broker = context.broker
    is_known = query.get("acc", "") in ("", broker.options.account)
    document: dict[str, Any] = {
        "server_id": broker.server_id,
        "now": format_time(time.time_ns()),
        **(describe_interest(broker) if is_known else NO_STATISTICS),
        "total": 0,
        "offset": offset,
        "limit": limit,
    }
    if with_list and is_known:
        labels = account_labels(broker.options.account)
        if test:
            found = find_matching(broker, test)
            document["total"] = len(found)
            shown = describe_found(found[offset : offset + limit], labels)
        else:
            connections = list(broker.connections.values())
            document["total"] = sum(len(connection.link.subscriptions) for connection in connections)
            shown = list_page(connections, labels, offset, limit)
        if offset < document["total"]:
            document["subscriptions_list"] = shown
    return answer_document(document)


def describe_interest(broker: Broker) -> dict[str, int | float]:
    interest = broker.interest
    cached = interest.cached_routes
    largest, total = interest.cached_fanout
    return {
        "num_subscriptions": interest.count,
        "num_cache": cached,
        "num_inserts": interest.inserts,
        "num_removes": interest.removes,
        "num_matches": interest.matches,
        "cache_hit_rate": plain_number(interest.cache_hits / interest.matches) if interest.matches else 0,
        "max_fanout": largest,
        "avg_fanout": plain_number(total / cached) if cached else 0,
    }


def find_matching(broker: Broker, test: str) -> list[Found]:
    """The clients' subscriptions that a message to this subject would match, in the order of the clients."""
    plain, queues = broker.interest.match(test.encode("utf-8", "surrogateescape"))
    owned = ((one.owner, one) for one in chain(plain, *queues))
    found = [(owner, one) for owner, one in owned if isinstance(owner, Connection)]
    return sorted(found, key=lambda each: each[0].cid)


def describe_found(found: list[Found], labels: dict[str, str]) -> Iterator[dict[str, Any]]:
    return ({**labels, **describe_subscription(one, connection.cid)} for connection, one in found)


def list_page(
    connections: list[Connection], labels: dict[str, str], offset: int, limit: int
) -> Iterator[dict[str, Any]]:
    for connection in connections:
        count = len(connection.link.subscriptions)
        if offset >= count:
            offset -= count
            continue
        for one in islice(subscriptions_of(connection, offset), limit):
            yield {**labels, **describe_subscription(one, connection.cid)}
            limit -= 1
        offset = 0
        if not limit:
            return


def is_publish_subject(subject: str) -> bool:
    """Whether it has neither empty tokens nor wildcards."""
    return all(token and token not in ("*", ">") for token in subject.split("."))

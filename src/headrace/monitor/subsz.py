"""/subsz: statistics of the subscriptions and, on request, a list of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import msgspec

from headrace.accounts.account import Account
from headrace.broker.connection import ClientConnection
from headrace.engine.core.interest import Interest
from headrace.engine.core.trie import Subscription
from headrace.go_formats import format_time
from headrace.http.message import Answer
from headrace.monitor.endpoint import Context, answer_document
from headrace.monitor.formats import plain_number
from headrace.monitor.query import BadQuery, Query, decode_bool, decode_int
from headrace.monitor.subscriptions import (
    DEFAULT_LIST_SIZE,
    account_labels,
    describe_subscription,
    page,
    subscriptions_of,
)

Found = tuple[ClientConnection, Subscription]


class Asked(msgspec.Struct, frozen=True):
    """A query that has been read."""

    with_list: bool = False
    offset: int = 0
    limit: int = DEFAULT_LIST_SIZE
    test: str = ""
    account: str = ""


def answer_subsz(context: Context, query: Query) -> Answer:
    context.request_counts["/subsz"] += 1
    with_list = decode_bool(query, "subs")
    offset, limit = page(decode_int(query, "offset"), decode_int(query, "limit"))
    asked = Asked(with_list, offset, limit, query.get("test", ""), query.get("acc", ""))
    return answer_document(make_subsz(context, asked))


def make_subsz(context: Context, asked: Asked) -> dict[str, Any]:
    """Raises BadQuery."""
    test, offset, limit = asked.test, asked.offset, asked.limit
    if test and not is_publish_subject(test):
        raise BadQuery(f"invalid test subject, must be valid publish subject: {test}")
    broker = context.broker
    accounts = [account for account in broker.accounts if asked.account in ("", account.name)]
    document: dict[str, Any] = {
        "server_id": broker.server_id,
        "now": format_time(time.time_ns()),
        **describe_interest([account.interest for account in accounts]),
        "total": 0,
        "offset": offset,
        "limit": limit,
    }
    if asked.with_list:
        if test:
            found = find_matching(accounts, test)
            document["total"] = len(found)
            shown = describe_found(found[offset : offset + limit])
        else:
            connections = [one for one in broker.connections.values() if one.account in accounts]
            document["total"] = sum(len(connection.link.subscriptions) for connection in connections)
            shown = list_page(connections, offset, limit)
        if offset < document["total"]:
            document["subscriptions_list"] = shown
    return document


def describe_interest(interests: list[Interest]) -> dict[str, int | float]:
    cached = sum(interest.cached_routes for interest in interests)
    fanouts = [interest.cached_fanout for interest in interests]
    matches = sum(interest.matches for interest in interests)
    hits = sum(interest.cache_hits for interest in interests)
    return {
        "num_subscriptions": sum(interest.count for interest in interests),
        "num_cache": cached,
        "num_inserts": sum(interest.inserts for interest in interests),
        "num_removes": sum(interest.removes for interest in interests),
        "num_matches": matches,
        "cache_hit_rate": plain_number(hits / matches) if matches else 0,
        "max_fanout": max((largest for largest, _ in fanouts), default=0),
        "avg_fanout": plain_number(sum(total for _, total in fanouts) / cached) if cached else 0,
    }


def find_matching(accounts: list[Account], test: str) -> list[Found]:
    """The clients' subscriptions that a message to this subject would match, in the order of the clients."""
    subject = test.encode("utf-8", "surrogateescape")
    matching = [account.interest.match(subject) for account in accounts]
    owned = ((one.owner, one) for plain, queues in matching for one in chain(plain, *queues))
    found = [(owner, one) for owner, one in owned if isinstance(owner, ClientConnection)]
    return sorted(found, key=lambda each: each[0].cid)


def describe_found(found: list[Found]) -> Iterator[dict[str, Any]]:
    return (describe(connection, one) for connection, one in found)


def describe(connection: ClientConnection, subscription: Subscription) -> dict[str, Any]:
    return {**account_labels(connection), **describe_subscription(subscription, connection.cid)}


def list_page(connections: list[ClientConnection], offset: int, limit: int) -> Iterator[dict[str, Any]]:
    for connection in connections:
        count = len(connection.link.subscriptions)
        if offset >= count:
            offset -= count
            continue
        for one in islice(subscriptions_of(connection, offset), limit):
            yield describe(connection, one)
            limit -= 1
        offset = 0
        if not limit:
            return


def is_publish_subject(subject: str) -> bool:
    """Whether it has neither empty tokens nor wildcards."""
    return all(token and token not in ("*", ">") for token in subject.split("."))

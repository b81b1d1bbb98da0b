"""/accstatz: connections, subscriptions and traffic of each account."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from typing import Any

import msgspec

from headrace.accounts.account import Account, Traffic
from headrace.broker.broker import Broker
from headrace.go_formats import format_time
from headrace.http.message import Answer
from headrace.monitor.documents import Making
from headrace.monitor.endpoint import Context, answer_document
from headrace.monitor.query import Query, decode_bool

CONNECTIONS_IN_A_TURN = 500
NOTHING = {"msgs": 0, "bytes": 0}
OTHER_SERVERS = {"gateways": NOTHING, "routes": NOTHING, "leafs": NOTHING}


def answer_accstatz(context: Context, query: Query) -> Answer:
    context.request_counts["/accstatz"] += 1
    with_unused = decode_bool(query, "unused")
    return answer_document(make_accstatz(context, select_accounts(context, (), with_unused=with_unused)))


def select_accounts(context: Context, names: Iterable[str], *, with_unused: bool) -> list[Account]:
    """Those with connections, or all; of these names, if there are any."""
    accounts = context.broker.accounts
    named = [account for name in names if (account := accounts.get(name)) is not None]
    candidates: Iterable[Account] = named if names else accounts
    return [account for account in candidates if with_unused or account.connections]


def make_accstatz(context: Context, accounts: list[Account]) -> Making:
    traffic = yield from sum_traffic(context.broker)
    return {
        "server_id": context.broker.server_id,
        "now": format_time(time.time_ns()),
        "account_statz": (
            describe_account(account, traffic.get(account.name, account.past)) for account in accounts
        ),
    }


def describe_account(account: Account, traffic: Traffic) -> dict[str, Any]:
    return {
        "acc": account.name,
        "name": account.title,
        "conns": account.connections,
        "leafnodes": 0,
        "total_conns": account.connections,
        "num_subscriptions": account.interest.count,
        "sent": {"msgs": traffic.out_msgs, "bytes": traffic.out_bytes, **OTHER_SERVERS},
        "received": {"msgs": traffic.in_msgs, "bytes": traffic.in_bytes, **OTHER_SERVERS},
        "slow_consumers": account.slow_consumers,
    }


def sum_traffic(broker: Broker) -> Generator[None, None, dict[str, Traffic]]:
    """By account: of those that have left, and of those that are connected, some of them per turn."""
    totals = {account.name: msgspec.structs.replace(account.past) for account in broker.accounts}
    for number, connection in enumerate(list(broker.connections.values()), 1):
        total = totals.get(connection.account.name) if connection.account else None
        if total is not None and not connection.link.closed:
            total.add(connection.link)
        if number % CONNECTIONS_IN_A_TURN == 0:
            yield
    return totals

"""What the server answers in the system account: a table of requests, with the documents that HTTP serves.

A handler gets the options of a request and returns a document. It raises BadQuery to refuse, and Unanswered
where nats-server says nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.accounts.account import Account
from headrace.broker.broker import Broker
from headrace.broker.connection import ClientConnection
from headrace.broker.ids import random_id
from headrace.config.durations import format_duration
from headrace.go_formats import NANOSECONDS, format_time, quote
from headrace.monitor import accstatz, connz, healthz, jsz, subsz
from headrace.monitor.accountz import make_account_info, make_accountz
from headrace.monitor.documents import Counting, Document, Making
from headrace.monitor.endpoint import Context
from headrace.monitor.neighbours import make_gatewayz, make_leafz, make_routez
from headrace.monitor.process import make_expvarz
from headrace.monitor.subscriptions import page, subscriptions_of
from headrace.monitor.system import options as bodies
from headrace.monitor.varz import make_varz
from headrace.subjects.grammar import decode, has_wildcard, is_subset

STATES = {0: ("open",), 1: ("closed",), 2: ("open", "closed")}
CONNECTIONS_TYPE = "io.nats.server.advisory.v1.account_connections"
SUBSCRIPTIONS_IN_A_TURN = 2000
LONGEST_PROFILE = 15 * NANOSECONDS


class Unanswered(Exception):
    """Somebody else may answer, or nobody."""


class Route(msgspec.Struct, frozen=True):
    """`make` gets the account of the subject, if there is one in it."""

    body: type[bodies.EventFilterOptions]
    make: Callable[[Context, Any, str], Document]


# -- documents about the server, or about one account


def answer_connz(context: Context, asked: bodies.ConnzEventOptions, account: str) -> Making:
    offset, limit = page(asked.offset, asked.limit)
    detail = "1" if asked.subscriptions else ""
    return connz.make_connz(
        context,
        connz.Asked(
            sort=asked.sort or "cid",
            with_user=asked.auth,
            subscriptions="detail" if asked.subscriptions_detail else detail,
            offset=offset,
            limit=1 if asked.cid else limit,
            cid=asked.cid,
            states=STATES.get(asked.state, ()),
            user=asked.user,
            account=account or asked.acc,
            mqtt_client=asked.mqtt_client,
            subject=asked.filter_subject,
        ),
    )


def answer_subsz(context: Context, asked: bodies.SubszEventOptions, account: str) -> Document:
    offset, limit = page(asked.offset, asked.limit)
    with_list = asked.subscriptions or bool(account)
    return subsz.make_subsz(
        context, subsz.Asked(with_list, offset, limit, asked.test, account or asked.account)
    )


def read_jsz(asked: bodies.JszEventOptions, account: str) -> jsz.Asked:
    return jsz.Asked(
        account=account or asked.account,
        accounts=asked.accounts,
        streams=asked.streams,
        consumers=asked.consumer,
        config=asked.config,
        offset=asked.offset,
        limit=asked.limit,
        leader_only=asked.leader_only,
        raft=asked.raft,
    )


def answer_jsz(context: Context, asked: bodies.JszEventOptions, account: str) -> Document:
    try:
        return jsz.make_jsz(context, jsz.complete(read_jsz(asked, account)))
    except jsz.NotLeader:
        raise Unanswered from None


def answer_healthz(context: Context, asked: bodies.HealthzEventOptions, account: str) -> Document:
    document, status = healthz.make_healthz(
        context,
        healthz.Asked(
            enabled_only=asked.js_enabled_only or asked.js_enabled,
            server_only=asked.js_server_only,
            details=asked.details,
            account=asked.account,
            stream=asked.stream,
            consumer=asked.consumer,
        ),
    )
    return {"status": document.pop("status"), "status_code": status, **document}


def answer_statz(context: Context, asked: bodies.AccountStatzEventOptions, account: str) -> Making:
    """Without an account in the subject: all of them, or those that the body names."""
    names = [account] if account else asked.accounts
    accounts = accstatz.select_accounts(context, names, with_unused=asked.include_unused)
    if not accounts and not asked.include_unused:
        raise Unanswered
    return accstatz.make_accstatz(context, accounts)


def answer_profilez(context: Context, asked: bodies.ProfilezEventOptions, account: str) -> Document:
    """Profiles are of Go; there are none here."""
    if not asked.name:
        error = "Profile name not specified"
    elif asked.name != "cpu":
        error = f"Profile {quote(asked.name)} not found"
    elif 0 < asked.duration <= LONGEST_PROFILE:
        error = "Failed to start CPU profile: it is not supported"
    else:
        duration = format_duration(asked.duration / NANOSECONDS)
        error = f"Duration {duration} should be between 0s and 15s"
    return {"profile": None, "error": error}


SERVER_ROUTES: dict[str, Route] = {
    "VARZ": Route(bodies.VarzEventOptions, lambda context, asked, account: make_varz(context)),
    "SUBSZ": Route(bodies.SubszEventOptions, answer_subsz),
    "CONNZ": Route(bodies.ConnzEventOptions, answer_connz),
    "ROUTEZ": Route(bodies.RoutezEventOptions, lambda context, asked, account: make_routez(context)),
    "GATEWAYZ": Route(bodies.GatewayzEventOptions, lambda context, asked, account: make_gatewayz(context)),
    "LEAFZ": Route(bodies.LeafzEventOptions, lambda context, asked, account: make_leafz(context)),
    "ACCOUNTZ": Route(
        bodies.AccountzEventOptions, lambda context, asked, account: make_accountz(context, asked.account)
    ),
    "JSZ": Route(bodies.JszEventOptions, answer_jsz),
    "HEALTHZ": Route(bodies.HealthzEventOptions, answer_healthz),
    "PROFILEZ": Route(bodies.ProfilezEventOptions, answer_profilez),
    "EXPVARZ": Route(bodies.ExpvarzEventOptions, lambda context, asked, account: make_expvarz()),
    "IPQUEUESZ": Route(bodies.IpqueueszEventOptions, lambda context, asked, account: {}),
    "RAFTZ": Route(bodies.RaftzEventOptions, lambda context, asked, account: {}),
}
ACCOUNT_ROUTES: dict[str, Route] = {
    "SUBSZ": SERVER_ROUTES["SUBSZ"],
    "CONNZ": SERVER_ROUTES["CONNZ"],
    "LEAFZ": SERVER_ROUTES["LEAFZ"],
    "JSZ": Route(
        bodies.JszEventOptions,
        lambda context, asked, account: jsz.make_jsz_of_account(context, read_jsz(asked, account)),
    ),
    "INFO": Route(
        bodies.AccInfoEventOptions, lambda context, asked, account: make_account_info(context, account)
    ),
    "STATZ": Route(bodies.AccountStatzEventOptions, answer_statz),
}
OWN_ROUTES: dict[str, str] = {
    "$SYS.REQ.ACCOUNT.PING.CONNZ": "CONNZ",
    "$SYS.REQ.SERVER.PING.CONNZ": "CONNZ",
    "$SYS.REQ.ACCOUNT.PING.STATZ": "STATZ",
}
"""What everyone may ask about their own account."""


# -- answers that are not in the usual envelope


def make_id(context: Context) -> dict[str, str]:
    broker = context.broker
    name = broker.options.server_name or broker.server_id
    return {"name": name, "host": broker.options.host, "id": broker.server_id}


def make_connections(context: Context, name: str) -> Making:
    """The event of the same name. Raises Unanswered if there are no clients."""
    account = context.broker.accounts.get(name)
    if account is None or not account.connections:
        raise Unanswered

    def make() -> Making:
        traffic = yield from accstatz.sum_traffic(context.broker)
        return {
            "type": CONNECTIONS_TYPE,
            "id": random_id(),
            "timestamp": format_time(time.time_ns()),
            "server": context.broker.stamp.next(),
            **accstatz.describe_account(account, traffic.get(name, account.past)),
        }

    return make()


def count_subscriptions(broker: Broker, name: str, subject: str, queue: bytes | None) -> Counting:
    """Of an account's clients, in this queue group if there is one: those that a message to the subject would
    match; of a subject with wildcards, those that are part of it. Raises Unanswered if there are no clients.
    """
    account = broker.accounts.get(name)
    if account is None or not account.connections:
        raise Unanswered
    if not has_wildcard(subject):
        plain, queues = account.interest.match(subject.encode("utf-8", "surrogateescape"))
        matching = [one for members in queues for one in members if queue in (None, one.queue)]
        matching += plain if queue is None else []
        return _count_of(sum(isinstance(one.owner, ClientConnection) for one in matching))
    return _count_parts(broker, account, subject, queue)


def _count_of(count: int) -> Counting:
    yield from ()
    return count


def _count_parts(broker: Broker, account: Account, subject: str, queue: bytes | None) -> Counting:
    count = looked = 0
    for connection in [one for one in broker.connections.values() if one.account is account]:
        for one in subscriptions_of(connection):
            count += (queue is None or (one.queue or b"") == queue) and is_subset(
                decode(one.subject), subject
            )
            looked += 1
            if looked % SUBSCRIPTIONS_IN_A_TURN == 0:
                yield
    return count

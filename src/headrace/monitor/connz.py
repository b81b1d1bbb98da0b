"""/connz: the connections, open or closed, sorted and page by page."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any

import msgspec

from headrace.broker.broker import Broker
from headrace.broker.connection import Connection
from headrace.config.options import GLOBAL_ACCOUNT
from headrace.go_formats import format_time
from headrace.monitor.documents import encode_pieces
from headrace.monitor.endpoint import Answer, Context
from headrace.monitor.formats import format_round_trip, format_uptime, to_nanoseconds
from headrace.monitor.query import BadQuery, Query, decode_bool, decode_int, decode_uint64
from headrace.monitor.subscriptions import account_labels, list_details, list_subjects, page

STATES = {
    "": ("open",),
    "open": ("open",),
    "closed": ("closed",),
    "any": ("open", "closed"),
    "all": ("open", "closed"),
}
REDACTED = "[REDACTED]"
CONNECTIONS_IN_A_TURN = 500
KEY = itemgetter(0)

Candidate = tuple[Connection, str]
"""A connection, and why it was closed."""


class Asked(msgspec.Struct, frozen=True):
    """A query that has been read."""

    sort: str
    with_user: bool
    subscriptions: str  # "", "1" or "detail"
    offset: int
    limit: int
    cid: int
    states: tuple[str, ...]
    user: str
    account: str
    mqtt_client: str


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One connection at one time."""

    connection: Connection
    now: int
    reason: str = ""  # why it was closed

    @property
    def cid(self) -> int:
        return self.connection.cid

    @property
    def start(self) -> int:
        return to_nanoseconds(self.connection.started_at)

    @property
    def end(self) -> int:
        """When it stopped, or now."""
        return to_nanoseconds(self.connection.stopped_at) if self.reason else self.now

    @property
    def last_activity(self) -> int:
        idle = time.time_ns() - to_nanoseconds(self.connection.link.idle_seconds)
        return min(max(idle, self.start), self.end)

    @property
    def user(self) -> str:
        options = self.connection.options
        return options.user or self.connection.user or (REDACTED if options.auth_token else "")


# How to sort, and whether the largest comes first.
SORTS: dict[str, tuple[Callable[[Entry], Any], bool]] = {
    "cid": (lambda entry: entry.cid, False),
    "start": (lambda entry: entry.cid, False),
    "subs": (lambda entry: len(entry.connection.link.subscriptions), True),
    "pending": (lambda entry: entry.connection.link.pending_bytes, True),
    "msgs_to": (lambda entry: entry.connection.link.out_msgs, True),
    "msgs_from": (lambda entry: entry.connection.link.in_msgs, True),
    "bytes_to": (lambda entry: entry.connection.link.out_bytes, True),
    "bytes_from": (lambda entry: entry.connection.link.in_bytes, True),
    "last": (lambda entry: entry.last_activity, True),
    "idle": (lambda entry: entry.now - entry.last_activity, True),
    "uptime": (lambda entry: entry.end - entry.start, False),
    "stop": (lambda entry: entry.end, True),
    "reason": (lambda entry: entry.reason, False),
    "rtt": (lambda entry: entry.connection.rtt, True),
}
SORTS_OF_CLOSED = ("stop", "reason")


def answer_connz(context: Context, query: Query) -> Answer:
    asked = read_query(query)
    context.request_counts["/connz"] += 1
    check_sort(asked)
    return Answer(make_document(context.broker, asked))


def make_document(broker: Broker, asked: Asked) -> Iterator[bytes]:
    """The fields before the list depend on all connections, so they are read first, a batch per turn."""
    now = time.time_ns()
    found = Found(asked, broker.options.account, now)
    for some in batched(candidates(broker, asked)):
        found.add(some)
        yield b""
    shown: list[Entry] = []
    for part in found.parts():
        shown += part
        yield b""
    is_known = asked.account in ("", GLOBAL_ACCOUNT, broker.options.account)
    yield from encode_pieces(
        {
            "server_id": broker.server_id if is_known else "",
            "now": format_time(now),
            "num_connections": len(shown),
            "total": found.total,
            "offset": asked.offset,
            "limit": asked.limit,
            "connections": describe_connections(shown, asked, broker.options.account) if is_known else None,
        }
    )


def read_query(query: Query) -> Asked:
    """Raises BadQuery for the first value that cannot be read, in the order of nats-server."""
    with_user = decode_bool(query, "auth")
    if query.get("subs", "").lower() == "detail":
        subscriptions = "detail"
    else:
        subscriptions = "1" if decode_bool(query, "subs") else ""
    offset, limit = page(decode_int(query, "offset"), decode_int(query, "limit"))
    cid = decode_uint64(query, "cid")
    state = query.get("state", "")
    if state.lower() not in STATES:
        raise BadQuery(f"Error decoding state for {state}")
    return Asked(
        sort=query.get("sort", "") or "cid",
        with_user=with_user,
        subscriptions=subscriptions,
        offset=offset,
        limit=1 if cid else limit,
        cid=cid,
        states=STATES[state.lower()],
        user=query.get("user", ""),
        account=query.get("acc", ""),
        mqtt_client=query.get("mqtt_client", ""),
    )


def check_sort(asked: Asked) -> None:
    if asked.sort not in SORTS:
        raise BadQuery(f"invalid sorting option: {asked.sort}")
    if asked.sort in SORTS_OF_CLOSED and asked.states != ("closed",):
        raise BadQuery(f"sort by {asked.sort} only valid on closed connections")


def candidates(broker: Broker, asked: Asked) -> list[Candidate]:
    """The connections in the given states.

    As in nats-server, closed connections of the global account cannot be selected by account.
    """
    found: list[Candidate] = []
    if "open" in asked.states:
        found += [(connection, "") for connection in broker.connections.values()]
    if "closed" in asked.states and asked.account != GLOBAL_ACCOUNT:
        found += broker.closed
    return found


def batched(items: list[Candidate]) -> Iterator[list[Candidate]]:
    for start in range(0, len(items), CONNECTIONS_IN_A_TURN):
        yield items[start : start + CONNECTIONS_IN_A_TURN]


class Found:
    """The connections that were asked for, sorted batch by batch, and then merged.

    `total` is how many there are in the given states and account. As in nats-server it ignores the user and
    the cid.
    """

    def __init__(self, asked: Asked, configured: str, now: int) -> None:
        self.total = 0
        self._asked = asked
        self._configured = configured
        self._now = now
        self._key, self._largest_first = SORTS[asked.sort]
        self._batches: list[list[tuple[Any, Entry]]] = []

    def add(self, some: list[Candidate]) -> None:
        asked, wanted = self._asked, []
        for connection, reason in some:
            entry = Entry(connection, self._now, reason)
            if asked.account and account_of(entry, self._configured) != asked.account:
                continue
            self.total += 1
            if is_wanted(entry, asked):
                wanted.append((self._key(entry), entry))
        wanted.sort(key=KEY, reverse=self._largest_first)
        self._batches.append(wanted)

    def parts(self) -> Iterator[list[Entry]]:
        """Those from the offset on, up to the limit, in parts; parts before the offset are empty."""
        merged = heapq.merge(*self._batches, key=KEY, reverse=self._largest_first)
        count = sum(map(len, self._batches))
        end = min(self._asked.offset + self._asked.limit, count)
        for start in range(0, end, CONNECTIONS_IN_A_TURN):
            some = islice(merged, min(CONNECTIONS_IN_A_TURN, end - start))
            yield [entry for index, (_, entry) in enumerate(some, start) if index >= self._asked.offset]


def account_of(entry: Entry, configured: str) -> str:
    """A connection that has not logged in is in the global account."""
    return configured if entry.user else GLOBAL_ACCOUNT


def is_wanted(entry: Entry, asked: Asked) -> bool:
    if asked.cid and (entry.cid != asked.cid or not entry.reason):
        return entry.cid == asked.cid
    # There are no MQTT clients here.
    return not asked.mqtt_client and asked.user in ("", entry.user)


def describe_connections(entries: list[Entry], asked: Asked, configured: str) -> Iterator[dict[str, Any]]:
    return (describe_connection(entry, asked, account_of(entry, configured)) for entry in entries)


def describe_connection(entry: Entry, asked: Asked, account: str) -> dict[str, Any]:
    connection, link, options = entry.connection, entry.connection.link, entry.connection.options
    last_activity = entry.last_activity
    described: dict[str, Any] = {
        "cid": connection.cid,
        "kind": "Client",
        "type": "nats",
        "ip": connection.host,
        "port": connection.port,
        "start": format_time(entry.start),
        "last_activity": format_time(last_activity),
    }
    if entry.reason:
        described |= {"stop": format_time(entry.end), "reason": entry.reason}
    described |= {
        "rtt": format_round_trip(connection.rtt),
        "uptime": format_uptime(entry.end - entry.start),
        "idle": format_uptime(entry.end - last_activity),
        "pending_bytes": link.pending_bytes,
        "in_msgs": link.in_msgs,
        "out_msgs": link.out_msgs,
        "in_bytes": link.in_bytes,
        "out_bytes": link.out_bytes,
        "subscriptions": len(link.subscriptions),
    }
    for name in ("name", "lang", "version"):
        if value := getattr(options, name):
            described[name] = value
    if asked.with_user and entry.user:
        described["authorized_user"] = entry.user
    if link.subscriptions:
        described |= describe_subscriptions(entry, asked, account)
    if asked.with_user and account != GLOBAL_ACCOUNT:
        described |= {"account": account, "name_tag": account}
    elif asked.with_user and not entry.reason:
        described["name_tag"] = account
    return described


def describe_subscriptions(entry: Entry, asked: Asked, account: str) -> dict[str, Iterator[Any]]:
    if asked.subscriptions == "detail":
        labels = account_labels(account) if entry.reason else {}  # as nats-server does it
        details = ({**labels, **detail} for detail in list_details(entry.connection))
        return {"subscriptions_list_detail": details}
    if asked.subscriptions:
        return {"subscriptions_list": list_subjects(entry.connection)}
    return {}

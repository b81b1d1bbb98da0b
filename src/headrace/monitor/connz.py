"""/connz: the connections, open or closed, sorted and page by page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from headrace.broker.broker import Broker
from headrace.broker.connection import Connection
from headrace.config.options import GLOBAL_ACCOUNT
from headrace.monitor.endpoint import Answer, Context, answer_document
from headrace.monitor.formats import format_round_trip, format_time, format_uptime, to_nanoseconds
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


class Entry(msgspec.Struct, frozen=True):
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
    broker = context.broker
    now = time.time_ns()
    total, entries = find_connections(broker, asked, now)
    key, largest_first = SORTS[asked.sort]
    entries.sort(key=key, reverse=largest_first)
    shown = entries[asked.offset : asked.offset + asked.limit]
    is_known = asked.account in ("", GLOBAL_ACCOUNT, broker.options.account)
    return answer_document(
        {
            "server_id": broker.server_id if is_known else "",
            "now": format_time(now),
            "num_connections": len(shown),
            "total": total,
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


def find_connections(broker: Broker, asked: Asked, now: int) -> tuple[int, list[Entry]]:
    """How many there are in the given states, and those among them that were asked for.

    As in nats-server the first number does not heed the user or the cid, and closed connections of the global
    account cannot be asked for by account.
    """
    opened: list[Entry] = []
    closed: list[Entry] = []
    if "open" in asked.states:
        opened = [Entry(connection, now) for connection in broker.connections.values()]
    if "closed" in asked.states and asked.account != GLOBAL_ACCOUNT:
        closed = [Entry(connection, now, reason) for connection, reason in broker.closed]
    if asked.account:
        name = broker.options.account
        opened = [entry for entry in opened if account_of(entry, name) == asked.account]
        closed = [entry for entry in closed if account_of(entry, name) == asked.account]
    total = len(opened) + len(closed)
    if asked.cid:
        opened = [entry for entry in opened if entry.cid == asked.cid]
        closed = [entry for entry in closed if entry.cid == asked.cid and not opened]
        return total, opened + [entry for entry in closed if is_wanted(entry, asked)]
    return total, [entry for entry in opened + closed if is_wanted(entry, asked)]


def account_of(entry: Entry, configured: str) -> str:
    """Who has not logged in is in the global account."""
    return configured if entry.user else GLOBAL_ACCOUNT


def is_wanted(entry: Entry, asked: Asked) -> bool:
    # No connection here has an MQTT client.
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

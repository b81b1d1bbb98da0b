"""/connz: the connections, open or closed, sorted and page by page."""

from __future__ import annotations

import hashlib
import heapq
import time
from collections.abc import Callable, Collection, Generator, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any

import msgspec

from headrace.broker.broker import Broker
from headrace.broker.connection import ClientConnection
from headrace.broker.tls_handshake import TlsState
from headrace.config.identity import GLOBAL_ACCOUNT
from headrace.go_formats import format_time
from headrace.http.message import Answer
from headrace.monitor.documents import Making
from headrace.monitor.endpoint import Context, answer_document
from headrace.monitor.formats import format_round_trip, format_uptime, to_nanoseconds
from headrace.monitor.query import BadQuery, Query, decode_bool, decode_int, decode_uint64
from headrace.monitor.subscriptions import (
    DEFAULT_LIST_SIZE,
    account_labels,
    list_details,
    list_subjects,
    page,
    subscriptions_of,
)
from headrace.subjects import grammar

STATES = {
    "": ("open",),
    "open": ("open",),
    "closed": ("closed",),
    "any": ("open", "closed"),
    "all": ("open", "closed"),
}
REDACTED = "[REDACTED]"
CONNECTIONS_IN_A_TURN = 500
SUBSCRIPTIONS_IN_A_TURN = 2000
ALL_SUBJECTS = ("", ">")
KEY = itemgetter(0)

Candidate = tuple[ClientConnection, str]
"""A connection, and why it was closed."""


class Asked(msgspec.Struct, frozen=True):
    """A query that has been read."""

    sort: str = "cid"
    with_user: bool = False
    subscriptions: str = ""  # "", "1" or "detail"
    offset: int = 0
    limit: int = DEFAULT_LIST_SIZE
    cid: int = 0
    states: tuple[str, ...] = STATES[""]
    user: str = ""
    account: str = ""
    mqtt_client: str = ""
    subject: str = ""  # only open connections with a subscription that overlaps it


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One connection at one time."""

    connection: ClientConnection
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
    return answer_document(make_connz(context, asked))


def make_connz(context: Context, asked: Asked) -> Making:
    """Raises BadQuery."""
    check_sort(asked)
    if asked.subject not in ALL_SUBJECTS and not asked.account:
        raise BadQuery("filter by subject only valid with account filtering")
    return _make(context.broker, asked)


def _make(broker: Broker, asked: Asked) -> Making:
    """The fields before the list depend on all connections, so they are read first, a batch per turn."""
    now = time.time_ns()
    found = Found(asked, now)
    for some in batched(candidates(broker, asked)):
        others = yield from _find_uninterested(some, asked)
        found.add(some, others)
        yield
    shown: list[Entry] = []
    for part in found.parts():
        shown += part
        yield
    is_known = not asked.account or broker.accounts.get(asked.account) is not None
    return {
        "server_id": broker.server_id if is_known else "",
        "now": format_time(now),
        "num_connections": len(shown),
        "total": found.total,
        "offset": asked.offset,
        "limit": asked.limit,
        "connections": describe_connections(shown, asked) if is_known else None,
    }


def _find_uninterested(some: list[Candidate], asked: Asked) -> Generator[None, None, set[int]]:
    """Those open connections of the account that do not subscribe to anything that overlaps the subject."""
    others: set[int] = set()
    if asked.subject in ALL_SUBJECTS:
        return others
    looked_at = 0
    for connection, reason in some:
        if reason or connection.account is None or connection.account.name != asked.account:
            continue
        others.add(connection.cid)
        for subscription in subscriptions_of(connection):
            looked_at += 1
            if looked_at % SUBSCRIPTIONS_IN_A_TURN == 0:
                yield
            if grammar.overlap(asked.subject, grammar.decode(subscription.subject)):
                others.discard(connection.cid)
                break
    return others


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

    def __init__(self, asked: Asked, now: int) -> None:
        self.total = 0
        self._asked = asked
        self._now = now
        self._key, self._largest_first = SORTS[asked.sort]
        self._batches: list[list[tuple[Any, Entry]]] = []

    def add(self, some: list[Candidate], others: Collection[int] = ()) -> None:
        """`others` count, and are not wanted."""
        asked, wanted = self._asked, []
        for connection, reason in some:
            entry = Entry(connection, self._now, reason)
            if asked.account and account_of(entry) != asked.account:
                continue
            self.total += 1
            if is_wanted(entry, asked) and entry.cid not in others:
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


def account_of(entry: Entry) -> str:
    """A connection that has not logged in is in the global account."""
    account = entry.connection.account
    return account.name if account else GLOBAL_ACCOUNT


def is_wanted(entry: Entry, asked: Asked) -> bool:
    if asked.cid and (entry.cid != asked.cid or not entry.reason):
        return entry.cid == asked.cid
    # There are no MQTT clients here.
    return not asked.mqtt_client and asked.user in ("", entry.user)


def describe_connections(entries: list[Entry], asked: Asked) -> Iterator[dict[str, Any]]:
    return (describe_connection(entry, asked, account_of(entry)) for entry in entries)


def describe_connection(entry: Entry, asked: Asked, account: str) -> dict[str, Any]:
    connection, link, options = entry.connection, entry.connection.link, entry.connection.options
    last_activity = entry.last_activity
    described: dict[str, Any] = {
        "cid": connection.cid,
        "kind": "Client",
        "type": "websocket" if connection.websocket else "nats",
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
    if connection.tls:
        described |= describe_tls(connection.tls, asked)
    if asked.with_user and entry.user:
        described["authorized_user"] = entry.user
    if asked.with_user and account != GLOBAL_ACCOUNT:
        described["account"] = account
    if link.subscriptions:
        described |= describe_subscriptions(entry, asked)
    if asked.with_user:
        described |= describe_identity(entry, account)
    return described


def describe_identity(entry: Entry, account: str) -> dict[str, Any]:
    """Whose client it is, and what its token says. Its token itself may let others in."""
    connection, identity = entry.connection, entry.connection.identity
    described: dict[str, Any] = {}
    if identity.issuer_key:
        described["issuer_key"] = identity.issuer_key
    if account != GLOBAL_ACCOUNT or not entry.reason:
        described["name_tag"] = connection.account.title if connection.account else account
    if identity.tags:
        described["tags"] = identity.tags
    return described


def describe_tls(tls: TlsState, asked: Asked) -> dict[str, Any]:
    described: dict[str, Any] = {"tls_version": tls.version, "tls_cipher_suite": tls.cipher}
    if asked.with_user and tls.certificates:
        from headrace.accounts.certificates import describe_subject, pin  # few servers need it

        described["tls_peer_certs"] = [
            {
                "subject": describe_subject(certificate),
                "spki_sha256": pin(certificate),
                "cert_sha256": hashlib.sha256(certificate).hexdigest(),
            }
            for certificate in tls.certificates
        ]
    if tls.is_first:
        described["tls_first"] = True
    return described


def describe_subscriptions(entry: Entry, asked: Asked) -> dict[str, Iterator[Any]]:
    if asked.subscriptions == "detail":
        labels = account_labels(entry.connection) if entry.reason else {}  # as nats-server does it
        details = ({**labels, **detail} for detail in list_details(entry.connection))
        return {"subscriptions_list_detail": details}
    if asked.subscriptions:
        return {"subscriptions_list": list_subjects(entry.connection)}
    return {}

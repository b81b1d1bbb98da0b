"""/jsz: accounts, streams and consumers, in as much detail as was asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.go_formats import format_time, quote
from headrace.http.message import Answer
from headrace.monitor.endpoint import Context, answer_document
from headrace.monitor.jetstream import (
    NO_CONFIG,
    NO_STATS,
    describe_config,
    describe_limits,
    describe_stats,
)
from headrace.monitor.query import BadQuery, Query, decode_bool, decode_int
from headrace.monitor.subscriptions import DEFAULT_LIST_SIZE

if TYPE_CHECKING:
    from headrace.streams.jetstream_account import JetStreamAccount
    from headrace.streams.stream import Stream

UNSIGNED = 2**64  # nats-server prints -1, for no limit, as an unsigned number here
NOT_LEADER = "filtered response: not leader"


class Asked(msgspec.Struct, frozen=True):
    """A query that has been read."""

    account: str = ""
    accounts: bool = False
    streams: bool = False
    consumers: bool = False
    config: bool = False
    offset: int = 0
    limit: int = DEFAULT_LIST_SIZE
    leader_only: bool = False
    raft: bool = False


class NotLeader(BadQuery):
    """Only leaders are to answer, and there is none here."""


def answer_jsz(context: Context, query: Query) -> Answer:
    context.request_counts["/jsz"] += 1
    return answer_document(make_jsz(context, read_query(query)))


def make_jsz(context: Context, asked: Asked) -> dict[str, Any]:
    """Raises NotLeader."""
    document: dict[str, Any] = {"server_id": context.broker.server_id, "now": format_time(time.time_ns())}
    jetstream = context.jetstream
    if jetstream is None:
        if asked.leader_only:
            raise NotLeader(NOT_LEADER)
        return (
            NO_STATS | document | {"disabled": True, "config": NO_CONFIG} | _count([], asked) | {"total": 0}
        )
    enabled = [account for account in jetstream.accounts.values() if account.is_enabled]
    document |= {
        "config": describe_config(jetstream.options),
        "limits": describe_limits(jetstream.options),
        **_count([stream for account in enabled for stream in account.streams.values()], asked),
    }
    if wanted := select_accounts(enabled, asked):
        document["account_details"] = [describe_account(context, account, asked) for account in wanted]
    return describe_stats(jetstream) | document | {"total": len(enabled)}


def make_jsz_of_account(context: Context, asked: Asked) -> dict[str, Any]:
    """Just one account. Raises BadQuery."""
    if context.jetstream is None:
        raise BadQuery("jetstream not enabled")
    if context.broker.accounts.get(asked.account) is None:
        raise BadQuery(f"account {quote(asked.account)} not found")
    account = context.jetstream.accounts.get(asked.account)
    if account is None or not account.is_enabled:
        raise BadQuery(f"account {quote(asked.account)} not jetstream enabled")
    return describe_account(context, account, asked)


def read_query(query: Query) -> Asked:
    """Raises BadQuery for the first value that cannot be read, in the order of nats-server."""
    accounts = decode_bool(query, "accounts")
    streams = decode_bool(query, "streams")
    consumers = decode_bool(query, "consumers")
    decode_bool(query, "direct-consumers")  # of mirrors and sources, which have none here
    config = decode_bool(query, "config")
    offset, limit = decode_int(query, "offset"), decode_int(query, "limit")
    leader_only, raft = decode_bool(query, "leader-only"), decode_bool(query, "raft")
    decode_bool(query, "stream-leader-only")  # a single server leads all its streams
    return complete(
        Asked(
            account=query.get("acc", ""),
            accounts=accounts,
            streams=streams,
            consumers=consumers,
            config=config,
            offset=offset,
            limit=limit,
            leader_only=leader_only,
            raft=raft,
        )
    )


def complete(asked: Asked) -> Asked:
    """With what follows from the rest: consumers are shown with their streams, and those with accounts."""
    streams = asked.streams or asked.consumers
    return msgspec.structs.replace(
        asked,
        accounts=asked.accounts or (streams and not asked.account),
        streams=streams,
        offset=max(asked.offset, 0),
        limit=asked.limit or DEFAULT_LIST_SIZE,
    )


def select_accounts(accounts: list[JetStreamAccount], asked: Asked) -> list[JetStreamAccount]:
    """The one that was asked for, or a page of all; a negative limit means all on one page."""
    if named := [account for account in accounts if account.name == asked.account]:
        return named
    if not asked.accounts:
        return []
    return accounts if asked.limit < 0 else accounts[asked.offset : asked.offset + asked.limit]


def _count(streams: list[Stream], asked: Asked) -> dict[str, int]:
    consumers = sum(len(stream.consumers) for stream in streams)
    counted = {"streams": len(streams)}
    if asked.raft and streams:
        counted["streams_leader"] = len(streams)
    counted["consumers"] = consumers
    if asked.raft and consumers:
        counted["consumers_leader"] = consumers
    counted["messages"] = sum(stream.log.count for stream in streams)
    counted["bytes"] = sum(stream.log.byte_count for stream in streams)
    return counted


def describe_account(context: Context, account: JetStreamAccount, asked: Asked) -> dict[str, Any]:
    resources = account.resources
    owner = context.broker.accounts.get(account.name)
    described: dict[str, Any] = {
        "name": owner.title if owner else account.name,
        "id": account.name,
        "memory": resources.used("memory"),
        "storage": resources.used("file"),
        "reserved_memory": resources.limits.max_memory % UNSIGNED,
        "reserved_storage": resources.limits.max_storage % UNSIGNED,
        "accounts": 0,
        "ha_assets": 0,
        "api": {"level": 0, "total": account.api_total, "errors": account.api_errors},
    }
    if asked.streams and account.streams:
        leader = context.broker.info.server_name
        streams = list(account.streams.values())  # a copy: they come and go while the answer is sent
        described["stream_detail"] = (describe_stream(stream, leader, asked) for stream in streams)
    return described


def describe_stream(stream: Stream, leader: str, asked: Asked) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": stream.name,
        "created": format_time(stream.created),
        "cluster": {"leader": leader},
    }
    if asked.config:
        described["config"] = msgspec.to_builtins(stream.config)
    described["state"] = msgspec.to_builtins(stream.state())
    if asked.consumers and stream.consumers:
        described["consumer_detail"] = _describe_consumers(stream, asked)
    if mirror := stream.ingest.mirror_info():
        described["mirror"] = msgspec.to_builtins(mirror)
    if sources := stream.ingest.sources_info():
        described["sources"] = msgspec.to_builtins(sources)
    return described


def _describe_consumers(stream: Stream, asked: Asked) -> Iterator[dict[str, Any]]:
    for consumer in list(stream.consumers.values()):
        described = msgspec.to_builtins(consumer.info())
        if not asked.config:
            described.pop("config", None)
        yield described

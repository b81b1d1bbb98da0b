"""/jsz: accounts, streams and consumers, in as much detail as was asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.go_formats import format_time
from headrace.monitor.endpoint import Answer, Context, answer_document
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

    account: str
    accounts: bool
    streams: bool
    consumers: bool
    config: bool
    offset: int
    limit: int
    leader_only: bool
    raft: bool


def answer_jsz(context: Context, query: Query) -> Answer:
    context.request_counts["/jsz"] += 1
    asked = read_query(query)
    document: dict[str, Any] = {"server_id": context.broker.server_id, "now": format_time(time.time_ns())}
    jetstream = context.jetstream
    if jetstream is None:
        if asked.leader_only:
            raise BadQuery(NOT_LEADER)
        return answer_document(
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
    return answer_document(describe_stats(jetstream) | document | {"total": len(enabled)})


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
    account = query.get("acc", "")
    streams = streams or consumers
    return Asked(
        account=account,
        accounts=accounts or (streams and not account),
        streams=streams,
        consumers=consumers,
        config=config,
        offset=max(offset, 0),
        limit=limit or DEFAULT_LIST_SIZE,
        leader_only=leader_only,
        raft=raft,
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
    described: dict[str, Any] = {
        "name": account.name,
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

"""The API of consumers: create and update, info, list, names, delete, pause, unpin.

Two more are not in the table, because each consumer subscribes to its own: requests for messages
(`CONSUMER.MSG.NEXT`, see consumers/pull.py) and for a reset (consumers/changes.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.streams.api.dispatch import Request, Route
from headrace.streams.api.json_requests import decode, unmarshal
from headrace.streams.api.stream_requests import find_stream
from headrace.streams.api_levels import set_required_level
from headrace.streams.config import CreateConsumerRequest, Wire
from headrace.streams.consumers.create import create_consumer, update_consumer
from headrace.streams.consumers.info import ConsumerInfo, with_versions
from headrace.streams.consumers.on_disk import directory as consumer_store
from headrace.streams.consumers.pause import is_paused, pause_until
from headrace.streams.consumers.rules import GROUP_NAME
from headrace.streams.errors import api_error
from headrace.streams.files import in_thread
from headrace.streams.formats import LATEST, ZERO_TIME, parse_time, utc_time
from headrace.streams.wire_types import Int, Time
from headrace.subjects.grammar import is_utf8

if TYPE_CHECKING:
    from headrace.streams.consumers.consumer import Consumer
    from headrace.streams.jetstream_account import JetStreamAccount
    from headrace.streams.stream import Stream

NAMES_LIMIT = 1024
LIST_LIMIT = 256
NO_PAGE = {"total": 0, "offset": 0, "limit": 0, "consumers": []}
NO_PAUSE = {"paused": False, "pause_until": ZERO_TIME}


class PageRequest(Wire):
    go_name = "JSApiConsumersRequest"
    offset: Int = 0


class PauseRequest(Wire):
    go_name = "JSApiConsumerPauseRequest"
    pause_until: Time | None = None


class UnpinRequest(Wire):
    go_name = "JSApiConsumerUnpinRequest"
    group: str = ""


def _consumer(account: JetStreamAccount, request: Request) -> Consumer:
    consumer = find_stream(account, request.tokens[0]).consumers.get(request.tokens[1])
    if consumer is None:
        raise api_error("consumer_not_found")
    return consumer


async def on_create(account: JetStreamAccount, request: Request) -> ConsumerInfo:
    """`CREATE.<stream>`: an ephemeral consumer. `CREATE.<stream>.<name>[.<filter>]`: named or durable."""
    body = decode(request.payload, CreateConsumerRequest, strict=account.jetstream.strict)
    name, config = request.tokens[1] if len(request.tokens) > 1 else "", body.config
    if request.tokens[0] != body.stream_name:
        raise api_error("stream_mismatch")
    if "\\" in (name or config.name) or "/" in (name or config.name):
        raise api_error("consumer_name_contains_path_separators")
    if not is_utf8(name):  # nats-server creates it, and reports another name in JSON
        raise api_error("consumer_create", err="consumer name is not valid UTF-8")
    if not name:
        if config.durable_name:
            raise api_error("consumer_ephemeral_with_durable_name")
    else:
        if config.durable_name and config.durable_name != name:
            raise api_error("consumer_durable_name_not_match_subject")
        config.name = name
    if len(request.tokens) > 2:
        if config.filter_subjects:
            raise api_error("consumer_multiple_filters_not_allowed")
        if config.filter_subject != request.tokens[2]:
            raise api_error("consumer_create_filter_subject_mismatch")
    return await _create(account, body, name or config.name)


async def on_create_durable(account: JetStreamAccount, request: Request) -> ConsumerInfo:
    """`DURABLE.CREATE.<stream>.<name>`, the older form."""
    body = decode(request.payload, CreateConsumerRequest, strict=account.jetstream.strict)
    stream, name = request.tokens
    if stream != body.stream_name:
        raise api_error("stream_mismatch")
    if "\\" in name or "/" in name:
        raise api_error("consumer_name_contains_path_separators")
    if not body.config.durable_name:
        raise api_error("consumer_durable_name_not_set")
    if body.config.durable_name != name:
        raise api_error("consumer_durable_name_not_match_subject")
    body.config.name = name
    return await _create(account, body, name)


async def _create(account: JetStreamAccount, body: CreateConsumerRequest, name: str) -> ConsumerInfo:
    if body.config.num_replicas > 1:
        raise api_error("stream_replicas_not_supported")
    stream = find_stream(account, body.stream_name)
    existing = stream.consumers.get(name)
    if existing is not None:
        body.config.pause_until = existing.config.pause_until
    set_required_level(body.config)
    consumer = await create_consumer(stream, body)
    await stream.settled()
    info = with_versions(consumer.info())
    if is_paused(consumer.core):
        consumer.core.advisories.paused(pause_until(consumer.core))
    return info


def on_info(account: JetStreamAccount, request: Request) -> ConsumerInfo:
    if not request.is_empty:
        raise api_error("not_empty_request")
    return with_versions(_consumer(account, request).info())


def _page(account: JetStreamAccount, request: Request, limit: int) -> tuple[list[Consumer], dict[str, Any]]:
    page = (
        decode(request.payload, PageRequest, strict=account.jetstream.strict)
        if request.has_object
        else PageRequest()
    )
    stream = find_stream(account, request.tokens[0])
    consumers = sorted(
        (consumer for consumer in stream.consumers.values() if not consumer.config.direct),
        key=lambda consumer: consumer.name.encode(),
    )
    offset = min(max(page.offset, 0), len(consumers))
    fields = {"total": len(consumers), "offset": offset, "limit": limit}
    return consumers[offset : offset + limit], fields


def on_names(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    consumers, fields = _page(account, request, NAMES_LIMIT)
    return {**fields, "consumers": [consumer.name for consumer in consumers]}


async def on_list(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    consumers, fields = _page(account, request, LIST_LIMIT)

    def describe(consumer: Consumer) -> ConsumerInfo | None:
        is_there = consumer.stream.consumers.get(consumer.name) is consumer
        return consumer.info() if is_there else None

    infos = await account.jetstream.slices.map(describe, consumers)
    return {**fields, "consumers": [info for info in infos if info is not None]}


async def on_delete(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    if not request.is_empty:
        raise api_error("not_empty_request")
    stream, name = find_stream(account, request.tokens[0]), request.tokens[1]
    try:
        if name in stream.damaged_consumers:
            await _delete_damaged(stream, name)
        elif (removal := _consumer(account, request).delete_with_files()) is not None:
            await removal
    except OSError as error:
        raise api_error("stream_general_error", err=(error.strerror or str(error)).lower()) from None
    await stream.settled()
    return {"success": True}


async def _delete_damaged(stream: Stream, name: str) -> None:
    """Delete a consumer that cannot be used, so that its messages are no longer kept. Raises OSError."""
    assert stream.directory is not None
    retired = consumer_store.retire(consumer_store.consumer_directory(stream.directory, name))
    stream.on_damaged_consumer_gone(name)
    await in_thread(consumer_store.remove, retired)


async def on_pause(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    """Pause a consumer; without a time, or with one that has passed, resume it."""
    body = (
        decode(request.payload, PauseRequest, strict=account.jetstream.strict)
        if request.has_object
        else PauseRequest()
    )
    consumer = _consumer(account, request)
    text = utc_time(body.pause_until) if body.pause_until else ZERO_TIME
    until = parse_time(text)
    config = msgspec.structs.replace(consumer.config)
    config.pause_until = text if text != ZERO_TIME else None
    set_required_level(config)
    await update_consumer(consumer, config)
    now = account.jetstream.now()
    remaining = {"pause_remaining": min(until - now, LATEST)} if until > now else {}
    return {"paused": until > now, "pause_until": text, **remaining}


def on_unpin(account: JetStreamAccount, request: Request) -> Mapping[str, Any]:
    body = unmarshal(request.payload, UnpinRequest)
    if not body.group:
        raise api_error("invalid_json", err="consumer group not specified")
    if not GROUP_NAME.fullmatch(body.group):
        raise api_error("consumer_invalid_group_name")
    consumer = _consumer(account, request)
    if body.group not in consumer.config.priority_groups:
        raise api_error("consumer_invalid_priority_group")
    consumer.unpin(body.group)
    return {}


ROUTES = (
    Route("CONSUMER.CREATE.*", "consumer_create_response", on_create),
    Route("CONSUMER.CREATE.*.*", "consumer_create_response", on_create),
    Route("CONSUMER.CREATE.*.*.>", "consumer_create_response", on_create),
    Route("CONSUMER.DURABLE.CREATE.*.*", "consumer_create_response", on_create_durable),
    Route("CONSUMER.INFO.*.*", "consumer_info_response", on_info),
    Route("CONSUMER.LIST.*", "consumer_list_response", on_list, NO_PAGE),
    Route("CONSUMER.NAMES.*", "consumer_names_response", on_names, NO_PAGE),
    Route("CONSUMER.DELETE.*.*", "consumer_delete_response", on_delete),
    Route("CONSUMER.PAUSE.*.*", "consumer_pause_response", on_pause, NO_PAUSE),
    Route("CONSUMER.UNPIN.*.*", "consumer_unpin_response", on_unpin),
)

"""The API of streams: create, update, look at, purge, delete.

Which subjects and how much storage a stream may have depends on all other streams. So streams are created,
changed and deleted one at a time: a check is still valid when its result is used, however long the disk takes
in between, and whatever one stream has given up is off the disk before another one gets it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.streams.api.dispatch import Request, Route
from headrace.streams.api.json_requests import decode
from headrace.streams.api.stream_info import (
    StreamInfo,
    count_subjects,
    list_deleted,
)
from headrace.streams.api_levels import set_required_level, with_level_of
from headrace.streams.config import StreamConfig, StreamConfigRequest, Wire
from headrace.streams.errors import ApiError, StoreError, api_error
from headrace.streams.files import (
    MESSAGES,
    META,
    exists,
    in_thread,
    is_leftover,
    make_directory,
    remove_tree,
    retire_directory,
    sync_directory,
    write_checked,
)
from headrace.streams.origins.source_rules import check_filters_at_create
from headrace.streams.slices import STEP_SUBJECTS, Work
from headrace.streams.stream import Stream
from headrace.streams.stream_rules import (
    check_overlap,
    check_single_server,
    check_stream_config,
    check_update,
    invalid,
)
from headrace.streams.wire_types import Int, Uint64, always
from headrace.subjects import grammar

if TYPE_CHECKING:
    from headrace.streams.jetstream_account import JetStreamAccount

NAMES_LIMIT = 1024
LIST_LIMIT = 256
SUBJECTS_LIMIT = 100_000
NO_PAGE = {"total": 0, "offset": 0, "limit": 0}

Fields = dict[str, Any]


class StreamInfoRequest(Wire):
    go_name = "JSApiStreamInfoRequest"

    offset: Int = always(0)
    deleted_details: bool = False
    subjects_filter: str = ""


class StreamNamesRequest(Wire):
    go_name = "JSApiStreamNamesRequest"

    offset: Int = always(0)
    subject: str = ""


class StreamListRequest(StreamNamesRequest):
    go_name = "JSApiStreamListRequest"


class StreamPurgeRequest(Wire):
    go_name = "JSApiStreamPurgeRequest"

    seq: Uint64 = 0
    filter: str = ""
    keep: Uint64 = 0


def find_stream(account: JetStreamAccount, name: str) -> Stream:
    """Raises ApiError `stream_not_found`."""
    stream = account.streams.get(name)
    if stream is None:
        raise api_error("stream_not_found")
    return stream


# -- create


async def create_stream(account: JetStreamAccount, request: Request) -> Fields:
    wanted = decode(request.payload, StreamConfigRequest, strict=account.jetstream.strict)
    set_required_level(wanted)
    if wanted.name != request.stream:
        raise api_error("stream_mismatch")
    if "/" in wanted.name or "\\" in wanted.name:
        raise api_error("stream_name_contains_path_separators")
    if wanted.sealed:
        raise invalid("stream configuration for create can not be sealed")
    if wanted.mirror_direct and not wanted.mirror:
        raise invalid("stream has no mirror but does have mirror direct")
    async with account.jetstream.changing_streams:
        return await _create_if_new(account, wanted)


async def _create_if_new(account: JetStreamAccount, wanted: StreamConfigRequest) -> Fields:
    resources = account.resources
    resources.check_create(wanted)
    slices = account.jetstream.slices
    config = await slices.result(check_stream_config(_config(wanted), resources, pedantic=wanted.pedantic))
    check_single_server(config)
    existing = account.streams.get(config.name)
    if existing:
        if not _is_same(existing.config, config):
            raise api_error("stream_name_exist")
        return _created(existing)
    await slices.result(check_new(account, config))
    return await _create(account, config)


def check_new(account: JetStreamAccount, config: StreamConfig) -> Work[None]:
    """Raises ApiError unless the account may have this stream in addition to its others."""
    account.resources.check_create(config)
    check_filters_at_create(config)
    yield from check_overlap(config, account.resources)


async def _create(account: JetStreamAccount, config: StreamConfig) -> Fields:
    try:
        directory = account.stream_directory(config)
        if directory and exists(directory) and not is_leftover(directory):
            raise StoreError(f"{directory} holds a stream that could not be read")
        stream = Stream(account, config, account.jetstream.now(), directory)
    except (StoreError, OSError) as error:
        raise _store_failed(account, config, error) from None
    try:
        await account.add(stream)
        if directory:
            await in_thread(_write_new, directory, config, stream.created)
        stream.open()
        stream.start(is_new=True)
        await account.jetstream.slices.result(stream.subscribe())
    except BaseException as error:
        await account.remove(stream)
        if directory:
            await in_thread(remove_tree, directory)  # it must not appear after the next start
        if isinstance(error, StoreError | OSError):
            raise _store_failed(account, config, error) from None
        raise
    account.announce(stream, "create")
    return _created(stream)


def _write_new(directory: str, config: StreamConfig, created: int) -> None:
    """The meta file comes last: without it there is no stream. Raises OSError."""
    make_directory(os.path.join(directory, MESSAGES))
    write_meta(directory, config, created)


def write_meta(directory: str, config: StreamConfig, created: int) -> bool:
    """Raises OSError; then the stream is unchanged. False: the new one may be lost in a power failure."""
    body = msgspec.json.encode({"config": config, "created": created})
    return write_checked(os.path.join(directory, META), body)


def _store_failed(account: JetStreamAccount, config: StreamConfig, error: Exception) -> ApiError:
    account.jetstream.logger.warn(f"Stream create failed for '{account.name} > {config.name}': {error}")
    return api_error("stream_create", err="error creating store for stream")


def _created(stream: Stream) -> Fields:
    info = stream.info()
    info.domain = ""  # nats-server leaves it out here
    return {**_fields(info), "did_create": True}


def _is_same(old: StreamConfig, new: StreamConfig) -> bool:
    return old == msgspec.structs.replace(new, metadata=with_level_of(old.metadata, new.metadata))


def _config(request: StreamConfigRequest) -> StreamConfig:
    return StreamConfig(**{name: getattr(request, name) for name in StreamConfig.__struct_fields__})


# -- update


async def update_stream(account: JetStreamAccount, request: Request) -> Fields:
    wanted = decode(request.payload, StreamConfigRequest, strict=account.jetstream.strict)
    async with account.jetstream.changing_streams:
        stream = await _change(account, request, wanted)
    await stream.enforce_limits()
    account.announce(stream, "modify")
    await stream.committed()
    return _fields(stream.info())


async def _change(account: JetStreamAccount, request: Request, wanted: StreamConfigRequest) -> Stream:
    """Returns the stream with its new configuration. Messages beyond the new limits are still there."""
    resources, slices = account.resources, account.jetstream.slices
    config = await slices.result(check_stream_config(_config(wanted), resources, pedantic=wanted.pedantic))
    if config.name != request.stream:
        raise api_error("stream_mismatch")
    stream = find_stream(account, config.name)
    set_required_level(config)
    config = await slices.result(check_update(stream.config, config, resources, pedantic=wanted.pedantic))
    _check_consumer_limits(stream, config)
    await slices.result(check_overlap(config, resources))
    if stream.directory:
        try:
            is_synced = await in_thread(write_meta, stream.directory, config, stream.created)
        except OSError as error:
            raise api_error("stream_update", err=(error.strerror or str(error)).lower()) from None
        if not is_synced:
            account.jetstream.logger.warn(
                f"Stream {stream.name!r}: its new configuration may be lost in a power failure"
            )
    await slices.result(resources.add_subjects(config, stream.config))
    stream.update(config)
    await slices.result(stream.subscribe())
    return stream


def _check_consumer_limits(stream: Stream, config: StreamConfig) -> None:
    """New limits may not be below what consumers already have."""
    old, new = stream.config.consumer_limits, config.consumer_limits
    violating = []
    for name, consumer in stream.consumers.items():
        threshold, pending = consumer.config.inactive_threshold, consumer.config.max_ack_pending
        if (0 < new.inactive_threshold < threshold and new.inactive_threshold != old.inactive_threshold) or (
            0 < new.max_ack_pending < pending and new.max_ack_pending != old.max_ack_pending
        ):
            violating.append(name)
    if violating:
        raise api_error("stream_update", err=f"change to limits violates consumers: {', '.join(violating)}")


# -- info and lists


def stream_info(account: JetStreamAccount, request: Request) -> Fields | Awaitable[Fields]:
    asked = StreamInfoRequest()
    if request.has_object:
        asked = decode(request.payload, StreamInfoRequest, strict=account.jetstream.strict)
    stream = find_stream(account, request.stream)
    wants_details = asked.deleted_details or asked.subjects_filter
    if stream.log.committed_seq == stream.log.last_seq and not wants_details:
        return {**NO_PAGE, **_fields(stream.info(with_cluster=True))}
    return _detailed_info(stream, asked)


async def _detailed_info(stream: Stream, asked: StreamInfoRequest) -> Fields:
    """Clients may read a message at once if the info includes it, so wait until it is on disk."""
    if stream.log.committed_seq != stream.log.last_seq:
        with suppress(ApiError):
            await stream.committed()
    return await stream.jetstream.slices.result(_details(stream, asked))


def _details(stream: Stream, asked: StreamInfoRequest) -> Work[Fields]:
    """If one step is enough for each list, everything in the response describes the same moment."""
    page: Fields = NO_PAGE
    counts: dict[str, int] = {}
    deleted: msgspec.Raw | None = None
    if asked.subjects_filter:
        offset = max(asked.offset, 0)
        total, counts = yield from count_subjects(stream.log, asked.subjects_filter, offset, SUBJECTS_LIMIT)
        if total:
            page = {"total": total, "offset": offset, "limit": SUBJECTS_LIMIT}
    if asked.deleted_details:
        deleted = yield from list_deleted(stream.log)
    state = stream.state(deleted=deleted)
    state.subjects = counts
    # The state may be long, so the response contains it as it is, without a copy.
    return {**page, **_fields(stream.info(with_cluster=True)), "state": state}


async def stream_names(account: JetStreamAccount, request: Request) -> Fields:
    names, page = await _select(account, request, StreamNamesRequest, NAMES_LIMIT)
    return {**page, "streams": names or None}


async def list_streams(account: JetStreamAccount, request: Request) -> Fields:
    names, page = await _select(account, request, StreamListRequest, LIST_LIMIT)

    def describe(name: str) -> Fields | None:
        stream = account.streams.get(name)
        return None if stream is None else _fields(stream.info(with_server=False))

    infos = await account.jetstream.slices.map(describe, names)
    return {**page, "streams": [info for info in infos if info is not None]}


async def _select(
    account: JetStreamAccount, request: Request, kind: type[StreamNamesRequest], limit: int
) -> tuple[list[str], Fields]:
    """The names of one page, and the page."""
    asked = decode(request.payload, kind, strict=account.jetstream.strict) if request.has_object else kind()
    configs = account.resources.configs()
    if asked.subject:
        overlapping = _overlapping(list(configs.values()), asked.subject)
        names = sorted(await account.jetstream.slices.result(overlapping))
    else:
        names = sorted(configs)
    offset = min(max(asked.offset, 0), len(names))
    page = {"total": len(names), "offset": offset, "limit": limit}
    return names[offset : offset + limit], page


def _overlapping(configs: list[StreamConfig], wanted: str) -> Work[list[str]]:
    """The names of the streams with a subject that overlaps."""
    names = []
    for config in configs:
        yield
        for index, subject in enumerate(config.subjects, 1):
            if index % STEP_SUBJECTS == 0:
                yield
            if grammar.overlap(wanted, subject):
                names.append(config.name)
                break
    return names


# -- purge and delete


def purge_stream(account: JetStreamAccount, request: Request) -> Awaitable[Fields]:
    asked = StreamPurgeRequest()
    if request.has_object:
        asked = decode(request.payload, StreamPurgeRequest, strict=account.jetstream.strict)
        if asked.seq and asked.keep:
            raise api_error("bad_request")
    stream = find_stream(account, request.stream)
    if stream.config.sealed:
        raise api_error("stream_sealed")
    if stream.config.deny_purge:
        raise api_error("stream_purge_failed", err="stream purge not permitted")
    return _purge(stream, asked)


async def _purge(stream: Stream, asked: StreamPurgeRequest) -> Fields:
    if stream.log.committed_seq != stream.log.last_seq:
        await stream.committed()  # what was published before the request is part of it
    purged = await stream.purge(subject=asked.filter, seq=asked.seq, keep=asked.keep)
    await stream.committed()
    return {"success": True, "purged": purged}


async def delete_stream(account: JetStreamAccount, request: Request) -> Fields:
    if not request.is_empty:
        raise api_error("not_empty_request")
    async with account.jetstream.changing_streams:
        stream = find_stream(account, request.stream)
        retired = await _delete(account, stream)
        failure = await _sync_removal(retired)
    if retired:
        await in_thread(remove_tree, retired)
    account.announce(stream, "delete")
    if failure:
        raise api_error("stream_delete", err=f"stream deleted but not synced: {failure}")
    return {"success": True}


async def _delete(account: JetStreamAccount, stream: Stream) -> str:
    """After this the stream is gone, even if the server is killed. Returns where its files are now.

    Raises ApiError; then it is unchanged. So its directory is renamed first, at a moment when nothing is
    being written. Until it is abandoned, the log needs only files that are open.
    """
    retired = ""
    if stream.directory:
        with suppress(ApiError):
            await stream.committed()
        try:
            retired = retire_directory(stream.directory, stream.name)
        except OSError as error:
            raise api_error("stream_delete", err=(error.strerror or str(error)).lower()) from None
    stream.delete_consumers()
    stream.stop()
    await account.remove(stream)
    if not retired:
        stream.log.destroy()
        return ""
    # The log belongs to this thread; another thread gets only its files, once nothing writes to them.
    with suppress(ApiError):
        await stream.committed()
    stream.log.abandon()
    return retired


async def _sync_removal(retired: str) -> str:
    """Returns why the stream may be back after a power failure."""
    try:
        if retired:
            await in_thread(sync_directory, os.path.dirname(retired))
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


# -- not supported


def needs_cluster(account: JetStreamAccount, request: Request) -> Fields:
    raise api_error("cluster_required")


def _fields(info: StreamInfo) -> Fields:
    fields: Fields = msgspec.to_builtins(info)
    return fields


ROUTES = (
    Route("STREAM.CREATE.*", "stream_create_response", create_stream),
    Route("STREAM.UPDATE.*", "stream_update_response", update_stream),
    Route("STREAM.INFO.*", "stream_info_response", stream_info, NO_PAGE),
    Route("STREAM.NAMES", "stream_names_response", stream_names, {**NO_PAGE, "streams": None}),
    Route("STREAM.LIST", "stream_list_response", list_streams, {**NO_PAGE, "streams": []}),
    Route("STREAM.PURGE.*", "stream_purge_response", purge_stream, {"purged": 0}),
    Route("STREAM.DELETE.*", "stream_delete_response", delete_stream),
    Route("STREAM.LEADER.STEPDOWN.*", "stream_leader_stepdown_response", needs_cluster),
    Route("STREAM.PEER.REMOVE.*", "stream_remove_peer_response", needs_cluster),
    Route("STREAM.PEER.EVACUATE.*", "stream_evacuate_peer_response", needs_cluster),
    Route("STREAM.CANCEL_MOVE.*", "stream_cancel_move_response", needs_cluster),
    Route("CONSUMER.LEADER.STEPDOWN.*.*", "consumer_leader_stepdown_response", needs_cluster),
)

"""The API of single messages: get and delete."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from headrace.engine.store.readings import Stored
from headrace.streams.api.dispatch import Request, Route
from headrace.streams.api.json_requests import decode
from headrace.streams.api.message_lookup import MessageDeleteRequest, MessageGetRequest, find_last
from headrace.streams.api.stream_requests import find_stream
from headrace.streams.errors import ApiError, api_error
from headrace.streams.formats import format_time, parse_store_time
from headrace.streams.slices import STEP_RECORDS, Slices
from headrace.streams.stream import Stream
from headrace.subjects.grammar import encode

if TYPE_CHECKING:
    from headrace.streams.jetstream_account import JetStreamAccount

Fields = dict[str, Any]


def get_message(account: JetStreamAccount, request: Request) -> Fields | Awaitable[Fields]:
    if request.is_empty:
        raise api_error("bad_request")
    asked = decode(request.payload, MessageGetRequest, strict=account.jetstream.strict)
    names_nothing = not (
        asked.seq or asked.last_by_subj or asked.next_by_subj or asked.start_time is not None
    )
    if asked.batch > 0 or asked.max_bytes > 0 or names_nothing or asked.has_two_places:
        raise api_error("bad_request")
    stream = find_stream(account, request.stream)
    is_search = asked.next_by_subj or asked.last_by_subj
    if stream.log.committed_seq == stream.log.last_seq and not is_search:
        return _describe(_get_message(stream.log, _first_seq(stream.log, asked)), asked)
    return _describe_later(stream, asked)


async def _describe_later(stream: Stream, asked: MessageGetRequest) -> Fields:
    """Wait until earlier publishes are on disk: they are part of the response."""
    if stream.log.committed_seq != stream.log.last_seq:
        with suppress(ApiError):  # messages that could not be written no longer exist
            await stream.committed()
    if asked.next_by_subj:
        first = _first_seq(stream.log, asked)
        found = await find_next(stream.jetstream.slices, stream.log, first, asked.next_by_subj)
        return _describe(found, asked)
    return _describe(await find_message(stream, asked), asked)


def _describe(message: Stored | None, asked: MessageGetRequest) -> Fields:
    if message is None:
        raise api_error("no_message_found")
    fields: Fields = {"subject": message.subject.decode("utf-8", "replace"), "seq": message.seq}
    if message.headers and not asked.no_hdr:
        fields["hdrs"] = message.headers
    if message.payload:
        fields["data"] = message.payload
    return {"message": {**fields, "time": format_time(message.time)}}


def _first_seq(log: Log, asked: MessageGetRequest) -> int:
    return log.seek_time(parse_store_time(asked.start_time)) if asked.start_time is not None else asked.seq


def _get_message(log: Log, seq: int) -> Stored | None:
    return log.get(seq) if seq <= log.committed_seq else None


async def find_message(stream: Stream, asked: MessageGetRequest) -> Stored | None:
    """By its sequence or time, or the last one of a subject."""
    seq = _first_seq(stream.log, asked)
    if seq:
        return _get_message(stream.log, seq)
    return await stream.jetstream.slices.result(find_last(stream.log, asked.last_by_subj))


async def find_next(slices: Slices, log: Log, seq: int, subject: str) -> Stored | None:
    """The first matching message from a sequence on; very many before it may not match."""
    filter_ = Filter((encode(subject),))
    found: Stored | None = None

    def step() -> bool:
        nonlocal found, seq
        found, seq = log.look_for(seq, filter_, STEP_RECORDS)
        return not seq

    await slices.run(step, progress=lambda: seq)
    return found


def delete_message(account: JetStreamAccount, request: Request) -> Awaitable[Fields]:
    if request.is_empty:
        raise api_error("bad_request")
    asked = decode(request.payload, MessageDeleteRequest, strict=account.jetstream.strict)
    stream = find_stream(account, request.stream)
    if stream.config.sealed:
        raise api_error("stream_sealed")
    if stream.config.deny_delete:
        raise api_error("stream_msg_delete_failed", err="message delete not permitted")
    message = stream.log.get(asked.seq)
    if not stream.log.remove(asked.seq, erase=not asked.no_erase):
        raise _not_deleted(stream, asked.seq)
    stream.on_removed()
    return _deleted(stream, message, erase=not asked.no_erase)


def _not_deleted(stream: Stream, seq: int) -> ApiError:
    """nats-server's file store recognizes messages that existed once, its memory store does not."""
    log = stream.log
    if stream.config.storage == "memory" or 0 < log.first_seq <= seq <= log.last_seq:
        return api_error("sequence_not_found", seq=seq)
    reason = "stream store EOF" if seq > log.last_seq else "no message found"
    return api_error("stream_msg_delete_failed", err=reason)


async def _deleted(stream: Stream, message: Stored | None, *, erase: bool) -> Fields:
    if message is not None:  # find the new last one of its subject now, so that no publisher has to search
        settle = partial(stream.log.settle, message.subject, STEP_RECORDS)
        with suppress(OSError):  # it cannot be read at present
            await stream.jetstream.slices.run(settle)
    await stream.committed()
    if erase:
        await stream.erased()
    return {"success": True}


ROUTES = (
    Route("STREAM.MSG.GET.*", "stream_msg_get_response", get_message, is_counted=False),
    Route("STREAM.MSG.DELETE.*", "stream_msg_delete_response", delete_message),
)

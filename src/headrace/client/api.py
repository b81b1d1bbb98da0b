"""The part of the JetStream API that reading and writing needs, with responses as structs."""

from __future__ import annotations

import calendar
import json
import re
from typing import Any, TypeVar

import msgspec

from headrace.client.errors import STREAM_NOT_FOUND, ApiError, ProtocolError, StreamNotFound
from headrace.unreadable import UNREADABLE_JSON

PREFIX = "$JS.API"

Answer = TypeVar("Answer")


class ErrorAnswer(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class StreamConfig(msgspec.Struct):
    name: str
    subjects: list[str] = []
    retention: str = "limits"
    storage: str = "file"
    duplicate_window: int = 0
    max_age: int = 0
    max_msgs_per_subject: int = -1
    deny_delete: bool = False
    deny_purge: bool = False


class StreamState(msgspec.Struct):
    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    first_ts: str = ""
    last_ts: str = ""
    deleted: list[int] | None = None


class StreamAnswer(msgspec.Struct):
    config: StreamConfig
    state: StreamState
    created: str = ""


class StreamNames(msgspec.Struct):
    total: int
    streams: list[str] | None = None


class SequencePair(msgspec.Struct):
    consumer_seq: int
    stream_seq: int


class ConsumerAnswer(msgspec.Struct):
    name: str
    delivered: SequencePair
    num_pending: int = 0


class StoredMessage(msgspec.Struct):
    seq: int


class MessageAnswer(msgspec.Struct):
    message: StoredMessage


class PublishAnswer(msgspec.Struct):
    stream: str = ""
    error: ErrorAnswer | None = None


class StreamInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A stream as it was a moment ago. Times and durations are nanoseconds; 0 where there is none."""

    name: str
    subjects: tuple[str, ...]
    retention: str
    storage: str
    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    first_time: int
    last_time: int
    created: int
    duplicate_window: int
    max_age: int
    max_msgs_per_subject: int
    """0 if there is no limit."""
    deny_delete: bool
    deny_purge: bool


class _Failure(msgspec.Struct):
    error: ErrorAnswer | None = None


def encode(body: dict[str, Any] | None) -> bytes:
    return b"" if body is None else json.dumps(body).encode()


def decode(payload: bytes, kind: type[Answer], what: str) -> Answer:
    """A response of the API. Raises ApiError if it is an error, with `what` in front."""
    try:
        failure = msgspec.json.decode(payload, type=_Failure).error
        if failure:
            raise _api_error(failure, what)
        return msgspec.json.decode(payload, type=kind)
    except UNREADABLE_JSON as error:
        raise ProtocolError(f"{what}: the server's response is invalid: {error}") from None


def _api_error(error: ErrorAnswer, what: str) -> ApiError:
    if error.err_code == STREAM_NOT_FOUND:
        return StreamNotFound(
            f"{what}: there is no such stream",
            hint="check its name; `headrace stream ls` shows what there is",
            code=error.code,
            err_code=error.err_code,
            description=error.description,
        )
    return ApiError(
        f"{what}: {error.description}",
        code=error.code,
        err_code=error.err_code,
        description=error.description,
    )


def stream_info(answer: StreamAnswer) -> StreamInfo:
    state = answer.state
    return stream_info_of(
        answer.config,
        state,
        created=parse_time(answer.created),
        first_time=parse_time(state.first_ts),
        last_time=parse_time(state.last_ts),
    )


def stream_info_of(
    config: StreamConfig, state: StreamState, *, created: int, first_time: int, last_time: int
) -> StreamInfo:
    return StreamInfo(
        name=config.name,
        subjects=tuple(config.subjects),
        retention=config.retention,
        storage=config.storage,
        messages=state.messages,
        bytes=state.bytes,
        first_seq=state.first_seq,
        last_seq=state.last_seq,
        first_time=first_time,
        last_time=last_time,
        created=created,
        duplicate_window=config.duplicate_window,
        max_age=config.max_age,
        max_msgs_per_subject=max(0, config.max_msgs_per_subject),
        deny_delete=config.deny_delete,
        deny_purge=config.deny_purge,
    )


_TIME = re.compile(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)(?:\.(\d{1,9})\d*)?(Z|([+-])(\d\d):(\d\d))")


def parse_time(text: str) -> int:
    """Nanoseconds since 1970 of `2026-11-15T23:29:44.123456789Z`; 0 for the year 1, which means never."""
    match = _TIME.fullmatch(text)
    if not match:
        return 0
    date = tuple(map(int, match.groups()[:6]))
    if date[0] < 1970:
        return 0
    seconds = calendar.timegm(date)
    if match[9]:
        offset = 3600 * int(match[10]) + 60 * int(match[11])
        seconds += -offset if match[9] == "+" else offset
    return seconds * 1_000_000_000 + int((match[7] or "").ljust(9, "0"))

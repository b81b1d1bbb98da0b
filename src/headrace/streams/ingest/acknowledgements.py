"""Acknowledgements of publishes: where a message was stored, or why it was not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from headrace.streams.errors import ErrorBody

if TYPE_CHECKING:
    from headrace.engine.streams.stream_sink import StreamSink
    from headrace.streams.errors import ApiError


class PublishError(msgspec.Struct):
    error: ErrorBody
    stream: str
    seq: int = 0


def encode_error(stream: str, error: ApiError) -> bytes:
    return msgspec.json.encode(PublishError(error.body, stream))


def encode_stored(sink: StreamSink, seq: int, details: bytes = b"") -> bytes:
    """`details` are further fields, such as `,"val":"5"`."""
    return b"%b%d%b%b}" % (sink.ack_prefix, seq, sink.ack_suffix, details)


def encode_batch(batch_id: bytes, count: int, *, is_duplicate: bool = False) -> bytes:
    """The details of a batch's acknowledgement."""
    duplicate = ',"duplicate": true' if is_duplicate else ""
    name = json.dumps(batch_id.decode("utf-8", "replace"), ensure_ascii=False)
    return f'{duplicate},"batch":{name},"count":{count}'.encode()


def encode_value(value: str) -> bytes:
    """The details of a counter's acknowledgement."""
    return f',"val":{json.dumps(value)}'.encode()

"""Key-value: buckets, keys, and a key with its history. Read from the store, like messages."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.engine.basics.filters import Filter
from headrace.monitor.console.asking import Asking, Document
from headrace.monitor.console.calls import HeaderList
from headrace.monitor.console.refusal import bad_request, not_found
from headrace.monitor.console.views.messages import WHOLE_BYTES, describe_message
from headrace.monitor.console.views.streams import KEY_VALUE, check_pattern
from headrace.subjects.grammar import encode, has_wildcard, is_valid_publish_subject

if TYPE_CHECKING:
    from headrace.streams.stream import Stream

HISTORY_SHOWN = 64
"""The most that a bucket keeps."""
STEP_LOOKS = 2000
OPERATION = "KV-Operation"
MARKER_REASON = "Nats-Marker-Reason"
MARKERS = {"MaxAge": "PURGE", "Purge": "PURGE", "Remove": "DEL"}
"""What a marker that the server placed means, by its reason: a key that has expired is one of them."""


async def show_buckets(ask: Asking) -> Document:
    ask.viewer.check_publish("$JS.API.STREAM.LIST")
    offset, limit = ask.page()
    wanted = ask.text("filter").lower()
    streams = sorted(
        (
            stream
            for stream in ask.streams()
            if stream.name.startswith(KEY_VALUE) and wanted in stream.name[len(KEY_VALUE) :].lower()
        ),
        key=lambda stream: (stream.name, stream.account.name),
    )
    return {
        "now": int(time.time() * 1000),
        "total": len(streams),
        "offset": offset,
        "limit": limit,
        "buckets": [describe_bucket(stream) for stream in streams[offset : offset + limit]],
    }


def describe_bucket(stream: Stream) -> Document:
    config, log = stream.config, stream.log
    return {
        "account": stream.account.name,
        "bucket": stream.name.removeprefix(KEY_VALUE),
        "keys": log.num_subjects,
        "bytes": log.byte_count,
        "history": config.max_msgs_per_subject,
        "ttl": config.max_age,
        "storage": config.storage,
        "last_time": log.last_time // 1_000_000,
        "is_mirror": config.mirror is not None,
    }


def find_bucket(ask: Asking) -> tuple[Stream, str]:
    """Its stream, and the prefix of its keys' subjects. Raises Refusal."""
    bucket = ask.text("bucket")
    stream = ask.stream(KEY_VALUE + bucket)
    ask.viewer.check_publish(f"$JS.API.STREAM.MSG.GET.{stream.name}")
    origin = stream.config.mirror.name.removeprefix(KEY_VALUE) if stream.config.mirror else bucket
    return stream, f"$KV.{origin}."


def operation_of(headers: HeaderList) -> str:
    """PUT, DEL or PURGE: what a message says about its key."""
    found = dict(headers)
    return found.get(OPERATION) or MARKERS.get(found.get(MARKER_REASON, ""), "PUT")


async def show_keys(ask: Asking) -> Document:
    """Also keys that were deleted: their history may be wanted."""
    from headrace.streams.api.stream_info import count_subjects

    stream, prefix = find_bucket(ask)
    offset, limit = ask.page()
    wanted = ask.text("filter")
    if wanted and not has_wildcard(wanted):
        wanted = wanted.rstrip(".")
    pattern = check_pattern(prefix + (wanted or ">"))
    log = stream.log
    total, counts = await stream.jetstream.slices.result(count_subjects(log, pattern, offset, limit))
    keys: list[Document] = []
    for subject in sorted(counts):
        message = log.get(log.last(encode(subject)))
        if message is not None:
            described = describe_message(message, 120)
            key = described["subject"].removeprefix(prefix)
            keys.append(described | {"key": key, "operation": operation_of(described["headers"])})
    return {
        "total": total,
        "offset": offset,
        "limit": limit,
        "keys": keys,
        "bucket": describe_bucket(stream),
    }


async def show_key(ask: Asking) -> Document:
    """All that the bucket keeps of it, newest first."""
    stream, prefix = find_bucket(ask)
    key = ask.text("key")
    subject = prefix + key
    if not is_valid_publish_subject(subject):
        raise bad_request("A key is dot-separated tokens, without spaces and wildcards.")
    state = stream.log.subject_state(encode(subject))
    if state is None:
        raise not_found("There is no such key. It may have been purged.")
    history: list[Document] = []
    place, filter_ = state[1], Filter((encode(subject),))

    def step() -> bool:
        nonlocal place
        message, following = stream.log.look_for(place, filter_, STEP_LOOKS)
        if message is not None:
            described = describe_message(message, WHOLE_BYTES if message.seq == state[2] else 1024)
            history.append(described | {"operation": operation_of(described["headers"])})
            del history[:-HISTORY_SHOWN]
            place = message.seq + 1
            return False
        place = following
        return not following

    await stream.jetstream.slices.run(step, progress=lambda: place)
    return {"key": key, "history": history[::-1], "bucket": describe_bucket(stream)}

"""Streams: a sorted page of them, one with its configuration and state, and its subjects with counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.monitor.console.asking import Asking, Document
from headrace.monitor.console.refusal import bad_request
from headrace.monitor.console.stream_settings import write_settings
from headrace.monitor.console.views.listing import Listing
from headrace.monitor.console.views.overview import troubles_of
from headrace.subjects.grammar import FULL_WILDCARD, is_valid_subject

if TYPE_CHECKING:
    from headrace.streams.stream import Stream

SUBJECTS_SHOWN = 3
KEY_VALUE = "KV_"
OBJECTS = "OBJ_"

SORTS: dict[str, Callable[[Any], Any]] = {
    "name": lambda stream: stream.name.lower(),
    "messages": lambda stream: stream.log.count,
    "bytes": lambda stream: stream.log.byte_count,
    "subjects": lambda stream: stream.log.num_subjects,
    "consumers": lambda stream: len(stream.consumers),
    "last": lambda stream: stream.log.last_time,
}


async def show_streams(ask: Asking) -> Document:
    ask.viewer.check_publish("$JS.API.STREAM.LIST")
    listing = Listing(ask, SORTS)
    everything = list(ask.streams())
    wanted = listing.wanted
    found = [stream for stream in everything if not wanted or is_meant(stream, wanted)]
    page = listing.page(found, lambda one: (one.name, one.account.name))
    return {
        **listing.describe(len(everything), len(found)),
        "is_off": ask.context.jetstream is None,
        "streams": [summarize(stream) for stream in page],
    }


def is_meant(stream: Stream, wanted: str) -> bool:
    return wanted in stream.name.lower() or any(wanted in one.lower() for one in stream.config.subjects)


def kind_of(name: str) -> str:
    if name.startswith(KEY_VALUE):
        return "key-value"
    return "objects" if name.startswith(OBJECTS) else "stream"


def summarize(stream: Stream) -> Document:
    log, config = stream.log, stream.config
    return {
        "account": stream.account.name,
        "name": stream.name,
        "kind": kind_of(stream.name),
        "subjects": config.subjects[:SUBJECTS_SHOWN],
        "more_subjects": max(len(config.subjects) - SUBJECTS_SHOWN, 0),
        "retention": config.retention,
        "storage": config.storage,
        "messages": log.count,
        "bytes": log.byte_count,
        "first_seq": str(log.first_seq),
        "last_seq": str(log.last_seq),
        "last_time": log.last_time // 1_000_000,
        "num_subjects": log.num_subjects,
        "consumers": len(stream.consumers),
        "problem": next((trouble["text"] for trouble in troubles_of(stream)), ""),
    }


async def show_stream(ask: Asking) -> Document:
    stream = ask.stream()
    ask.viewer.check_publish(f"$JS.API.STREAM.INFO.{stream.name}")
    log, info = stream.log, stream.info()
    config = msgspec.to_builtins(stream.config)
    return {
        **summarize(stream),
        "now": int(time.time() * 1000),
        "subjects": stream.config.subjects,
        "created": stream.created // 1_000_000,
        "first_time": (log.first_time if log.count else 0) // 1_000_000,
        "deleted": log.num_deleted,
        "config": config,
        "settings": write_settings(config),
        "mirror": info.mirror,
        "sources": info.sources,
        "problems": troubles_of(stream),
    }


def check_pattern(pattern: str) -> str:
    """A filter for subjects; empty means all. Raises Refusal."""
    if not pattern:
        return FULL_WILDCARD
    if not is_valid_subject(pattern):
        raise bad_request("A subject filter is dot-separated tokens, where * is any token and > any rest.")
    return pattern


async def show_subjects(ask: Asking) -> Document:
    """Those of a stream that match, with their counts, sorted by name."""
    from headrace.streams.api.stream_info import count_subjects  # a server without streams does not load it

    stream = ask.stream()
    ask.viewer.check_publish(f"$JS.API.STREAM.INFO.{stream.name}")
    offset, limit = ask.page()
    pattern = check_pattern(ask.text("filter"))
    total, counts = await stream.jetstream.slices.result(count_subjects(stream.log, pattern, offset, limit))
    subjects = [
        {"subject": name.encode("utf-8", "surrogateescape").decode(errors="replace"), "messages": count}
        for name, count in sorted(counts.items())
    ]
    return {"total": total, "offset": offset, "limit": limit, "subjects": subjects}

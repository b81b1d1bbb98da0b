"""What the API returns about a stream: its configuration and its state.

Subjects and deleted sequences are included only on request, because they can be long. Both are collected in
steps. Messages that are published or removed between two steps may or may not be included.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import Any

import msgspec

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from headrace.streams.config import StreamConfig, Wire
from headrace.streams.slices import Work
from headrace.streams.wire_types import Int, Uint64, always
from headrace.subjects.grammar import decode, encode

STEP_PLACES = 5000
STEP_SEQUENCES = 20_000
MOST_DELETED = 250_000
"""Deleted sequences in a response; up to 5 MB."""


class StreamState(Wire):
    messages: Uint64 = always(0)
    bytes: Uint64 = always(0)
    first_seq: Uint64 = always(0)
    first_ts: str = always("")
    last_seq: Uint64 = always(0)
    last_ts: str = always("")
    num_subjects: Int = 0
    subjects: dict[str, int] = msgspec.field(default_factory=dict)
    num_deleted: Int = 0
    deleted: msgspec.Raw | None = None  # a list of sequences
    consumer_count: Int = always(0)


class ClusterInfo(Wire):
    """On a single server: just its name."""

    leader: str = ""


class StreamInfo(Wire):
    config: StreamConfig = always(None)
    created: str = always("")
    state: StreamState = always(None)
    domain: str = ""
    cluster: ClusterInfo | None = None
    mirror: dict[str, Any] | None = None
    sources: list[dict[str, Any]] = msgspec.field(default_factory=list)
    ts: str = always("")


def count_subjects(log: Log, pattern: str, offset: int, limit: int) -> Work[tuple[int, dict[str, int]]]:
    """How many subjects match, and the message counts of one page; pages are sorted by name."""
    filter_ = Filter((encode(pattern),))
    counts: dict[str, int] = {}
    start = 0
    while True:
        for subject, count in log.count_subjects(filter_, start, STEP_PLACES).items():
            counts[decode(subject)] = count
        start += STEP_PLACES
        if start >= log.subject_places:
            break
        yield
    if not offset and len(counts) <= limit:
        return len(counts), counts
    names = yield from _sorted_page(list(counts), offset, limit)
    return len(counts), {name: counts[name] for name in names}


def _sorted_page(names: list[str], offset: int, limit: int) -> Work[list[str]]:
    """Runs are sorted one by one, and merged up to the end of the page."""
    runs: list[list[str]] = []
    for start in range(0, len(names), STEP_PLACES):
        runs.append(sorted(names[start : start + STEP_PLACES]))
        yield
    page: list[str] = []
    passed = 0
    in_order = merge(*runs)
    while len(page) < limit and (some := list(islice(in_order, STEP_PLACES // 10))):
        page.extend(some[max(offset - passed, 0) :])
        passed += len(some)
        yield
    return page[:limit]


def list_deleted(log: Log) -> Work[msgspec.Raw | None]:
    """The deleted sequences between the first and the last message; as JSON, because they may be many.

    Only the first ones, because a client can make a gap as wide as it likes.
    """
    encoder = msgspec.json.Encoder()
    listed = bytearray(b"[")
    seq, count = log.first_seq, 0
    while True:
        if missing := log.deleted(seq, STEP_SEQUENCES)[: MOST_DELETED - count]:
            listed.extend(encoder.encode(missing)[1:-1] + b",")
            count += len(missing)
        seq += STEP_SEQUENCES
        if seq > log.last_seq or count == MOST_DELETED:
            break
        yield
    listed[-1:] = b"]"
    return msgspec.Raw(listed) if len(listed) > 1 else None

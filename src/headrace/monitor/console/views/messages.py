"""The message browser: reads the store itself, so it needs no consumer and changes nothing.

A filter may pass few of very many messages, so a request looks at a bounded number. If it has not found
enough by then, it says from where to continue. The work runs in slices, between that of everybody else.

Newest first is read in blocks, from the end: each block is read forward, which is the only way the store
reads, and turned around.
"""

from __future__ import annotations

import base64
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from headrace.engine.basics.filters import Filter
from headrace.go_formats import format_time
from headrace.monitor.console.asking import Asking, Document, shown
from headrace.monitor.console.calls import decode_headers
from headrace.monitor.console.message_filter import FilterError, parse_filter
from headrace.monitor.console.refusal import bad_request, not_found
from headrace.monitor.console.views.streams import check_pattern
from headrace.subjects.grammar import FULL_WILDCARD, encode

if TYPE_CHECKING:
    from headrace.engine.store.log import Log
    from headrace.engine.store.readings import Stored

PREVIEW_BYTES = 512
WHOLE_BYTES = 1024 * 1024
FILTERED_BYTES = 1024 * 1024
"""A longer payload is not searched for JSON fields."""
MAX_MESSAGES_READ = 20_000
MAX_BYTES_READ = 64 * 1024 * 1024
MAX_SEQUENCES_PASSED = 1_000_000
BLOCK_SEQUENCES = 256
LONGEST_BLOCK_SEQUENCES = 65_536
STEP_LOOKS = 2000
STEP_SECONDS = 0.001
NO_END = 2**63 - 1


class Search(msgspec.Struct):
    """What is looked for, between which sequences (the end is excluded), and how far it is."""

    filter: Filter
    passes: Callable[[bytes], bool] | None
    first: int
    end: int
    limit: int
    backward: bool
    found: list[Stored] = []
    messages_read: int = 0
    bytes_read: int = 0
    passed: int = 0
    too_long: int = 0

    @property
    def is_used_up(self) -> bool:
        return (
            self.messages_read >= MAX_MESSAGES_READ
            or self.bytes_read >= MAX_BYTES_READ
            or self.passed >= MAX_SEQUENCES_PASSED
        )

    @property
    def is_done(self) -> bool:
        return self.first >= self.end or len(self.found) >= self.limit

    def is_wanted(self, message: Stored) -> bool:
        self.messages_read += 1
        self.bytes_read += len(message.payload)
        if self.passes is None:
            return True
        if len(message.payload) > FILTERED_BYTES:
            self.too_long += 1
            return False
        return self.passes(message.payload)


def step_forward(log: Log, search: Search) -> bool:
    """Look at some; returns whether to stop."""
    until = time.monotonic() + STEP_SECONDS
    while not search.is_done and not search.is_used_up:
        message, place = log.look_for(search.first, search.filter, STEP_LOOKS)
        upto = message.seq + 1 if message is not None else place or search.end
        search.passed += min(upto, search.end) - search.first
        search.first = upto
        if message is not None and message.seq < search.end and search.is_wanted(message):
            search.found.append(message)
        if time.monotonic() > until:
            return False
    return True


class Blocks:
    """The way back, block by block. A block without matches makes the next one longer."""

    def __init__(self, log: Log, search: Search) -> None:
        self._log = log
        self._search = search
        self._shortest = self._length = min(BLOCK_SEQUENCES, 2 * search.limit)
        self._begin()

    def _begin(self) -> None:
        search = self._search
        self._start = max(search.end - self._length, search.first)
        self._place = self._start
        self._matches: deque[Stored] = deque(maxlen=search.limit - len(search.found))
        self._matching = 0

    def step(self) -> bool:
        """Look at some; returns whether to stop."""
        search, until = self._search, time.monotonic() + STEP_SECONDS
        while not search.is_done:
            if self._place >= search.end:
                self._finish_block()
                if search.is_used_up:
                    return True
                continue
            message, place = self._log.look_for(self._place, search.filter, STEP_LOOKS)
            self._place = message.seq + 1 if message is not None else place or search.end
            if message is not None and message.seq < search.end and search.is_wanted(message):
                self._matches.append(message)  # the oldest ones give way
                self._matching += 1
            if time.monotonic() > until:
                return False
        return True

    def _finish_block(self) -> None:
        search = self._search
        search.found += reversed(self._matches)
        end = self._matches[0].seq if self._matching > len(self._matches) else self._start
        search.passed += search.end - end
        search.end = end
        is_dense = self._matching * 4 > self._length or search.bytes_read > MAX_BYTES_READ // 4
        self._length = self._shortest if is_dense else min(self._length * 2, LONGEST_BLOCK_SEQUENCES)
        self._begin()


async def show_messages(ask: Asking) -> Document:
    stream = ask.stream()
    ask.viewer.check_publish(f"$JS.API.STREAM.MSG.GET.{stream.name}")
    log = stream.log
    search = read_search(ask, log)
    step = Blocks(log, search).step if search.backward else lambda: step_forward(log, search)
    first, end = search.first, search.end
    if not search.is_done:
        await stream.jetstream.slices.run(step)
    is_complete = search.first >= search.end
    return {
        "messages": [describe_message(message, PREVIEW_BYTES) for message in search.found],
        "scanned": search.passed,
        "first": str(first),
        "last": str(max(end - 1, 0)),
        "next": "" if is_complete else str(search.end - 1 if search.backward else search.first),
        "is_full": len(search.found) >= search.limit,
        "too_long": search.too_long,
        "state": {
            "messages": log.count,
            "first_seq": str(log.first_seq),
            "last_seq": str(log.last_seq),
        },
    }


def read_search(ask: Asking, log: Log) -> Search:
    """Raises Refusal for a filter that cannot be read."""
    pattern = check_pattern(ask.text("subject"))
    where = ask.text("where").strip()
    try:
        passes = parse_filter(where) if where else None
    except FilterError as error:
        raise bad_request(f"The filter cannot be read: {error}.") from None
    backward = ask.choice("order", ("newest", "oldest")) == "newest"
    first, end = max(log.first_seq, 1), log.committed_seq + 1
    if since := ask.number("from"):  # milliseconds since 1970
        first = max(first, log.seek_time(min(since * 1_000_000, NO_END)))
    if until := ask.number("to"):
        end = min(end, log.seek_time(min((until + 1) * 1_000_000, NO_END)))
    if seq := ask.number("seq", rule='"Start at" is a sequence, such as 42.'):
        first, end = (first, min(end, seq + 1)) if backward else (max(first, seq), end)
    if pattern != FULL_WILDCARD:
        end = min(end, log.last(encode(pattern)) + 1)
    subjects = () if pattern == FULL_WILDCARD else (encode(pattern),)
    _, limit = ask.page()
    return Search(Filter(subjects), passes, first, end, limit, backward)


async def show_message(ask: Asking) -> Document:
    stream = ask.stream()
    ask.viewer.check_publish(f"$JS.API.STREAM.MSG.GET.{stream.name}")
    seq = ask.number("seq")
    message = stream.log.get(seq) if 0 < seq <= stream.log.committed_seq else None
    if message is None:
        raise not_found(f"There is no message {seq} in this stream.")
    return describe_message(message, WHOLE_BYTES)


def describe_message(message: Stored, most_bytes: int) -> Document:
    """The payload in base64, cut if it is long: the page decides how to show it."""
    return {
        "seq": str(message.seq),
        "time": format_time(message.time),
        "subject": shown(message.subject),
        "headers": decode_headers(message.headers) if message.headers else [],
        "size": len(message.payload),
        "data": base64.b64encode(message.payload[:most_bytes]).decode(),
        "is_cut": len(message.payload) > most_bytes,
    }

"""Purging a stream: everything, by subject, below a sequence, or all but the newest messages.

A purge works in slices. It removes only messages that were stored before it was requested.
"""

from __future__ import annotations

from functools import partial

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from headrace.engine.store.store import Watcher
from headrace.streams.slices import STEP_RECORDS, Slices
from headrace.subjects.grammar import FULL_WILDCARD, encode

UNLIMITED = 2**64 - 1


async def purge(slices: Slices, log: Log, *, subject: str = "", seq: int = 0, keep: int = 0) -> int:
    """Remove messages that match `subject` and are below `seq`, except the newest `keep`. Returns how many.

    Raises ApiError if that cannot be written. The last removals are not on disk yet.
    """
    if seq == 1:
        return 0  # nothing is below the first
    if subject in ("", FULL_WILDCARD):
        if not keep and not seq:
            return log.purge()
        return await compact(slices, log, seq or log.seq_from_end(keep))
    filter_ = Filter((encode(subject),))
    last = min(seq - 1, log.last_seq) if seq else log.last_seq
    if not keep:
        return await _remove_matching(slices, log, filter_, last)
    return await _keep_newest(slices, log, filter_, last, keep)


async def compact(slices: Slices, log: Log, seq: int) -> int:
    """Remove everything below a sequence. If that is beyond the end, the next message gets it."""
    if seq > log.last_seq:
        removed = log.purge()
        if seq > log.last_seq + 1:
            log.skip(seq)
        return removed
    removed = 0

    def step() -> bool:
        nonlocal removed
        removed += log.compact(seq, STEP_RECORDS)
        return log.first_seq >= seq or not log.count

    await slices.remove(log, step, progress=lambda: log.first_seq)
    return removed


async def _remove_matching(slices: Slices, log: Log, filter_: Filter, last: int) -> int:
    removed, seq = 0, log.first_seq

    def step() -> bool:
        nonlocal removed, seq
        some, seq = log.remove_matching(seq, last, filter_, UNLIMITED, STEP_RECORDS)
        removed += some
        return seq > last

    await slices.remove(log, step, progress=lambda: seq)
    return removed


async def _keep_newest(slices: Slices, log: Log, filter_: Filter, last: int, keep: int) -> int:
    removed, seq = 0, log.first_seq
    matching, newer = (
        Watcher(),
        Watcher(),
    )  # the log keeps their counts exact, whoever removes messages meanwhile
    matching.next_seq, newer.next_seq = log.first_seq, log.last_seq + 1

    def step() -> bool:
        nonlocal removed, seq
        most = matching.num_pending - newer.num_pending - keep
        if most <= 0:
            return True
        some, seq = log.remove_matching(seq, last, filter_, most, STEP_RECORDS)
        removed += some
        return seq > last

    try:
        for watcher in (matching, newer):
            watcher.filter = filter_
            log.begin_to_watch(watcher)
            await slices.run(partial(log.count_ahead, watcher, STEP_RECORDS))
        await slices.remove(log, step, progress=lambda: seq)
    finally:
        log.remove_watcher(matching)
        log.remove_watcher(newer)
    return removed

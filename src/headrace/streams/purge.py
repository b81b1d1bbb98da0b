"""Purging a stream: everything, what a subject matches, what is below a sequence, all but the newest few."""

from __future__ import annotations

from headrace.engine.filters import Filter
from headrace.engine.log import Log
from headrace.subjects.grammar import FULL_WILDCARD, encode


def purge(log: Log, *, subject: str = "", seq: int = 0, keep: int = 0) -> int:
    """Remove messages that match `subject` and are below `seq`, but `keep` the newest ones. How many."""
    if seq == 1:
        return 0  # nothing is below the first
    if subject in ("", FULL_WILDCARD):
        if not keep and not seq:
            return log.purge()
        if seq:
            return compact(log, seq)
    filter_ = Filter((encode(subject or FULL_WILDCARD),))
    highest = seq - 1 if seq else log.last_seq
    most = log.count
    if keep:
        most = log.count_from(log.first_seq, filter_) - keep
        if most <= 0:
            return 0
    return log.remove_many(_matching(log, filter_, highest, most))


def compact(log: Log, seq: int) -> int:
    """Remove everything below a sequence, which may be beyond the end: then the next message gets it."""
    if seq <= log.last_seq:
        return log.compact(seq)
    removed = log.purge()
    if seq > log.last_seq + 1:
        log.skip(seq)
    return removed


def _matching(log: Log, filter_: Filter, highest: int, most: int) -> list[int]:
    found: list[int] = []
    seq = log.first_seq
    while len(found) < most:
        message = log.next(seq, filter_)
        if message is None or message.seq > highest:
            break
        found.append(message.seq)
        seq = message.seq + 1
    return found

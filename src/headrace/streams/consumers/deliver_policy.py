"""Where a consumer starts: by its deliver policy if it is new, where it stopped after a restart."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from heapq import merge
from itertools import chain, groupby, islice, pairwise
from typing import NamedTuple

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from headrace.streams.config import ConsumerConfig
from headrace.streams.consumers.core import Core
from headrace.streams.consumers.on_disk.state import ConsumerState, reconcile, restore
from headrace.streams.consumers.rules import filters_of
from headrace.streams.formats import parse_store_time
from headrace.streams.slices import STEP_RECORDS, at_once

RUN_SEQUENCES = 10_000
"""Sequences that are sorted at a time; about a millisecond."""


def make_filter(config: ConsumerConfig) -> Filter:
    return Filter(tuple(subject.encode() for subject in filters_of(config)))


class Start(NamedTuple):
    seq: int
    """The first sequence to deliver."""
    start_list: list[int]
    """Those to deliver before it (`last_per_subject`)."""


def find_start(config: ConsumerConfig, log: Log, max_msgs_per_subject: int) -> Generator[None, None, Start]:
    """The start by the deliver policy of a new consumer; a search in slices."""
    start_list: list[int] = []
    policy = config.deliver_policy
    if policy == "by_start_sequence":
        return Start(max(config.opt_start_seq, log.first_seq), start_list)
    if policy == "all" or (policy == "last_per_subject" and max_msgs_per_subject == 1):
        start = log.first_seq
    elif policy == "last":
        start = yield from _last(config, log)
    elif policy == "last_per_subject":
        last_seq = log.last_seq
        start_list = yield from _last_sequences(log, make_filter(config), last_seq)
        start = last_seq + bool(start_list)  # as nats-server shows it; nothing there matches
    elif policy == "by_start_time":
        start = log.seek_time(parse_store_time(config.opt_start_time or ""))
    else:
        start = log.last_seq + 1
    return Start(max(1, log.first_seq, min(start, log.last_seq + 1)), start_list)


def _last(config: ConsumerConfig, log: Log) -> Generator[None, None, int]:
    if not filters_of(config):
        return log.last_seq
    filter_, last, place = make_filter(config), 0, 0
    while True:
        last, place = log.look_for_last(filter_, place, last, STEP_RECORDS)
        if place >= log.places(filter_):
            return last
        yield


def _last_sequences(log: Log, filter_: Filter, up_to: int) -> Generator[None, None, list[int]]:
    """In order: runs are sorted one by one, and merged. What is published meanwhile is above all of them."""
    runs: list[list[int]] = [[]]
    place = 0
    while place < log.places(filter_):
        found, place = log.last_sequences(filter_, up_to, place, STEP_RECORDS)
        runs[-1] += found
        if len(runs[-1]) >= RUN_SEQUENCES:
            runs[-1].sort()
            runs.append([])
        yield
    runs[-1].sort()
    runs = [run for run in runs if run]
    merged: list[int] = []
    in_order: Iterator[int] = chain.from_iterable(runs)  # usually, subjects appear in this order
    if filter_.literal or any(run[-1] > after[0] for run, after in pairwise(runs)):
        in_order = (seq for seq, _ in groupby(merge(*runs)))  # a pattern may be there twice
    while some := list(islice(in_order, STEP_RECORDS)):
        merged += some
        yield
    return merged


def set_start(
    core: Core, state: ConsumerState | None, start: Start | None, max_msgs_per_subject: int
) -> list[int]:
    """Set cursor and ledger; no state means a new consumer. Returns the sequences to deliver first.

    If the start of a new one is not known yet, it is searched for in one go.
    """
    if state is None:
        first, start_list = start or at_once(find_start(core.config, core.log, max_msgs_per_subject))
        core.cursor.next_seq = first
        core.ledger.start(start_list[0] - 1 if start_list else first - 1)
        return start_list
    log, ahead = core.log, state.delivered_stream
    if reconcile(state, log.last_seq):
        core.warn(
            f"JetStream consumer '{core.account} > {core.stream} > {core.name}' delivered sequence {ahead} "
            f"past last stream sequence of {log.last_seq}"
        )
    restore(core.ledger, state)
    core.ledger.drop_below(log.first_seq)
    core.cursor.next_seq = max(core.ledger.delivered_stream + 1, log.first_seq, 1)
    core.cursor.delivered_seq = core.ledger.delivered_consumer
    return []

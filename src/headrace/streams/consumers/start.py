"""Where a new consumer begins, by its deliver policy."""

from __future__ import annotations

from headrace.engine.core.filters import Filter
from headrace.engine.store.log import Log
from headrace.streams.config import ConsumerConfig
from headrace.streams.consumers.rules import filters_of
from headrace.streams.formats import parse_store_time


def make_filter(config: ConsumerConfig) -> Filter:
    return Filter(tuple(subject.encode() for subject in filters_of(config)))


def find_start(config: ConsumerConfig, log: Log, max_msgs_per_subject: int) -> tuple[int, list[int]]:
    """The first sequence to deliver, and a list of sequences to deliver before (`last_per_subject`)."""
    start_list: list[int] = []
    policy = config.deliver_policy
    if policy == "by_start_sequence":
        return max(config.opt_start_seq, log.first_seq), start_list
    if policy == "all" or (policy == "last_per_subject" and max_msgs_per_subject == 1):
        start = log.first_seq
    elif policy == "last":
        start = _last(config, log)
    elif policy == "last_per_subject":
        start_list = sorted(log.last_sequences(make_filter(config)))
        start = log.last_seq + bool(start_list)  # as nats-server shows it; nothing there matches
    elif policy == "by_start_time":
        start = log.seek_time(parse_store_time(config.opt_start_time or ""))
    else:
        start = log.last_seq + 1
    return max(1, log.first_seq, min(start, log.last_seq + 1)), start_list


def _last(config: ConsumerConfig, log: Log) -> int:
    filters = filters_of(config)
    if not filters:
        return log.last_seq
    return max(log.last(subject.encode()) for subject in filters)

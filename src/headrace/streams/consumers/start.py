"""Where a consumer starts: by its deliver policy if it is new, where it stopped after a restart."""

from __future__ import annotations

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from headrace.streams.config import ConsumerConfig
from headrace.streams.consumers.core import Core
from headrace.streams.consumers.rules import filters_of
from headrace.streams.consumers.state import ConsumerState, reconcile, restore
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


def set_start(core: Core, state: ConsumerState | None, max_msgs_per_subject: int) -> list[int]:
    """Set cursor and ledger; no state means a new consumer. Returns the sequences to deliver first."""
    if state is None:
        start, start_list = find_start(core.config, core.log, max_msgs_per_subject)
        core.cursor.next_seq = start
        core.ledger.start(start_list[0] - 1 if start_list else start - 1)
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

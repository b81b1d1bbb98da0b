"""Recovers consumers from disk when the server starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.streams.consumers.consumer import Consumer
from headrace.streams.consumers.on_disk.directory import ConsumerMeta, StoredConsumers
from headrace.streams.consumers.on_disk.state import ConsumerState

if TYPE_CHECKING:
    from headrace.streams.stream import Stream


def recover_consumers(stream: Stream, found: StoredConsumers) -> bool:
    """Start all consumers of the stream. Damaged ones are reported, and left alone.

    Returns False if the configuration of one is lost: then nobody knows which messages it still needs.
    """
    problems = list(found.damaged.values())
    stream.damaged_consumers.update(found.damaged)
    for each in found.readable:
        meta = each.meta
        state = each.state
        if each.problem:
            problems.append(each.problem)
            state = _start_over(stream, meta)
        consumer = Consumer(stream, meta.name, meta.config, meta.created, state)
        stream.consumers[meta.name] = consumer
        consumer.start()
    for problem in problems:
        stream.jetstream.logger.warn(f"Stream {stream.name!r}: {problem}")
    return not found.damaged


def _start_over(stream: Stream, meta: ConsumerMeta) -> ConsumerState | None:
    """Where a consumer whose state is lost starts over; None: as in its configuration.

    `new` and `last` mean the end of the stream at its creation. The current end would skip messages that
    were not acknowledged, so these start earlier rather than later.
    """
    policy, log = meta.config.deliver_policy, stream.log
    if policy == "new":
        start = log.seek_time(meta.created)
    elif policy in ("last", "last_per_subject"):
        start = log.first_seq
    else:
        return None
    return ConsumerState(delivered_stream=max(start, 1) - 1, floor_stream=max(start, 1) - 1)

"""Recovers consumers from disk when the server starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.streams.consumers.consumer import Consumer
from headrace.streams.consumers.directory import ConsumerMeta, load_all
from headrace.streams.consumers.state import ConsumerState

if TYPE_CHECKING:
    from headrace.streams.stream import Stream


def recover_consumers(stream: Stream) -> bool:
    """Start all consumers of the stream. Damaged ones are reported, and left alone.

    Returns False if a consumer could not be read: then nobody knows which messages it still needs.
    """
    if stream.directory is None:
        return True
    recovered, problems = load_all(stream.directory)
    is_whole = not problems
    for each in recovered:
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
    return is_whole


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

"""Bringing consumers back from disk when the server starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.streams.consumer import Consumer
from headrace.streams.consumer_store import load_all

if TYPE_CHECKING:
    from headrace.streams.stream import Stream


def recover_consumers(stream: Stream) -> None:
    """Start all consumers that the stream had. What is damaged is reported, and left alone."""
    if stream.directory is None:
        return
    recovered, problems = load_all(stream.directory)
    for each in recovered:
        meta = each.meta
        if each.problem:
            problems.append(each.problem)
        consumer = Consumer(stream, meta.name, meta.config, meta.created, each.state)
        stream.consumers[meta.name] = consumer
        consumer.start()
    for problem in problems:
        stream.jetstream.log.warn(f"Stream {stream.name!r}: {problem}")

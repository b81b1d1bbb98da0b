"""Which streams and consumers are on the page, and what is left out so that it stays of a limited size.

The oldest ones stay: whatever is added, a series that was scraped is scraped again.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

import msgspec

from headrace.monitor.metrics.stream_tables import Landed, Origin

if TYPE_CHECKING:
    from headrace.monitor.landings import Landings
    from headrace.streams.consumers.consumer import Consumer
    from headrace.streams.jetstream import JetStream
    from headrace.streams.stream import Stream

MAX_STREAMS = 1000
MAX_CONSUMERS = 5000

Thing = TypeVar("Thing")


class Limits(msgspec.Struct, frozen=True):
    streams: int = MAX_STREAMS
    """And as many origins."""
    consumers: int = MAX_CONSUMERS


class Selection:
    """Of a moment: what is deleted while the page is written is left out then."""

    def __init__(self, jetstream: JetStream, limits: Limits) -> None:
        everything = [
            stream
            for account in jetstream.accounts.values()
            if account.is_enabled
            for stream in account.streams.values()
        ]
        self.stream_count = len(everything)
        self.consumer_count = sum(len(stream.consumers) for stream in everything)
        self.streams: list[Stream] = _oldest(everything, len(everything), limits.streams)
        shown = sum(len(stream.consumers) for stream in self.streams)
        self.consumers: list[Consumer] = _oldest(
            chain.from_iterable(stream.consumers.values() for stream in self.streams), shown, limits.consumers
        )

    @property
    def streams_cut(self) -> int:
        return self.stream_count - len(self.streams)

    @property
    def consumers_cut(self) -> int:
        return self.consumer_count - len(self.consumers)


def _oldest(things: Iterable[Thing], count: int, limit: int) -> list[Thing]:
    return list(things) if count <= limit else nsmallest(limit, things, key=attrgetter("created"))


def has_stream(stream: Stream) -> bool:
    """Whether it has not been deleted."""
    return stream.account.streams.get(stream.name) is stream


def has_consumer(consumer: Consumer) -> bool:
    return not consumer.is_closed


def origins_of(stream: Stream) -> Iterable[Origin]:
    """One for each name: filters of the same stream count together."""
    kind = "mirror" if stream.config.mirror else "source"
    lags: dict[str, int | None] = {}
    for follower in stream.ingest.origins():
        before, lag = lags.get(follower.origin, 0), follower.lag
        lags[follower.origin] = None if before is None or lag is None else before + lag
    return (Origin(stream, kind, name, lag) for name, lag in lags.items())


def landed_tables(jetstream: JetStream, landings: Landings) -> list[Landed]:
    """The newest report on each table: that of a query which was replaced by another one does not count."""
    newest: dict[tuple[str, str, str], Landed] = {}
    for account, report, age in landings.all_with_age():
        key = account, report.stream, report.table
        if key not in newest or age < newest[key].age:
            newest[key] = Landed(account, report, age, _lag(jetstream, account, report.stream, report.seq))
    return list(newest.values())


def _lag(jetstream: JetStream, account: str, name: str, seq: int) -> int | None:
    found = jetstream.accounts.get(account)
    stream = found.streams.get(name) if found else None
    return max(stream.log.last_seq - seq, 0) if stream else None

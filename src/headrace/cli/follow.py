"""Watches streaming queries from the terminal: progress while they run, and a clean end at Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.cli.output import say

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.spark.progress import Progress

REPORT_SECONDS = 2.0
POLL_SECONDS = 0.2


def follow(queries: Mapping[str, StreamingQuery]) -> dict[str, Progress]:
    """Report until all queries have ended, one has failed, or Ctrl-C; then none of them runs any more.

    Returns how far each of them came. Raises what ended the one that failed.
    """
    from headrace.spark.progress import Meter

    meters = {name: Meter(query) for name, query in queries.items()}
    reports = Reports(many=len(queries) > 1)
    with _interrupts() as interrupted:
        try:
            while not interrupted.wait(POLL_SECONDS):
                reports.show({name: meter.read() for name, meter in meters.items()})
                failed = [query for query in queries.values() if not query.isActive and query.exception()]
                if failed or not any(query.isActive for query in queries.values()):
                    break
        finally:
            for query in queries.values():
                query.stop()
        if not interrupted.is_set():
            for query in queries.values():
                query.awaitTermination()  # raises what it failed with
    return {name: meter.read() for name, meter in meters.items()}


class Reports:
    """Says how queries are getting on: not more often than every two seconds, and only what is new."""

    def __init__(self, *, many: bool) -> None:
        self._many = many
        self._shown: dict[str, Progress] = {}
        self._at = time.monotonic()

    def show(self, progress: Mapping[str, Progress]) -> None:
        if time.monotonic() - self._at < REPORT_SECONDS:
            return
        self._at = time.monotonic()
        for name, now in progress.items():
            if now != self._shown.get(name) and now.batch >= 0:
                self._shown[name] = now
                say(f"{name}: {now}" if self._many else str(now))


@contextlib.contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets, instead of raising in the middle of a question to Java."""
    event = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: event.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

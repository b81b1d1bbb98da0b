"""Watches streaming queries from the terminal: progress while they run, and a clean end at Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.cli.output import say

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.spark.progress import Meter, Progress

REPORT_SECONDS = 2.0
POLL_SECONDS = 0.2
TOO_BUSY = "a Python process took too long to start on this busy machine; restarting the query"


def follow(
    started: Mapping[str, StreamingQuery], start_again: Callable[[str], StreamingQuery]
) -> dict[str, Progress]:
    """Report until all queries have ended, one has failed, or Ctrl-C; then stop the others.

    A query that failed only because the machine was busy (see `spark/start.py`) is restarted. Returns the
    progress of each. Raises the error of a failed one.
    """
    from headrace.spark.progress import Meter

    queries = dict(started)
    meters = {name: Meter(query) for name, query in queries.items()}
    reports = Reports(many=len(queries) > 1)
    restarts = Restarts()
    with _interrupts() as interrupted:
        try:
            while not interrupted.wait(POLL_SECONDS):
                reports.show({name: meter.read() for name, meter in meters.items()})
                over = [name for name, query in queries.items() if not query.isActive]
                again = [name for name in over if restarts.wanted(meters[name])]
                failed = [name for name in over if name not in again and queries[name].exception()]
                if failed or len(over) - len(again) == len(queries):
                    break
                for name in again:
                    say(f"{name}: {TOO_BUSY}")
                    queries[name] = meters[name].query = start_again(name)
        finally:
            for query in queries.values():
                query.stop()
        if not interrupted.is_set():
            for query in queries.values():
                query.awaitTermination()  # raises what it failed with
    return {name: meter.read() for name, meter in meters.items()}


class Reports:
    """Prints the progress of queries: at most every two seconds, and only what changed."""

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


class Restarts:
    """Which queries to restart: those that came too late, unless that happens repeatedly."""

    def __init__(self) -> None:
        self._fruitless: dict[tuple[Meter, int], int] = {}

    def wanted(self, meter: Meter) -> bool:
        from headrace.spark.start import ATTEMPTS, came_too_late

        if not came_too_late(meter.query):
            return False
        at = meter, meter.progress.batch
        self._fruitless[at] = self._fruitless.get(at, 0) + 1
        return self._fruitless[at] < ATTEMPTS


@contextlib.contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets, instead of raising in the middle of a call to Java."""
    event = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: event.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Watches streaming queries from the terminal: progress, restarts, metrics, and a clean end at Ctrl-C."""

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

    from headrace.spark.metrics import Metrics
    from headrace.spark.progress import Meter, Progress, Tally

REPORT_SECONDS = 2.0
POLL_SECONDS = 0.2

Start = Callable[[str], "StreamingQuery"]


def follow(
    started: Mapping[str, StreamingQuery],
    start_again: Start,
    *,
    tallies: Mapping[str, Tally] | None = None,
    metrics: Metrics | None = None,
) -> dict[str, Progress]:
    """Report until all queries have ended, one has failed for good, or Ctrl-C; then stop the others.

    A query whose failure may pass (see `spark/recovery.py`) is restarted after a pause, while the others
    continue. Returns the progress of each. Raises the error of one that failed for good.
    """
    from headrace.spark.progress import Meter

    counted = tallies or {}
    watches = {name: Watch(name, Meter(query, counted.get(name))) for name, query in started.items()}
    meters = {name: watch.meter for name, watch in watches.items()}
    reports = Reports(many=len(watches) > 1)
    if metrics is not None:
        metrics.show(meters)
    with _interrupts() as interrupted:
        try:
            while not interrupted.wait(POLL_SECONDS):
                reports.show({name: meter.read() for name, meter in meters.items()})
                over = [watch.look(start_again) for watch in watches.values()]
                if all(over):
                    break
        finally:
            for watch in watches.values():
                watch.meter.query.stop()
    return {name: meter.read() for name, meter in meters.items()}


class Watch:
    """One query: whether it has ended, and when to restart it."""

    def __init__(self, name: str, meter: Meter) -> None:
        from headrace.spark.recovery import Attempts

        self.meter = meter
        self._name = name
        self._attempts = Attempts()
        self._restart_at: float | None = None

    def look(self, start_again: Start) -> bool:
        """Whether it has ended; restarts it when it is time. Raises the error of one that failed for good."""
        if self._restart_at is not None:
            if time.monotonic() >= self._restart_at:
                self._restart(start_again)
            return False
        if self.meter.query.isActive:
            return False
        failure = self.meter.query.exception()
        if failure is not None:
            self._failed(failure)
        return failure is None

    def _restart(self, start_again: Start) -> None:
        self._restart_at = None
        try:
            self.meter.restarted(start_again(self._name))
        except Exception as error:  # what cannot be started may fail in as many ways as what runs
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        from headrace.spark.failure import reason_of
        from headrace.spark.recovery import may_pass

        self.meter.failed()
        ran = time.monotonic() - self.meter.running_since
        pause = self._attempts.pause_after(self.meter.read().batch, ran) if may_pass(error) else None
        if pause is None:
            raise error
        self._restart_at = time.monotonic() + pause
        which = f"restart {self._attempts.failures} of {self._attempts.limit} in {pause:g} s"
        say(f"{self._name}: {reason_of(error).rstrip('.')}; {which}")


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

"""Progress of a streaming query: rows, rate, lag and time of a batch, from what Spark reports."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.spark.failure import DataSourceError
from headrace.spark.reading.offsets import from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

KEPT_BATCHES = 100
"""As many as Spark keeps reports of."""


@dataclass
class Tally:
    """What a sink wrote by its own count; Spark reports only what the query has read."""

    rows: int = 0
    dead_letters: int = 0
    deletions: int = 0
    read: int | None = None
    """None if the sink does not count what it reads: then Spark's figure is used.

    Spark counts a row each time it is scanned, and finding dead letters takes a second scan of their batch.
    """
    _read_in: dict[int, int] = field(default_factory=dict, repr=False)

    def add(
        self,
        rows: int,
        dead_letters: int = 0,
        *,
        deletions: int = 0,
        batch: int = -1,
        read: int | None = None,
    ) -> None:
        """Called after a batch is complete, so that a repeated one is counted once."""
        self.rows += rows
        self.dead_letters += dead_letters
        self.deletions += deletions
        if read is not None:
            self.read = (self.read or 0) + read
            self._read_in[batch] = read
            self._read_in.pop(batch - KEPT_BATCHES, None)

    def read_in(self, batch: int) -> int | None:
        """The rows read in one of the last batches; None if they were not counted."""
        return self._read_in.get(batch)


@dataclass(frozen=True)
class Progress:
    """The progress of one query since it was started."""

    batch: int = -1
    rows_read: int = 0
    rows: int | None = None
    """Written; None if nobody counts them."""
    dead_letters: int = 0
    deletions: int = 0
    """With a key: how often the latest message of a key in its batch deleted it. They are not in `rows`."""
    rows_per_second: float = 0.0
    """Read in the last batch that had rows."""
    lag: int | None = None
    """How many messages the query is behind its streams; None until it has asked for their ends.

    A restarted query repeats the batch that was interrupted without asking.
    """
    batch_seconds: float = 0.0

    def __str__(self) -> str:
        rate = f", {self.rows_per_second:,.0f} rows/s" if self.rows_read else ""
        return (
            f"{self._counts('written')}{rate}{self._behind}, batch {self.batch} in {self.batch_seconds:.1f} s"
        )

    def summary(self, done: str, *, seconds: float | None = None) -> str:
        """`3 rows landed in 2.0 s, 0 behind`."""
        took = "" if seconds is None else f" in {seconds:.1f} s"
        return f"{self._counts(done)}{took}{self._behind}"

    @property
    def _behind(self) -> str:
        return "" if self.lag is None else f", {self.lag:,} behind"

    def _counts(self, done: str) -> str:
        """`3 rows written`; and what was read, if that differs."""
        if self.rows is None:
            return f"{_rows(self.rows_read)} read"
        text = f"{_rows(self.rows)} {done}"
        if self.rows + self.deletions + self.dead_letters != self.rows_read:
            text += f" of {self.rows_read:,} read"
        others = {"deletion": self.deletions, "dead letter": self.dead_letters}
        return text + "".join(f", {_count(count, noun)}" for noun, count in others.items() if count)


def _rows(count: int) -> str:
    return _count(count, "row")


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class Meter:
    """Adds up the progress of a query, across restarts, too. Ask often: Spark forgets after 100 batches.

    `tally` is the sink's, if it counts.
    """

    def __init__(self, query: StreamingQuery, tally: Tally | None = None) -> None:
        self.query = query
        self.progress = Progress()
        self.restarts = 0
        self.last_error_at = 0.0
        """In seconds since 1970; 0 if it has not failed."""
        self.running_since = time.monotonic()
        self._tally = tally

    def restarted(self, query: StreamingQuery) -> None:
        self.query = query
        self.restarts += 1
        self.running_since = time.monotonic()

    def failed(self) -> None:
        self.last_error_at = time.time()

    def read(self) -> Progress:
        """The progress now."""
        for report in self.query.recentProgress:
            if report["batchId"] > self.progress.batch:
                self.progress = _add(self.progress, json.loads(report.json), self._tally)
        return self.progress


def _add(before: Progress, report: Mapping[str, Any], tally: Tally | None) -> Progress:
    counted = tally.read_in(report["batchId"]) if tally else None
    rows = int(report.get("numInputRows") or 0) if counted is None else counted
    seconds = report.get("durationMs", {}).get("triggerExecution", 0) / 1000
    return Progress(
        batch=report["batchId"],
        rows_read=before.rows_read + rows if tally is None or tally.read is None else tally.read,
        rows=_written(before, report) if tally is None else tally.rows,
        dead_letters=tally.dead_letters if tally else 0,
        deletions=tally.deletions if tally else 0,
        rows_per_second=rows / seconds if rows and seconds else before.rows_per_second,
        lag=_lag(report),
        batch_seconds=seconds if rows else before.batch_seconds,
    )


def _written(before: Progress, report: Mapping[str, Any]) -> int | None:
    """Spark counts what its own sinks write; for others it reports -1, or nothing."""
    count = report.get("sink", {}).get("numOutputRows")
    if count is None or count < 0:
        return before.rows
    return int(count) + (before.rows or 0)


def _lag(report: Mapping[str, Any]) -> int | None:
    """How far the end of the batch is behind the ends of its streams."""
    lags = [_lag_of(source) for source in report.get("sources", []) if _is_ours(source)]
    return None if None in lags else sum(lag for lag in lags if lag is not None)


def _lag_of(source: Mapping[str, Any]) -> int | None:
    end = from_json(_as_mapping(source["endOffset"]))
    try:
        latest = from_json(_as_mapping(source.get("latestOffset")))
    except (TypeError, ValueError, DataSourceError):
        return None  # it was not asked
    return sum(
        max(0, position.next - end[stream].next) for stream, position in latest.items() if stream in end
    )


def _is_ours(source: Mapping[str, Any]) -> bool:
    try:
        from_json(_as_mapping(source["endOffset"]))
    except (KeyError, TypeError, ValueError, DataSourceError):
        return False
    return True


def _as_mapping(value: Any) -> Mapping[str, Any]:
    parsed = json.loads(value) if isinstance(value, str) else value
    if not isinstance(parsed, Mapping):
        raise TypeError
    return parsed

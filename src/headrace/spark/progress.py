"""Progress of a streaming query: rows, rate, lag and time of a batch, from what Spark reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.spark.failure import DataSourceError
from headrace.spark.offsets import from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class Progress:
    """Of one query, since it was started."""

    batch: int = -1
    rows: int = 0
    rows_per_second: float = 0.0
    """Of the last batch that had rows."""
    lag: int = 0
    """How many messages the query is behind its streams."""
    batch_seconds: float = 0.0

    def __str__(self) -> str:
        rate = f"{self.rows_per_second:,.0f} rows/s, " if self.rows else ""
        return (
            f"{self.rows:,} rows, {rate}{self.lag:,} behind, batch {self.batch} in {self.batch_seconds:.1f} s"
        )


class Meter:
    """Adds up the progress of a query. Ask it more often than Spark forgets (100 batches)."""

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query
        self.progress = Progress()

    def read(self) -> Progress:
        """The progress now."""
        for report in self.query.recentProgress:
            batch = report["batchId"]
            if batch > self.progress.batch:
                self.progress = _add(self.progress, json.loads(report.json))
        return self.progress


def _add(before: Progress, report: Mapping[str, Any]) -> Progress:
    rows = int(report.get("numInputRows") or 0)
    seconds = report.get("durationMs", {}).get("triggerExecution", 0) / 1000
    lags = [_lag(source) for source in report.get("sources", [])]
    return Progress(
        batch=report["batchId"],
        rows=before.rows + rows,
        rows_per_second=rows / seconds if rows and seconds else before.rows_per_second,
        lag=sum(lags),
        batch_seconds=seconds if rows else before.batch_seconds,
    )


def _lag(source: Mapping[str, Any]) -> int:
    """How far the end of the batch is behind the ends of its streams."""
    try:
        end, latest = (
            from_json(_as_mapping(source["endOffset"])),
            from_json(_as_mapping(source["latestOffset"])),
        )
    except (KeyError, TypeError, ValueError, DataSourceError):
        return 0  # another source
    return sum(
        max(0, position.next - end[stream].next) for stream, position in latest.items() if stream in end
    )


def _as_mapping(value: Any) -> Mapping[str, Any]:
    parsed = json.loads(value) if isinstance(value, str) else value
    if not isinstance(parsed, Mapping):
        raise TypeError
    return parsed

"""Reports the progress of tables to the server: the lag of a landing can then be seen there.

While a command lands streams, a background thread publishes a small JSON message for each table and stream
to `$HEADRACE.LANDING.<stream>`, over a connection of its own: after each batch, and every EVERY_SECONDS.
Headrace shows them in its metrics; any other server drops them. Reports are best effort: a query never waits
for one, and never fails because of one. If the server is away, the next report tries again; if it does not
permit reports, they stop.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from headrace.client import Client
from headrace.client.errors import ConnectionFailed
from headrace.errors import HeadraceError
from headrace.go_formats import format_time
from headrace.spark.connection import connect
from headrace.spark.notice import warn
from headrace.spark.options import write_options
from headrace.spark.progress import Tally
from headrace.spark.table.interface import Commit
from headrace.spark.table.query_progress import QueryProgress

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SUBJECT_PREFIX = "$HEADRACE.LANDING."
EVERY_SECONDS = 10.0
SHORTEST_PAUSE_SECONDS = 0.5
"""Batches may follow each other faster: one report covers them."""
SEND_SECONDS = 5.0
CLOSE_SECONDS = 3.0

SPARK_ERRORS = (PySparkException, Py4JError, HeadraceError, OSError)

State = Literal["running", "stopped", "failed"]
_CREDENTIALS = re.compile(r"//[^/@]*@")


class LandingReport:
    """How far one query is. Updated by its table's writer, in a different thread from the one that reports.

    Rows, deletions and dead letters come from `tally`, which outlives a restart of the query.
    """

    def __init__(
        self,
        *,
        table: str,
        format: str,  # noqa: A002
        streams: tuple[str, ...],
        tally: Tally,
        progress: QueryProgress,
        wake: threading.Event,
    ) -> None:
        self._table = _CREDENTIALS.sub("//", table)
        self._format = format
        self._tally = tally
        self._progress = progress
        self._wake = wake
        self._batch = -1
        self._ends = dict.fromkeys(streams, 1)
        self._rows_per_second = 0.0
        self._query: StreamingQuery | None = None

    def runs(self, query: StreamingQuery) -> None:
        """The query has started."""
        self._query = query
        self._wake.set()

    def landed(self, commit: Commit, seconds: float) -> None:
        """A batch is in the table; it took this long."""
        if commit.rows:
            self._rows_per_second = commit.rows / max(seconds, 0.001)
        self._ends = {stream: position.next for stream, position in commit.positions.items()}
        self._batch = commit.batch
        self._wake.set()

    def describe(self) -> list[dict[str, Any]]:
        """One report for each stream; none before the query has started. In the reporting thread."""
        query = self._query
        if query is None:
            return []
        if self._batch < 0:
            self._resume()
        report = {
            "id": self._progress.query,
            "table": self._table,
            "format": self._format,
            "state": _state(query),
            "batch": self._batch,
            "rows": self._tally.rows,
            "rows_per_second": round(self._rows_per_second, 1),
            "deletions": self._tally.deletions,
            "dead_letters": self._tally.dead_letters,
            "every": EVERY_SECONDS,
            "time": format_time(time.time_ns()),
        }
        return [{**report, "stream": stream, "seq": end - 1} for stream, end in self._ends.items()]

    def _resume(self) -> None:
        """Before its first batch, a query is where its checkpoint says."""
        batch = self._progress.last_recorded()
        if batch >= 0:
            ends = self._progress.span(batch).ends
            if self._batch < 0:  # none has landed in the meantime
                self._ends = {stream: position.next for stream, position in ends.items()}


def _state(query: StreamingQuery) -> State:
    if query.isActive:
        return "running"
    return "stopped" if query.exception() is None else "failed"


class LandingReporter:
    """Reports on all queries of a command while it is entered; at the end, on how each of them ended."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._landings: dict[str, LandingReport] = {}
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._client: Client | None = None
        self._thread = threading.Thread(target=self._run, name="landing reports", daemon=True)

    def landing(
        self,
        name: str,
        *,
        table: str,
        format: str,  # noqa: A002
        streams: tuple[str, ...],
        tally: Tally,
        progress: QueryProgress,
    ) -> LandingReport:
        """Register a query that is about to start, or restart, by its name."""
        if name not in self._landings:
            self._landings[name] = LandingReport(
                table=table, format=format, streams=streams, tally=tally, progress=progress, wake=self._wake
            )
        return self._landings[name]

    def runs(self, name: str, query: StreamingQuery) -> None:
        """It has started. A query that lands nothing is not reported on."""
        if name in self._landings:
            self._landings[name].runs(query)

    def __enter__(self) -> LandingReporter:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._wake.set()
        self._thread.join(CLOSE_SECONDS)

    # -- in the thread

    def _run(self) -> None:
        try:
            is_last = False
            while not is_last:
                self._wake.wait(EVERY_SECONDS)
                self._wake.clear()
                is_last = self._closing.is_set()
                if not self._report():
                    return
                self._closing.wait(SHORTEST_PAUSE_SECONDS)
        except Exception as error:  # the edge of the thread: whatever it is, no query may fail because of it
            if not self._closing.is_set():  # otherwise Spark may be stopping
                warn(f"cannot report the progress of tables to the server: {error!r}")
        finally:
            if self._client is not None:
                self._client.close()

    def _report(self) -> bool:
        """False if the server does not want any reports."""
        reports: list[dict[str, Any]] = []
        for landing in list(self._landings.values()):
            with contextlib.suppress(*SPARK_ERRORS):  # its checkpoint cannot be read, or Spark is stopping
                reports += landing.describe()
        try:
            self._send(reports)
        except ConnectionFailed as error:
            return "violation" not in str(error).lower()
        except HeadraceError:
            pass  # it is away, or slow: the next report is a newer one anyway
        return True

    def _send(self, reports: list[dict[str, Any]]) -> None:
        if not reports:
            return
        if self._client is None:
            self._client = connect(write_options(self._options).connection)
        with self._client.connection() as connection:
            for report in reports:
                connection.publish(SUBJECT_PREFIX + report["stream"], json.dumps(report).encode())
            connection.flush(SEND_SECONDS)

"""What is told about a query: in a line, and to Prometheus."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from headrace.errors import UsageError
from headrace.spark.metrics import serve_metrics
from headrace.spark.progress import Meter, Progress, Tally


class Report(dict[str, Any]):
    """As Spark gives it: a mapping with its text."""

    @property
    def json(self) -> str:
        return json.dumps(self)


class Query:
    """What a meter asks a query for."""

    def __init__(self, *reports: Report) -> None:
        self.recentProgress = list(reports)


def position(next_: int) -> dict[str, Any]:
    return {"ORDERS": {"base": 1, "next": next_, "parts": 1, "created": 7}}


def report(
    batch: int, rows: int, *, end: int = 1, latest: int | None = None, written: int = -1, seconds: int = 2
) -> Report:
    source = {"endOffset": position(end), "latestOffset": None if latest is None else position(latest)}
    return Report(
        batchId=batch,
        numInputRows=rows,
        durationMs={"triggerExecution": seconds * 1000},
        sources=[source],
        sink={"numOutputRows": written},
    )


def progress_of(*reports: Report, tally: Tally | None = None) -> Progress:
    return Meter(Query(*reports), tally).read()  # type: ignore[arg-type]


def test_the_lag_is_the_distance_to_the_end_of_the_streams() -> None:
    assert progress_of(report(0, 100, end=101, latest=161_001)).lag == 160_900
    assert str(progress_of(report(0, 100, end=101, latest=101))) == (
        "100 rows read, 50 rows/s, 0 behind, batch 0 in 2.0 s"
    )


def test_the_lag_of_a_repeated_batch_is_not_known() -> None:
    """Spark does not ask where the streams end when it repeats a batch after a restart."""
    repeated = progress_of(report(7, 100, end=101))
    assert repeated.lag is None
    assert "behind" not in str(repeated)
    assert "behind" not in repeated.summary("landed")
    assert progress_of(report(7, 100, end=101), report(8, 0, end=101, latest=201)).lag == 100


def test_sources_of_other_kinds_have_no_lag() -> None:
    found = report(0, 5, end=6, latest=8)
    found["sources"].append({"endOffset": 17, "latestOffset": None})
    assert progress_of(found).lag == 2


def test_rows_written_are_told_where_they_are_counted() -> None:
    found = progress_of(
        report(0, 10, end=11, latest=11, written=3), report(1, 5, end=16, latest=16, written=0)
    )
    assert (found.rows_read, found.rows) == (15, 3)
    assert str(found) == "3 rows written of 15 read, 2 rows/s, 0 behind, batch 1 in 2.0 s"
    tally = Tally()
    tally.add(8, dead_letters=2)
    found = progress_of(report(0, 10, end=11, latest=11), tally=tally)
    assert found.summary("landed", seconds=1.5) == "8 rows landed, 2 dead letters in 1.5 s, 0 behind"


def test_rows_that_spark_has_scanned_twice_are_counted_once() -> None:
    tally = Tally()
    tally.add(8, dead_letters=1, batch=0, read=9)
    meter = Meter(Query(report(0, 18, end=10, latest=12)), tally)  # type: ignore[arg-type]
    assert str(meter.read()) == "8 rows written, 1 dead letter, 4 rows/s, 2 behind, batch 0 in 2.0 s"
    tally.add(2, batch=1, read=2)
    tally.add(1, batch=2, read=1)  # this one is complete, but Spark has not reported it
    meter.query = Query(report(1, 2, end=12, latest=13))  # type: ignore[assignment]
    found = meter.read()
    assert (found.rows, found.rows_read, found.rows_per_second) == (11, 12, 1.0)


def test_deletions_are_not_rows() -> None:
    tally = Tally()
    tally.add(2, dead_letters=1, deletions=3, batch=0, read=9)
    found = progress_of(report(0, 18, end=10, latest=10), tally=tally)
    assert found.summary("landed") == "2 rows landed of 9 read, 3 deletions, 1 dead letter, 0 behind"


def test_what_was_read_is_known_of_the_last_batches() -> None:
    tally = Tally()
    for batch in range(500):
        tally.add(1, batch=batch, read=1)
    assert (tally.read, tally.read_in(499), tally.read_in(400), tally.read_in(399)) == (500, 1, 1, None)


def test_rows_are_added_up_across_restarts() -> None:
    meter = Meter(Query(report(0, 10), report(1, 10)))  # type: ignore[arg-type]
    meter.read()
    meter.failed()
    meter.restarted(Query(report(1, 0), report(2, 5)))  # type: ignore[arg-type]
    assert meter.read().rows_read == 25
    assert meter.restarts == 1
    assert meter.last_error_at > 0


def samples(url: str) -> dict[str, float]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name: float(value) for name, value in pairs if "_created" not in name}


def test_figures_of_each_query_are_served_to_prometheus() -> None:
    tally = Tally()
    meters = {
        "raw": Meter(Query(report(3, 10, end=11, latest=51)), tally),  # type: ignore[arg-type]
        "new": Meter(Query()),  # type: ignore[arg-type]
    }
    tally.add(9, dead_letters=1, deletions=2, batch=3, read=12)
    meters["raw"].read()
    meters["raw"].failed()
    with serve_metrics("127.0.0.1", 0) as (metrics, url):
        assert samples(url) == {}
        metrics.show(meters)
        found = samples(url)
    assert (
        found.pop('headrace_query_last_error_timestamp_seconds{query="raw"}') == meters["raw"].last_error_at
    )
    assert found == {
        'headrace_query_read_rows_total{query="raw"}': 12,
        'headrace_query_written_rows_total{query="raw"}': 9,
        'headrace_query_dead_letters_total{query="raw"}': 1,
        'headrace_query_deletions_total{query="raw"}': 2,
        'headrace_query_restarts_total{query="raw"}': 0,
        'headrace_query_read_rows_per_second{query="raw"}': 6,
        'headrace_query_lag_messages{query="raw"}': 40,
        'headrace_query_batch_duration_seconds{query="raw"}': 2,
        'headrace_query_last_batch{query="raw"}': 3,
        'headrace_query_read_rows_total{query="new"}': 0,
        'headrace_query_dead_letters_total{query="new"}': 0,
        'headrace_query_deletions_total{query="new"}': 0,
        'headrace_query_restarts_total{query="new"}': 0,
        'headrace_query_read_rows_per_second{query="new"}': 0,
        'headrace_query_batch_duration_seconds{query="new"}': 0,
    }


def test_a_port_in_use_is_one_line() -> None:
    with serve_metrics("127.0.0.1", 0) as (_, url):
        port = int(url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(UsageError, match=f"127.0.0.1:{port}") as raised, serve_metrics("127.0.0.1", port):
            pass
    assert "--metrics-port" in raised.value.hint

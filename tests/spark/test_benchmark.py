"""The benchmark of Spark, small: that it measures what it says, not how fast that is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.cloudpickle import register_pickle_by_value

from benchmarks.spark import pipeline, sources, stages, tables, work
from benchmarks.spark.__main__ import main
from benchmarks.spark.family import family_cpu_seconds
from benchmarks.spark.result import LINES, PARQUET, Result, as_text, verdicts
from examples.demo.job import Outcome
from examples.demo.orders import Plan
from examples.demo.watch import Batch
from tests.spark.conftest import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SERVERS = ["nats-server", "headrace"]


def results(read: float, nats_py: float, written: float, others: float) -> Result:
    result = Result(others=[others])
    rates = {
        "read": read,
        "read-store": read,
        "nats-py": nats_py,
        "write": written,
        "land-typed": 0.3 * written,
    }
    for line in LINES:
        for place in [*SERVERS[line.with_store :], *[PARQUET] * line.with_parquet]:
            for factor in (1.0, 0.5, 2.0):
                result.add(line, place, factor * rates.get(line.key, 1000.0))
    return result


def test_the_table_has_medians_with_their_spread_compared_with_parquet() -> None:
    lines = as_text(results(1e6, 1e4, 3e5, 0.0), SERVERS).splitlines()
    assert len(lines) == 2 + len(LINES)
    assert "1.00 M/s (0.50 to 2.00)" in lines[2]
    assert lines[0].endswith(PARQUET)
    compared = [line for line in lines if line.endswith("1.00 k/s (0.50 to 2.00)")]
    assert len(compared) == sum(line.with_parquet for line in LINES)


def test_what_is_aimed_at_is_judged() -> None:
    fine = verdicts(results(2e6, 4e5, 1e6, 0.05), SERVERS)
    assert len(fine) == 6
    assert all(line.endswith(": reached") for line in fine)
    short = verdicts(results(1.9e6, 4e5, 9.9e5, 0.2), SERVERS)
    assert [line.endswith("NOT reached") for line in short[:6]] == [True, True, True, True, True, False]
    assert "not a quiet machine" in short[6]
    assert verdicts(results(1.0, 1.0, 1.0, 0.0), ["nats-server"]) == []


def test_some_rows_alone_are_judged_by_what_was_measured() -> None:
    whole = results(1e6, 2e5, 3e5, 0.0)
    some = Result({key: whole.rates[key] for key in ("land-parquet", "land-delta")}, [0.0])
    assert len(as_text(some, SERVERS).splitlines()) == 4
    (told,) = verdicts(some, SERVERS)
    assert told.endswith("100% of plain Parquet, at least 90% is aimed at: reached")
    assert verdicts(Result(commits=[0.1, 0.2]), SERVERS)[0].endswith(
        "longest 0.200 s, at most 0.3 is aimed at: reached"
    )


def test_latency_and_restart_of_a_pipeline_are_judged() -> None:
    """Orders that waited for the restart do not count for the latency."""
    plan = Plan(seed=7, rate=1, count=4, start_ms=100_000)
    batches = [Batch(2, 3, 101.9), Batch(2, 5, 113.5)]
    outcome = Outcome(plan, batches=batches, killed=102.0, back=113.5)
    assert [line.rpartition(": ")[2] for line in pipeline.verdicts(outcome, 1)] == ["reached", "reached"]
    slow = Outcome(plan, batches=[Batch(4, 5, 110.0)], killed=120.0, back=140.0)
    assert all(line.endswith(": NOT reached") for line in pipeline.verdicts(slow, 1))
    assert "20.0 s" in pipeline.verdicts(slow, 1)[1]


def test_stages_are_measured_by_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert stages.main(["--messages", "20000", "--rounds", "1"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "20,000 messages of 128 B, lowest of 1 rounds: CPU per message in µs"
    assert [line[:28].strip() for line in lines] == ["fetch", "fetch from files", "publish with ids"]
    assert all(line.endswith("M/s") for line in lines)
    assert "server" in lines[2]
    assert "server" not in lines[1]


def test_processes_that_come_from_us_count(spark: SparkSession) -> None:
    before = family_cpu_seconds()
    for _ in range(100):  # a worker that ends takes along what it has used
        spark.range(1_000_000).selectExpr("sum(id)").collect()
        if family_cpu_seconds() > before:  # Java's, in which Spark runs
            return
    raise AssertionError("Spark uses no processor")


@pytest.mark.parametrize(
    "broker", [pytest.param("nats-server", marks=pytest.mark.long), "headrace"], indirect=True
)
@pytest.mark.slow
def test_every_line_is_measured(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    register_pickle_by_value(sources)
    spark.dataSource.register(sources.TimedSource)
    spark.dataSource.register(sources.NatsPySource)
    place = work.Place(spark, tmp_path, 500, 100, broker.url, broker.store)
    try:
        work.fill(place)
        work.fill(place, tables.JSON_STREAM, tables.json_payload)
        work.fill_table(place)
        assert place.parquet().count() == 500
        for line in LINES:
            assert (line.with_store and not place.store) or line.run(place) > 0, line.name
        assert len(tables.commit_seconds(place, 1000)) == tables.COMMITS
    finally:
        broker.delete_stream(work.STREAM)
        broker.delete_stream(tables.JSON_STREAM)


@pytest.mark.parametrize("arguments", [["--rounds=0"], ["--messages=10"], ["--nothing"], ["--rows=nothing"]])
def test_wrong_options_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)


def test_a_server_that_is_not_there_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--servers=no-such-server"]) == 1
    assert capsys.readouterr().err.count("\n") == 1

"""The report's figures, for runs with known answers, and the runs that it refuses."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import numpy
import pytest
from pyarrow import parquet

from headrace.bench.failure import BenchError
from headrace.bench.report.content import Content
from headrace.bench.report.samples import find_runs
from headrace.bench.report.tables import comparison
from headrace.bench.report.write import compute_report, write_report
from tests.bench.report.runs import LATENCIES, STEPS, TOTALS, VARIANTS, find_run, find_summary
from tests.bench.saved_runs import client, save_run, upper_bound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # Spark on a busy machine

PERCENTILES = {"p50": 50, "p90": 90, "p99": 99, "p99_9": 99.9, "p99_99": 99.99}


@pytest.mark.parametrize("server", TOTALS)
def test_median_spread_and_deviation_over_runs(content: Content, server: str) -> None:
    totals = TOTALS[server]
    summary = find_summary(content, "pubsub", server)
    assert summary.runs == 3
    assert (summary.median, summary.lowest, summary.highest) == (sorted(totals)[1], min(totals), max(totals))
    assert summary.spread == (max(totals) - min(totals)) / sorted(totals)[1]
    assert summary.deviation == pytest.approx(statistics.stdev(totals), rel=1e-12)
    assert summary.newest == totals[2]


@pytest.mark.parametrize("server", TOTALS)
def test_change_is_from_one_run_of_a_server_to_its_next(content: Content, server: str) -> None:
    first, second, third = TOTALS[server]
    changes = [find_run(content, f"fan-{server}-{number}").change for number in range(3)]
    assert changes == [None, second / first - 1, third / second - 1]
    assert find_summary(content, "pubsub", server).change == changes[2]


def test_rates_of_a_run_are_from_the_common_start_to_the_last_client(content: Content) -> None:
    run = find_run(content, "fan-headrace-0")
    assert run.pub_rate == 100_000 / 0.1
    assert run.sub_rate == 10 * 100_000 / 0.2
    rates = [1_000_000.0] * 8 + [625_000.0, 500_000.0]
    assert (run.sub_min, run.sub_avg, run.sub_max) == (500_000, statistics.mean(rates), 1_000_000)
    assert run.sub_stddev == pytest.approx(statistics.pstdev(rates), rel=1e-12)


def test_the_versions_of_a_server_are_one_history(content: Content) -> None:
    assert find_summary(content, "pubsub").versions == "0.1.0, 0.2.0, 0.3.0"


def test_percentiles_are_numpys_within_the_histograms_error(content: Content) -> None:
    summary = find_summary(content, "latency", rate_wanted=15_000.0)
    values = [value for part in LATENCIES for value in part]
    for name, percent in PERCENTILES.items():
        exact = numpy.percentile(values, percent, method="inverted_cdf")
        assert getattr(summary, name) == pytest.approx(exact, rel=0.01), name
    assert summary.max_us == max(values)
    assert summary.median == summary.p99
    assert find_run(content, "random").samples == len(values)


def test_percentiles_are_exact_at_the_edge_of_a_rank(content: Content) -> None:
    """Of 10,000 values exactly 5,000 are at most 1 us, 9,000 at most 2 us and so on."""
    summary = find_summary(content, "latency", rate_wanted=5_000.0)
    assert [getattr(summary, name) for name in STEPS] == [
        upper_bound(2.0**place) for place in range(len(STEPS))
    ]


def test_a_percentile_is_never_above_the_highest_value(content: Content) -> None:
    summary = find_summary(content, "request")
    assert upper_bound(100.0) > 100.0
    assert (summary.p50, summary.p99_99, summary.max_us) == (100.0, 100.0, 100.0)


def test_every_second_of_a_run_has_its_percentiles(content: Content) -> None:
    """Of the run with two seconds; in the other one nothing was measured after the first."""
    assert [(item.run_id, item.second) for item in content.over_time] == [("random", 0.0), ("random", 1.0)]
    for item, values in zip(content.over_time, LATENCIES, strict=True):
        assert item.p50 == pytest.approx(numpy.percentile(values, 50, method="inverted_cdf"), rel=0.01)
        assert item.p99 == pytest.approx(numpy.percentile(values, 99, method="inverted_cdf"), rel=0.01)
        assert item.max_us == max(values)


@pytest.mark.slow
def test_a_long_run_has_no_more_points_than_a_chart_can_show(spark: SparkSession, tmp_path: Path) -> None:
    pair = [client("pub", 30_000, 150.0), client("sub", 30_000, 150.0)]
    for run_id, minute in (("older", 0), ("newer", 1)):
        slices = [[float(second + minute), 1.0] for second in range(1, 151)]
        save_run(tmp_path, run_id, pair, minute=minute, workload="latency", slices=slices)
    points = compute_report(spark, find_runs(tmp_path)).over_time
    assert {point.run_id for point in points} == {"newer"}
    assert [point.second for point in points] == [float(second) for second in range(0, 150, 3)]
    assert [point.max_us for point in points] == [float(second + 4) for second in range(0, 150, 3)]


def test_variants_of_a_workload_are_never_one_case(content: Content, tmp_path: Path) -> None:
    found = {item.variant: item.median for item in content.summaries if item.workload == "subjects"}
    assert found == {VARIANTS[0]: 1000.0, VARIANTS[1]: 2000.0}
    assert all(item.change is None for item in content.summaries if item.workload == "subjects")
    table = write_report(content, tmp_path)[1].read_text()
    for variant in VARIANTS:
        assert f"| subjects · 1 → 1 · 128 B · {variant} · 1,000 msgs |" in table


def test_a_run_from_before_there_were_variants_is_read(content: Content) -> None:
    assert find_run(content, "ask").variant == ""


def test_requests_are_judged_by_round_trips(content: Content) -> None:
    assert find_summary(content, "request").median == 8_000 / 2.0


def test_connections_are_judged_by_memory_each(content: Content) -> None:
    summary = find_summary(content, "connections", connections=10_000)
    assert (summary.median, summary.server_peak_rss_bytes) == (3_200.0, 52_000_000)
    assert [
        (item.idle, item.msg_size, item.clients, item.median) for item in content.memory if item.idle
    ] == [
        (True, 0, 100, 22_000_000),
        (True, 0, 10_000, 52_000_000),
    ]


def test_a_latency_run_without_slices_has_no_figure_and_is_named(content: Content) -> None:
    assert find_run(content, "no-slices").value is None
    assert all(summary.num_msgs != 7 for summary in content.summaries)
    assert any(line.startswith("1 run without a figure") for line in comparison(content))


def test_the_seeds_are_compared_with_the_same_work(content: Content) -> None:
    best = {(seed.system, seed.pubs, seed.subs): seed.rate for seed in content.seeds}
    assert best == {
        ("rnats", 1, 10): 2_820_266,
        ("rnats", 10, 10): 2_836_183,
        ("beaver", 10, 100): 988_911,
        ("beaver", 10, 1000): 424_945,
    }
    ratios = {
        item.server_name: (item.system, item.median, item.ratio) for item in content.compared_with_seeds
    }
    assert ratios == {
        "headrace": ("rnats", 10_000_000, 10_000_000 / 2_820_266),
        "nats-server": ("rnats", 3_500_000, 3_500_000 / 2_820_266),
    }


# Machines


def test_only_the_newest_machine_is_compared_and_that_is_said(content: Content) -> None:
    assert {run.machine for run in content.runs} == {"aaaa1111"}
    said = " ".join(comparison(content))
    assert "14 runs compared" in said
    assert "machine aaaa1111 (Test CPU, 2 cores, 8 GB, Linux 6.1)" in said
    assert "2 runs of other machines left out: machine bbbb2222 (Older CPU" in said
    assert "--compare-machines" in said


def test_machines_are_compared_only_when_asked_and_marked(all_machines: Content, tmp_path: Path) -> None:
    assert {run.machine for run in all_machines.runs} == {"aaaa1111", "bbbb2222"}
    said = " ".join(comparison(all_machines))
    assert "16 runs compared" in said
    assert "2 different machines" in said
    assert "left out" not in said
    page, table = (path.read_text() for path in write_report(all_machines, tmp_path))
    for name in ("aaaa11", "bbbb22"):
        assert f">on {name}</text>" in page
        assert f"| {name} |" in table


def test_runs_of_different_machines_are_never_one_case(all_machines: Content) -> None:
    elsewhere = [summary for summary in all_machines.summaries if summary.machine == "bbbb2222"]
    assert [(summary.runs, summary.median) for summary in elsewhere] == [(2, 77.0)]


# What cannot be computed


def test_damaged_pages_are_one_line(spark: SparkSession, tmp_path: Path) -> None:
    save_run(tmp_path, "1", [client("pub", 1, 1.0)])
    path = tmp_path / "clients-1.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + b"\xff" * 1000 + whole[1004:])
    with pytest.raises(BenchError, match="Spark could not read the runs") as raised:
        compute_report(spark, find_runs(tmp_path))
    assert "\n" not in str(raised.value)


def test_runs_without_any_client_are_told(spark: SparkSession, tmp_path: Path) -> None:
    save_run(tmp_path, "1", [client("pub", 1, 1.0)])
    path = tmp_path / "clients-1.parquet"
    parquet.write_table(parquet.read_table(path).slice(0, 0), path)
    with pytest.raises(BenchError, match="are empty"):
        compute_report(spark, find_runs(tmp_path))

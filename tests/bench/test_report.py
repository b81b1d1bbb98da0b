"""The report on saved runs with known answers: its figures, its refusals, its page in a real browser."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy
import pyarrow
import pytest
from pyarrow import parquet

from headrace.bench.failure import BenchError
from headrace.bench.report import words
from headrace.bench.report.content import Case, Content, Run, Summary
from headrace.bench.report.samples import find_runs
from headrace.bench.report.tables import comparison
from headrace.bench.report.write import compute_report, write_report
from tests.bench.saved_runs import client, save_run, upper_bound
from tests.browser import Page, browse
from tests.cli.commands import assert_one_error_line, environment, run, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # Spark on a busy machine

RANDOM = numpy.random.default_rng(20260301)
LATENCIES = [RANDOM.lognormal(4.5, 0.8, size).tolist() for size in (15_000, 14_999)]
"""As many as have no percentile at the edge of a rank, where numpy would round 0.999 * n up."""
TOTALS = {"headrace": (9_000_000, 10_000_000, 14_000_000), "nats-server": (3_000_000, 4_000_000, 3_500_000)}
PERCENTILES = {"p50": 50, "p90": 90, "p99": 99, "p99_9": 99.9, "p99_99": 99.99}
STEPS = {"p50": 5000, "p90": 4000, "p99": 900, "p99_9": 90, "p99_99": 9, "max_us": 1}

VARIANTS = ("10 subjects, wildcard >", "10 subjects, a subscription each")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two servers on one machine, and older ones on another."""
    directory = tmp_path_factory.mktemp("saved [runs] {1} 100%")
    for server, totals in TOTALS.items():
        for number, total in enumerate(totals):
            publishers = [client("pub", 100_000, 0.1)]
            subscribers = [client("sub", 100_000, seconds) for seconds in [0.1] * 8 + [0.16, 0.2]]
            save_run(
                directory,
                f"fan-{server}-{number}",
                publishers + subscribers,
                minute=number * 10,
                server_name=server,
                server_version="2.15.1" if server == "nats-server" else f"0.{number + 1}.0",
                preset="rnats-1x10",
                num_msgs=100_000,
                total_msgs_per_sec=float(total),
                server_cpu_seconds=1.5,
                server_peak_rss_bytes=30_000_000 + number,
            )
    pair = [client("pub", 30_000, 2.0), client("sub", 30_000, 2.0)]
    save_run(directory, "random", pair, workload="latency", slices=LATENCIES, rate_wanted=15_000.0)
    steps = [upper_bound(2.0**place) for place, count in enumerate(STEPS.values()) for _ in range(count)]
    save_run(directory, "steps", pair, workload="latency", slices=[steps, []], rate_wanted=5_000.0)
    save_run(directory, "no-slices", pair, workload="latency", num_msgs=7)
    requests = [
        client("requester", 4_000, 2.0),
        client("requester", 4_000, 1.6),
        client("responder", 8_000, 2.0),
    ]
    save_run(directory, "ask", requests, workload="request", slices=[[100.0] * 10])
    for connections, peak in ((100, 22_000_000), (10_000, 52_000_000)):
        save_run(
            directory,
            f"idle-{connections}",
            [client("idle", 0, 0.0)],
            workload="connections",
            connections=connections,
            rss_per_connection=3_200.0,
            server_peak_rss_bytes=peak,
        )
    for number, variant in enumerate(VARIANTS):
        about = {"workload": "subjects", "variant": variant, "total_msgs_per_sec": 1000.0 * (number + 1)}
        save_run(directory, f"subjects-{number}", pair, **about)
    # One that was saved before there were variants.
    path = directory / "clients-ask.parquet"
    parquet.write_table(parquet.read_table(path).drop_columns(["variant"]), path)
    for number in range(2):
        save_run(
            directory,
            f"elsewhere-{number}",
            [client("pub", 1, 1.0)],
            minute=-60,
            machine="bbbb2222",
            cpu="Older CPU",
            total_msgs_per_sec=77.0,
        )
    return directory


@pytest.fixture(scope="module")
def content(spark: SparkSession, saved: Path) -> Content:
    return compute_report(spark, find_runs(saved))


@pytest.fixture(scope="module")
def all_machines(spark: SparkSession, saved: Path) -> Content:
    return compute_report(spark, find_runs(saved), compare_machines=True)


def find_run(content: Content, run_id: str) -> Run:
    return next(run for run in content.runs if run.run_id == run_id)


def find_summary(content: Content, workload: str, server: str = "headrace", **wanted: object) -> Summary:
    found = [
        summary
        for summary in content.summaries
        if (summary.workload, summary.server_name) == (workload, server)
        and all(getattr(summary, name) == value for name, value in wanted.items())
    ]
    assert len(found) == 1, found
    return found[0]


# Figures


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


@pytest.mark.parametrize(
    ("workload", "pubs", "subs", "text"),
    [
        ("stream-publish", 2, 0, "stream-publish · 2 publishers · 128 B · file storage · 1,000 msgs"),
        ("stream-consume", 0, 1, "stream-consume · 1 client · 128 B · file storage · 1,000 msgs"),
    ],
)
def test_streams_in_words(workload: str, pubs: int, subs: int, text: str) -> None:
    case = Case("m", workload, "", "file storage", pubs, subs, 1000, 128, None, None)
    assert words.case(case) == text
    assert words.headline(workload) in ("acknowledged/s", "consumed/s")


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


# The page and the table


@pytest.fixture(scope="module")
def browsed(content: Content, tmp_path_factory: pytest.TempPathFactory) -> tuple[Page, str, list[str]]:
    directory = tmp_path_factory.mktemp("page")
    return browse(write_report(content, directory)[0], directory)


def test_a_browser_shows_all_charts_and_figures(browsed: tuple[Page, str, list[str]]) -> None:
    page, _, _ = browsed
    # one fan-out, three latencies, one over time, memory idle and at work, one history of several runs
    assert page.tags.count("svg") == page.tags.count("figure") == 1 + 3 + 1 + 2 + 1
    assert page.tags.count("polyline") == 2 * 0 + 3 + 1 + 1 + 2
    for text in (
        "Throughput by fan-out",
        "Latency percentiles",
        "Latency over time",
        "Memory by connections",
        "History across runs",
    ):
        assert text in page.text
    for figure in ("10 M/s", "3.5 M/s", "+40 % better", "−12 % worse", "3.2 kB", "4 k/s", "3.55", "1.24"):  # noqa: RUF001
        assert f"{figure}\n" in page.text, figure
    assert "rnats, 10 subs: 2.82 M/s" in page.text
    assert "headrace: 10 subscribers, median 10 M/s of 3 runs, 9 M/s to 14 M/s" in page.text
    exact = numpy.percentile([value for part in LATENCIES for value in part], 99.9, method="inverted_cdf")
    shown = re.findall(r"99\.9: ([\d.]+) (ms|µs)", page.text)
    assert any(
        float(number) * {"ms": 1000, "µs": 1}[unit] == pytest.approx(exact, rel=0.02)
        for number, unit in shown
    )


def test_the_page_needs_nothing_from_anywhere(browsed: tuple[Page, str, list[str]]) -> None:
    page, console, requested = browsed
    assert [address for address in page.addresses if not address.startswith("data:")] == []
    assert "script" not in page.tags
    assert "CONSOLE" not in console
    assert [url for url in requested if not url.startswith(("file:", "data:"))] == []


def test_a_page_that_needs_something_would_be_noticed(tmp_path: Path) -> None:
    path = tmp_path / "needy.html"
    path.write_text("<img src='http://headrace.invalid/x.png'><script>console.error('no')</script>")
    page, console, requested = browse(path, tmp_path)
    assert page.addresses == requested == ["http://headrace.invalid/x.png"]
    assert "CONSOLE" in console


def test_the_table_has_the_known_figures(content: Content, tmp_path: Path) -> None:
    text = write_report(content, tmp_path / "made on the way")[1].read_text()
    work = "rnats-1x10 · 1 → 10 · 128 B · 100,000 msgs"
    assert (
        f"| {work} | messages/s | headrace | 0.1.0, 0.2.0, 0.3.0 "
        "| 3 | 10 M/s | 9 M/s | 14 M/s | 50 % | 2.65 M/s | +40 % better | 25 % |\n"
    ) in text
    widths = {line.count("|") for line in text.split("\n\n")[-1].splitlines()}
    assert len(widths) == 1, "every row has all columns"
    assert "14 runs compared" in text


def test_what_a_server_is_called_cannot_become_markup(content: Content, tmp_path: Path) -> None:
    name = "<script>alert(1)</script>|x"
    named = replace(
        content,
        runs=tuple(replace(run, server_name=name) for run in content.runs),
        summaries=tuple(replace(summary, server_name=name) for summary in content.summaries),
        fan_out=tuple(replace(item, server_name=name) for item in content.fan_out),
        memory=tuple(replace(item, server_name=name) for item in content.memory),
        over_time=tuple(replace(item, server_name=name) for item in content.over_time),
    )
    page, table = (path.read_text() for path in write_report(named, tmp_path))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "</script>\\|x" in table


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (words.rate(2_820_266), "2.82 M/s"),
        (words.rate(988_911), "989 k/s"),
        (words.rate(999_999), "1,000 k/s"),
        (words.rate(0), "0 /s"),
        (words.duration(0.5), "0.5 µs"),
        (words.duration(1_234), "1.23 ms"),
        (words.size(22_069_248), "22.1 MB"),
        (words.change(0.031), "+3.1 %"),
        (words.change(-0.5), "−50 %"),  # noqa: RUF001
        (words.change(0.0001), words.NO_CHANGE),
        (words.share(None), words.NOTHING),
    ],
)
def test_figures_in_words(shown: str, text: str) -> None:
    assert shown == text


# The command


def test_the_command_says_what_it_does_and_where_the_report_is(saved: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "headrace",
        "bench",
        "report",
        str(saved),
        "--out",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(tmp_path / "out" / name) for name in ("report.html", "report.md")]
    lines = done.stderr.splitlines()
    assert all(line.startswith("headrace: ") for line in lines), "nothing of Java's or Spark's"
    assert "starting Spark" in lines[0]
    assert any("2 runs of other machines left out" in line for line in lines)
    assert (tmp_path / "out" / "report.html").read_text().endswith("</html>\n")


def java_processes(mark: str) -> list[str]:
    """Command lines of the Javas that have this variable from the command that started them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().decode())
        except OSError:
            continue  # it has ended, or is somebody else's
    return [line for line in found if "SparkSubmit" in line]


@pytest.mark.parametrize("moment", ["java starts", "spark computes"])
def test_ctrl_c_ends_at_once_and_leaves_no_java_behind(saved: Path, tmp_path: Path, moment: str) -> None:
    mark = str(uuid.uuid4())
    arguments = ("bench", "report", str(saved), "--out", str(tmp_path))
    with started(*arguments, ready="starting Spark", REPORT_MARK=mark) as command:
        if moment == "java starts":
            wait_until(lambda: bool(java_processes(mark)))
        else:
            wait_until(lambda: "is computing" in command.errors)
        assert command.end() == 130
        said = command.errors.split("\n")  # click ends the line that the terminal has written ^C into
        assert all(line.startswith("headrace: ") for line in said if line), command.errors
    wait_until(lambda: not java_processes(mark))


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_directory_without_runs_is_one_line(tmp_path: Path) -> None:
    assert_one_error_line(run("bench", "report", str(tmp_path)), "no saved runs in", "--save")


def test_a_directory_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    assert_one_error_line(run("bench", "report", str(tmp_path / "none")), "does not exist")


def test_a_file_instead_of_a_directory_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert_one_error_line(run("bench", "report", str(tmp_path / "file")), "is a file")


@pytest.mark.parametrize("content", [b"", b"not Parquet at all", b"PAR1 half a file"])
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "clients-1.parquet").write_bytes(content)
    result = run("bench", "report", str(tmp_path))
    assert_one_error_line(result, "clients-1.parquet is not a saved run")


def test_parquet_of_something_else_is_one_line(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"run_id": ["x"], "colour": ["red"]}), tmp_path / "clients-1.parquet")
    assert_one_error_line(run("bench", "report", str(tmp_path)), "it has no column started, workload")


def test_a_missing_column_of_slices_is_one_line(tmp_path: Path) -> None:
    save_run(tmp_path, "1", [client("pub", 1, 1.0)], workload="latency", slices=[[1.0]])
    path = tmp_path / "slices-1.parquet"
    parquet.write_table(parquet.read_table(path).drop_columns(["max_us"]), path)
    assert_one_error_line(
        run("bench", "report", str(tmp_path)), "slices-1.parquet", "it has no column max_us"
    )


def test_a_column_of_another_type_is_one_line(tmp_path: Path) -> None:
    save_run(tmp_path, "1", [client("pub", 1, 1.0)])
    path = tmp_path / "clients-1.parquet"
    table = parquet.read_table(path)
    place = table.schema.get_field_index("num_msgs")
    parquet.write_table(table.set_column(place, "num_msgs", pyarrow.array(["many"])), path)
    assert_one_error_line(run("bench", "report", str(tmp_path)), "column num_msgs is string, not int64")


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


def test_a_place_that_cannot_be_written_is_reported(content: Content, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BenchError, match="cannot write the report"):
        write_report(content, tmp_path / "file")

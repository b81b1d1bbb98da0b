"""Alternating rounds, the table and the command behind `make bench`."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.bench.compare import Measurement, Result, Row, compare
from headrace.bench.servers import Server
from headrace.bench.tables import as_json, markdown_table, notes, text_table
from headrace.bench.workloads import FixedRate, IdleConnections, PublishSubscribe, Sample, Workload

ROOT = Path(__file__).parents[2]


def result_of(workload: Workload, values: dict[str, list[float]], target: float | None) -> Result:
    row = Row("row", "the work", workload, target, peak_rss_limit_mb=150)
    return Result(
        row,
        {
            server: [
                Measurement(Sample(value, 1.0, 0.95), 0.5, 151_000_000, 0.25 * (server == "b"))
                for value in server_values
            ]
            for server, server_values in values.items()
        },
    )


def test_the_ratio_is_that_of_the_medians() -> None:
    result = result_of(PublishSubscribe(1, 1, 1, 1), {"a": [100, 300, 200], "b": [900, 100, 500]}, 2.5)
    assert result.ratio("b", "a") == 2.5
    assert result.reaches_target("b", "a")


def test_a_cost_reaches_its_target_from_above() -> None:
    assert result_of(IdleConnections(1), {"a": [50], "b": [40]}, 1).reaches_target("b", "a")
    assert not result_of(IdleConnections(1), {"a": [50], "b": [60]}, 1).reaches_target("b", "a")


def test_the_table_shows_medians_spread_ratio_and_target() -> None:
    result = result_of(PublishSubscribe(1, 1, 1, 1), {"a": [1e6, 3e6, 2e6], "b": [5e6, 4e6, 6e6]}, 3)
    assert re.split(" {2,}", text_table([result], ["a", "b"]).splitlines()[2]) == [
        "the work",
        "2.00 M/s (1.00 to 3.00)",
        "5.00 M/s (4.00 to 6.00)",
        "2.50 (≥ 3 NOT reached)",
        "95% / 95%",
        "0.50 / 0.50 s",
        "151 / 151 MB",
    ]
    assert "| the work | 2.00 M/s (1.00 to 3.00) |" in markdown_table([result], ["a", "b"])
    assert notes([result], ["a", "b"]) == [
        "the work: b peak RSS 151 MB, at most 150 MB is aimed at: NOT reached",
        "the work: the generator was 95% busy with a and may have been the limit",
        "the work: the generator was 95% busy with b and may have been the limit",
        "not a quiet machine, cores that other processes kept busy: row 0.25",
    ]
    assert as_json([result], ["a", "b"], {})["rows"][0]["ratio"] == {"b": 2.5}


@pytest.mark.parametrize(
    ("workload", "values", "text"),
    [
        (FixedRate(1, 1, 1), [1401.0, 900.0, 2000.0], "1,401.0 us (900.0 to 2,000.0)"),
        (IdleConnections(1), [1.25, 1.0, 1.5], "1.25 KB (1.00 to 1.50)"),
        (PublishSubscribe(1, 1, 1, 1), [1500.0, 900.0, 2000.0], "1.50 k/s (0.90 to 2.00)"),
    ],
)
def test_only_rates_are_scaled(workload: Workload, values: list[float], text: str) -> None:
    result = result_of(workload, {"a": values}, None)
    assert re.split(" {2,}", text_table([result], ["a"]).splitlines()[2])[1] == text


def test_without_a_target_there_is_only_the_ratio() -> None:
    result = result_of(PublishSubscribe(1, 1, 1, 1), {"a": [2.0], "b": [3.0]}, None)
    assert re.split(" {2,}", text_table([result], ["a", "b"]).splitlines()[2])[3] == "1.50"


@dataclass(frozen=True)
class Order:
    """What `compare` tells about its progress."""

    seen: list[tuple[int, str]]

    def __call__(self, row: Row, number: int, server: Server) -> None:
        self.seen.append((number, server.name))


def test_rounds_alternate_and_all_are_kept(nats_server: Server) -> None:
    order = Order([])
    servers = [Server("a", nats_server.command), Server("b", nats_server.command)]
    (result,) = compare([Row("1-1", "1 → 1", PublishSubscribe(1, 1, 8, 1000), 1)], servers, 3, order)
    assert order.seen == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]
    assert {name: len(measurements) for name, measurements in result.measurements.items()} == {"a": 3, "b": 3}
    assert not result.error


def run_benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=150)


def test_the_command_measures_two_servers(nats_server: Server, tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    (command,) = nats_server.command
    servers = [f"--server=one={command}", f"--server=two={command}"]
    outcome = run_benchmarks("--quick", "--rounds=1", "--rows=1-1,request-64", *servers, f"--json={saved}")
    assert outcome.returncode == 0, outcome.stderr
    assert "two / one" in outcome.stdout
    assert re.search(r"^one: \d+\.\d+\.\d+$", outcome.stdout, re.MULTILINE)
    rows = json.loads(saved.read_text())["rows"]
    assert [row["key"] for row in rows] == ["1-1", "request-64"]
    assert all(len(row["rounds"][name]) == 1 for row in rows for name in ("one", "two"))


def test_the_command_fails_with_one_line_when_a_server_does_not_start(nats_server: Server) -> None:
    (command,) = nats_server.command
    outcome = run_benchmarks(
        "--quick",
        "--rounds=1",
        "--rows=1-1",
        f"--server=one={command}",
        f"--server=two={command} --no-such-flag",
    )
    assert outcome.returncode == 1
    assert [line for line in outcome.stdout.splitlines() if "FAILED" in line] != []
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize("arguments", [["--rows=nothing"], ["--rounds=0"]])
def test_the_command_refuses_wrong_options(arguments: list[str]) -> None:
    assert run_benchmarks(*arguments).returncode == 2

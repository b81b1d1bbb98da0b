"""Saved runs: the columns that the report reads, with what the run was."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet
import pytest

from headrace.bench.compare import Measurement
from headrace.bench.distribution import Distribution, Slice
from headrace.bench.failure import BenchError
from headrace.bench.generator import Client
from headrace.bench.machine import machine_facts
from headrace.bench.runs import Finished, Job
from headrace.bench.save import check_can_save, save
from headrace.bench.workloads import IdleConnections, PublishSubscribe, Sample

CLIENT_TYPES = """
run_id: string
started: timestamp[us, tz=UTC]
workload: string
preset: string
server_name: string
server_version: string
subject: string
num_pubs: int32
num_subs: int32
num_msgs: int64
msg_size: int32
client_id: string
role: string
msg_count: int64
msg_bytes: int64
duration_seconds: double
msgs_per_sec: double
bytes_per_sec: double
run_seconds: double
total_msgs_per_sec: double
server_cpu_seconds: double
server_peak_rss_bytes: int64
generator_cpu_share: double
connections: int32
rss_per_connection: double
machine: string
cpu: string
cores: int32
memory_bytes: int64
kernel: string
python: string
headrace_version: string
variant: string
"""
SLICE_TYPES = """
run_id: string
slice: int32
slice_start_seconds: double
slice_seconds: double
rate_wanted: double
count: int64
bucket_us: list<element: double>
bucket_count: list<element: int64>
max_us: double
"""
STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def run_of(job: Job, sample: Sample, cpu: float | None = 0.5, peak: int | None = 1000) -> Finished:
    return Finished("id7", STARTED, job, "headrace", "headrace 1", Measurement(sample, cpu, peak, 0.0))


def types_of(path: Path) -> list[str]:
    schema = pyarrow.parquet.read_schema(path)
    return [f"{field.name}: {field.type}" for field in schema]


def test_a_run_has_one_row_per_client(tmp_path: Path) -> None:
    clients = [Client("publisher", 10, 1280, 0.0, 0.5), Client("subscriber", 10, 1280, 0.5, 1.0)]
    job = Job("pubsub", PublishSubscribe(1, 1, 128, 10), "bench", 1, 1, 10, 128, "rnats-1x10")
    (path,) = save(run_of(job, Sample(10.0, 1.0, 0.25, clients)), str(tmp_path))
    assert path == tmp_path / "clients-id7.parquet"
    assert types_of(path) == CLIENT_TYPES.split("\n")[1:-1]
    subscriber, publisher = pyarrow.parquet.read_table(path).to_pylist()
    assert (subscriber["client_id"], publisher["client_id"]) == ("S0", "P0")
    assert (subscriber["role"], publisher["role"]) == ("sub", "pub")
    assert publisher["msgs_per_sec"] == 20.0
    assert publisher["bytes_per_sec"] == 2560.0
    assert publisher["total_msgs_per_sec"] == subscriber["total_msgs_per_sec"] == 20.0
    assert publisher["started"] == STARTED
    assert publisher["preset"] == "rnats-1x10"
    assert publisher["connections"] is None
    assert {key: publisher[key] for key in machine_facts()} == machine_facts()


def test_latencies_have_one_row_per_slice(tmp_path: Path) -> None:
    parts = [
        Slice(number, float(number), 1.0, Distribution((1.5, 2.5), (3, number), 2.25), 100.0)
        for number in (0, 1)
    ]
    clients = [Client("subscriber", 10, 0, 0.0, 2.0)]
    job = Job("latency", PublishSubscribe(1, 1, 0, 10), "bench", 1, 1, 10, 0)
    sample = Sample(1.0, 2.0, 0.1, clients, latency=parts[0].distribution, slices=parts)
    _, path = save(run_of(job, sample), str(tmp_path))
    assert path == tmp_path / "slices-id7.parquet"
    assert types_of(path) == SLICE_TYPES.split("\n")[1:-1]
    assert pyarrow.parquet.read_table(path).to_pylist()[1] == {
        "run_id": "id7",
        "slice": 1,
        "slice_start_seconds": 1.0,
        "slice_seconds": 1.0,
        "rate_wanted": 100.0,
        "count": 4,
        "bucket_us": [1.5, 2.5],
        "bucket_count": [3, 1],
        "max_us": 2.25,
    }


@pytest.mark.parametrize(("value", "expected"), [(1.5, 1500.0), (float("nan"), None)])
def test_idle_connections_have_one_row(tmp_path: Path, value: float, expected: float | None) -> None:
    job = Job("connections", IdleConnections(7), "", 0, 0, 0, 0, connections=7)
    (path,) = save(run_of(job, Sample(value, 1.0, 0.1), None, None), str(tmp_path))
    (row,) = pyarrow.parquet.read_table(path).to_pylist()
    assert (row["role"], row["connections"], row["rss_per_connection"]) == ("idle", 7, expected)
    assert (row["server_cpu_seconds"], row["server_peak_rss_bytes"]) == (None, None)


def test_nothing_unfinished_stays_behind(tmp_path: Path) -> None:
    job = Job("connections", IdleConnections(7), "", 0, 0, 0, 0, connections=7)
    save(run_of(job, Sample(1.0, 1.0, 0.1)), str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["clients-id7.parquet"]


def test_a_directory_that_cannot_be_made_is_reported_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchError, match="cannot create"):
        check_can_save(str(tmp_path / "file" / "runs"))


def test_without_pyarrow_the_extra_is_named(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from headrace.cli.command import run\n"
        f"sys.exit(run(['bench', '--start', 'headrace', '--save', {str(tmp_path)!r}]))"
    )
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert outcome.returncode == 1
    assert outcome.stderr == "headrace: --save needs pyarrow: pip install 'headrace[spark]'\n"

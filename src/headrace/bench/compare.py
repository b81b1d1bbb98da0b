"""The same workloads against several servers, in alternating rounds.

Every run gets a fresh server process, so that peak memory belongs to that run alone. The order is A B, B A,
A B, ...: whatever drifts on the machine (heat, other tenants) meets all servers alike. The first server is
the reference.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.bench.failure import BenchError
from headrace.bench.figures import Summary, summarize
from headrace.bench.machine import busy_seconds
from headrace.bench.servers import Server, running
from headrace.bench.workloads import Sample, Workload


@dataclass(frozen=True)
class Row:
    """A line of the table: a workload, the ratio to the reference that is aimed at, and a limit on memory."""

    key: str
    name: str
    workload: Workload
    target: float
    peak_rss_limit_mb: float | None = None


@dataclass(frozen=True)
class Measurement:
    """One run of one workload against one server."""

    sample: Sample
    server_cpu_seconds: float
    server_peak_rss_bytes: int
    others_cpu_share: float  # cores that neither the server nor the generator used, but somebody else did


@dataclass
class Result:
    """All rounds of one row, by server name. `error` is why it was given up, if it was."""

    row: Row
    measurements: dict[str, list[Measurement]] = field(default_factory=dict)
    error: str = ""

    def summary(self, server: str) -> Summary:
        return summarize([measurement.sample.value for measurement in self.measurements[server]])

    def ratio(self, server: str, reference: str) -> float:
        return self.summary(server).median / self.summary(reference).median

    def reaches_target(self, server: str, reference: str) -> bool:
        ratio = self.ratio(server, reference)
        return ratio >= self.row.target if self.row.workload.higher_is_better else ratio <= self.row.target

    def highest_peak_rss_mb(self, server: str) -> float:
        return max(measurement.server_peak_rss_bytes for measurement in self.measurements[server]) / 1e6


Progress = Callable[[Row, int, Server], object]


def compare(rows: Sequence[Row], servers: Sequence[Server], rounds: int, progress: Progress) -> list[Result]:
    """Measure every row; one that fails is given up with its reason, and the others still run."""
    return [_measure_row(row, servers, rounds, progress) for row in rows]


def _measure_row(row: Row, servers: Sequence[Server], rounds: int, progress: Progress) -> Result:
    result = Result(row, {server.name: [] for server in servers})
    for number in range(rounds):
        for server in servers if number % 2 == 0 else reversed(servers):
            progress(row, number, server)
            try:
                result.measurements[server.name].append(measure(row.workload, server))
            except BenchError as error:
                result.error = f"round {number + 1}: {error}"
                return result
    return result


def measure(workload: Workload, server: Server) -> Measurement:
    """Start the server, run the workload once, note what it cost the server, stop it."""
    with running(server) as process:
        server_before, ours_before = process.cpu_seconds(), time.process_time()
        all_before, started = busy_seconds(), time.perf_counter()
        sample = workload.run(process.address, process.rss_bytes)
        seconds, all_cpu = time.perf_counter() - started, busy_seconds() - all_before
        server_cpu, our_cpu = process.cpu_seconds() - server_before, time.process_time() - ours_before
        others = max(0.0, all_cpu - server_cpu - our_cpu) / seconds
        return Measurement(sample, server_cpu, process.peak_rss_bytes(), others)

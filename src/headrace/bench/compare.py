"""The same workloads against several servers, in alternating rounds.

Every run gets a fresh server process, so that peak memory belongs to that run alone. The order is A B, B A,
A B, ...: whatever drifts on the machine (heat, other tenants) affects all servers alike. The first server is
the reference.
"""

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from headrace.bench.failure import BenchError
from headrace.bench.figures import Summary, summarize
from headrace.bench.generator import Progress as ShareDone
from headrace.bench.machine import busy_seconds
from headrace.bench.servers import Process, Server, running
from headrace.bench.tls_server import with_tls
from headrace.bench.workloads import Experiment, Sample, Workload


@dataclass(frozen=True)
class Row:
    """A row of the table: a workload, the target ratio to the reference, and limits."""

    key: str
    name: str
    workload: Workload | Experiment
    target: float | None = None
    peak_rss_limit_mb: float | None = None
    value_limit: float | None = None  # the highest value allowed, whatever the reference has
    config: str = ""  # of all servers
    # Of the reference alone: a configuration, and how much of the work it does if it is far slower.
    reference_config: str = ""
    reference_share: float = 1.0
    tls: bool = False  # of every server


@dataclass(frozen=True)
class Measurement:
    """One run of one workload against one server."""

    sample: Sample
    server_cpu_seconds: float | None  # None: it was not started here
    server_peak_rss_bytes: int | None
    others_cpu_share: float | None  # cores that other processes used


@dataclass
class Result:
    """All rounds of one row, by server name. `error` is why the row failed, if it did."""

    row: Row
    measurements: dict[str, list[Measurement]] = field(default_factory=dict)
    error: str = ""

    def summary(self, server: str) -> Summary:
        return summarize([measurement.sample.value for measurement in self.measurements[server]])

    def ratio(self, server: str, reference: str) -> float:
        return self.summary(server).median / self.summary(reference).median

    def reaches_target(self, server: str, reference: str) -> bool:
        """Also true if there is no target."""
        ratio, target = self.ratio(server, reference), self.row.target
        if target is None:
            return True
        return ratio >= target if self.row.workload.higher_is_better else ratio <= target

    def highest_peak_rss_mb(self, server: str) -> float | None:
        peaks = [measurement.server_peak_rss_bytes for measurement in self.measurements[server]]
        known = [peak for peak in peaks if peak is not None]
        return max(known) / 1e6 if known else None


Progress = Callable[[Row, int, Server], object]


def compare(rows: Sequence[Row], servers: Sequence[Server], rounds: int, progress: Progress) -> list[Result]:
    """Measure every row; one that fails is reported, and the others still run."""
    return [_measure_row(row, servers, rounds, progress) for row in rows]


def _measure_row(row: Row, servers: Sequence[Server], rounds: int, progress: Progress) -> Result:
    result = Result(row, {server.name: [] for server in servers})
    for number in range(rounds):
        for server in servers if number % 2 == 0 else reversed(servers):
            progress(row, number, server)
            try:
                is_reference = server.name == servers[0].name
                result.measurements[server.name].append(_measure(row, server, is_reference))
            except BenchError as error:
                result.error = f"round {number + 1}: {error}"
                return result
    return result


def _measure(row: Row, server: Server, is_reference: bool) -> Measurement:
    if row.tls:
        with with_tls(server) as secured:
            return _measure(replace(row, tls=False), secured, is_reference)
    config = row.config + (row.reference_config if is_reference else "")
    if config:
        server = _configured(server, config)
    if not is_reference:
        return measure(row.workload, server)
    workload = row.workload if row.reference_share == 1.0 else row.workload.scaled(row.reference_share)
    return measure(workload, server)


def _configured(server: Server, text: str) -> Server:
    if server.address is not None:
        raise BenchError(f"{server.name} cannot be configured: it was not started here")
    return replace(server, config_text=server.config_text + text)


def measure(workload: Workload | Experiment, server: Server) -> Measurement:
    """Start the server, run the workload once, record what it cost the server, stop it."""
    if isinstance(workload, Experiment):
        found = workload.conduct(server)
        return Measurement(found.sample, found.server_cpu_seconds, found.server_peak_rss_bytes, None)
    with running(server, streams=workload.needs_streams) as process:
        measurement = observe(workload, process)
        if math.isnan(measurement.sample.value):
            raise BenchError(f"the memory of {server.name} is not known: it was not started here")
        return measurement


def observe(workload: Workload, process: Process, on_progress: ShareDone | None = None) -> Measurement:
    """Run the workload once against a running server, and record what it cost the server."""
    address = process.address
    if getattr(workload, "in_websocket", False):
        if process.websocket is None:
            raise BenchError(f"{process.name} does not listen for WebSocket")
        address = process.websocket
    with workload.prepared(address, on_progress) as ready:
        server_before, ours_before = process.cpu_seconds(), _our_cpu_seconds()
        all_before, started = busy_seconds(), time.perf_counter()
        sample = ready.run(address, process.rss_bytes, on_progress)
        seconds, all_cpu = time.perf_counter() - started, busy_seconds() - all_before
        server_after, our_cpu = process.cpu_seconds(), _our_cpu_seconds() - ours_before
    if server_before is None or server_after is None:
        return Measurement(sample, None, None, None)
    server_cpu = server_after - server_before
    others = max(0.0, all_cpu - server_cpu - our_cpu) / seconds
    return Measurement(sample, server_cpu, process.peak_rss_bytes(), others)


def _our_cpu_seconds() -> float:
    """That of this process, and of the generator's processes that have ended."""
    return sum(os.times()[:4])

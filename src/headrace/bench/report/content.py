"""The contents of the report as plain records: the queries run here, and nothing is computed later."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

from headrace.bench.failure import BenchError
from headrace.bench.report import queries
from headrace.bench.report.samples import SavedRuns, read_clients, read_seeds, read_slices

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Machine:
    machine: str
    runs: int
    last: str
    cpu: str
    cores: int
    memory_bytes: int
    kernel: str


@dataclass(frozen=True)
class Case:
    """Runs that can be compared: they differ only in server and time."""

    machine: str
    workload: str
    preset: str
    variant: str
    num_pubs: int
    num_subs: int
    num_msgs: int
    msg_size: int
    connections: int | None
    rate_wanted: float | None


@dataclass(frozen=True)
class OfCase(Case):
    """The columns of a case in a run and in a summary."""

    server_name: str

    @property
    def case(self) -> Case:
        return Case(*(getattr(self, field.name) for field in fields(Case)))


@dataclass(frozen=True)
class Run(OfCase):
    run_id: str
    moment: str
    server_version: str
    number: int
    value: float | None
    change: float | None
    pub_rate: float | None
    sub_rate: float | None
    sub_min: float | None
    sub_avg: float | None
    sub_max: float | None
    sub_stddev: float | None
    samples: int | None
    server_cpu_seconds: float | None
    server_peak_rss_bytes: int | None
    generator_cpu_share: float | None


@dataclass(frozen=True)
class Summary(OfCase):
    runs: int
    versions: str
    median: float
    lowest: float
    highest: float
    deviation: float | None
    spread: float | None
    newest: float
    change: float | None
    pub_rate: float | None
    sub_rate: float | None
    server_peak_rss_bytes: float | None
    generator_cpu_share: float | None
    p50: float | None
    p50_lowest: float | None
    p50_highest: float | None
    p90: float | None
    p90_lowest: float | None
    p90_highest: float | None
    p99: float | None
    p99_lowest: float | None
    p99_highest: float | None
    p99_9: float | None
    p99_9_lowest: float | None
    p99_9_highest: float | None
    p99_99: float | None
    p99_99_lowest: float | None
    p99_99_highest: float | None
    max_us: float | None
    max_us_lowest: float | None
    max_us_highest: float | None


@dataclass(frozen=True)
class Stretch(OfCase):
    """An interval of a run, from `second` on."""

    run_id: str
    second: float
    p50: float
    p99: float
    max_us: float


@dataclass(frozen=True)
class FanOut:
    machine: str
    server_name: str
    num_pubs: int
    msg_size: int
    num_subs: int
    runs: int
    median: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class Memory:
    machine: str
    server_name: str
    idle: bool
    msg_size: int
    clients: int
    runs: int
    median: float
    lowest: float
    highest: float
    per_connection: float | None


@dataclass(frozen=True)
class BestSeed:
    system: str
    step: str
    pubs: int
    subs: int
    msg_bytes: int
    rate: float
    rss_bytes: int | None
    machine: str


@dataclass(frozen=True)
class SeedComparison:
    system: str
    pubs: int
    subs: int
    msg_bytes: int
    rate: float
    seed_machine: str
    server_name: str
    machine: str
    num_msgs: int
    runs: int
    median: float
    ratio: float


@dataclass(frozen=True)
class Content:
    """Everything. Runs of `machines` are shown, those of `left_out` are not."""

    machines: tuple[Machine, ...]
    left_out: tuple[Machine, ...]
    runs: tuple[Run, ...]
    summaries: tuple[Summary, ...]
    over_time: tuple[Stretch, ...]
    fan_out: tuple[FanOut, ...]
    memory: tuple[Memory, ...]
    seeds: tuple[BestSeed, ...]
    compared_with_seeds: tuple[SeedComparison, ...]


def compute(spark: SparkSession, saved: SavedRuns, *, compare_machines: bool) -> Content:
    """Run all queries. Without `compare_machines` only runs of the most recent machine are used."""
    clients = read_clients(spark, saved)
    all_machines = _collect(queries.machines(clients), Machine)
    if not all_machines:
        raise BenchError("the saved runs are empty: no client is in any of them")
    shown = len(all_machines) if compare_machines else 1
    names = [machine.machine for machine in all_machines[:shown]]
    slices = read_slices(spark, saved).cache()
    runs = queries.runs(clients.where(clients.machine.isin(names)), slices).cache()
    summaries = queries.summaries(runs).cache()
    seeds = read_seeds(spark)
    return Content(
        machines=all_machines[:shown],
        left_out=all_machines[shown:],
        runs=_collect(runs.orderBy("started", "run_id"), Run),
        summaries=_collect(summaries, Summary),
        over_time=_collect(queries.over_time(slices, runs), Stretch),
        fan_out=_collect(queries.fan_out(runs), FanOut),
        memory=_collect(queries.memory(runs), Memory),
        seeds=_collect(queries.best_seeds(seeds), BestSeed),
        compared_with_seeds=_collect(queries.compared_with_seeds(summaries, seeds), SeedComparison),
    )


Record = TypeVar("Record")


def _collect(frame: DataFrame, record: type[Record]) -> tuple[Record, ...]:
    names = [field.name for field in fields(record)]  # type: ignore[arg-type]
    return tuple(record(**row.asDict()) for row in frame.select(*names).collect())

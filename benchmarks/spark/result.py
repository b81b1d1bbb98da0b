"""The results of the rounds: a table like that of the other benchmarks, and the targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.spark import tables, work
from benchmarks.spark.work import Place
from headrace.bench.figures import summarize
from headrace.bench.tables import NOISY_MACHINE_SHARE, figure, text_table_of

PARQUET = "Parquet"
HEADRACE = "headrace"
UNIT = "rows/s"


@dataclass(frozen=True)
class Line:
    """A row of the table: its task, whether that runs on Parquet, too, or needs our files, and the target."""

    key: str
    name: str
    run: Callable[[Place], float]
    with_parquet: bool = False
    with_store: bool = False
    aim: float | None = None


INSIDE = Line("read", "stream → noop, inside the read", work.read_inside, aim=2_000_000)
STORE = Line(
    "read-store",
    "stream → noop from the server's files, inside the read",
    work.read_store,
    with_store=True,
    aim=2_000_000,
)
NATS_PY = Line("nats-py", "the same, through a source built on nats-py", work.read_nats_py)
WRITE = Line("write", "table → stream, every message acknowledged", work.write, aim=1_000_000)
LAND_PARQUET = Line("land-parquet", "stream → plain Parquet table, headrace land", tables.land_parquet)
LAND_DELTA = Line("land-delta", "stream → Delta table, headrace land", tables.land_delta)
LAND_TYPED = Line("land-typed", "the same, six typed columns from JSON", tables.land_typed, aim=300_000)
LINES = (
    INSIDE,
    NATS_PY,
    STORE,
    Line("job", "stream → noop, the whole job", work.read, with_parquet=True),
    Line("land", "stream → Parquet, the whole job", work.land, with_parquet=True),
    LAND_PARQUET,
    LAND_DELTA,
    LAND_TYPED,
    WRITE,
)
COMMITS = "commits"
KEYS = (*(line.key for line in LINES), COMMITS)
FROM_TABLE = (*(line for line in LINES if line.with_parquet), WRITE)
"""Those that read a table of the messages."""
TIMES_NATS_PY = 5
DELTA_SHARE = 0.9
COMMIT_SECONDS = 0.3


@dataclass
class Result:
    """The rates of all rounds, by row and place; and how many cores other processes kept busy, by round."""

    rates: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    others: list[float] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)
    """Seconds of commits to a Delta table with 10,000 files."""

    def add(self, line: Line, place: str, rate: float) -> None:
        self.rates.setdefault(line.key, {}).setdefault(place, []).append(rate)

    @property
    def lines(self) -> list[Line]:
        """Those that were measured."""
        return [line for line in LINES if line.key in self.rates]

    def median(self, line: Line, place: str) -> float:
        return summarize(self.rates[line.key][place]).median


def table(result: Result, servers: Sequence[str]) -> list[list[str]]:
    reference, *others = servers
    head = ["work", *servers, *(f"{server} / {reference}" for server in others), PARQUET]
    body = []
    for line in result.lines:
        rates = result.rates[line.key]
        body.append(
            [
                line.name,
                *(figure(summarize(rates[server]), UNIT) if server in rates else "" for server in servers),
                *(_ratio(result, line, server, reference) for server in others),
                figure(summarize(rates[PARQUET]), UNIT) if line.with_parquet else "",
            ]
        )
    return [head, *body]


def _ratio(result: Result, line: Line, server: str, reference: str) -> str:
    if not {server, reference} <= result.rates[line.key].keys():
        return ""
    return f"{result.median(line, server) / result.median(line, reference):.2f}"


def as_text(result: Result, servers: Sequence[str]) -> str:
    return text_table_of(table(result, servers))


def verdicts(result: Result, servers: Sequence[str]) -> list[str]:
    """One line per target, and one if the machine was busy."""
    lines = []
    if HEADRACE in servers:
        measured = result.lines
        for line in (line for line in measured if line.aim is not None):
            rate, aim = result.median(line, HEADRACE), line.aim or 0.0
            lines.append(
                f"{line.name}: {HEADRACE} {rate:,.0f} {UNIT}, "
                f"at least {aim:,.0f} is aimed at: {_verdict(rate >= aim)}"
            )
        if INSIDE in measured and NATS_PY in measured:
            times = result.median(INSIDE, HEADRACE) / result.median(NATS_PY, HEADRACE)
            lines.append(
                f"{INSIDE.name}: {HEADRACE} {times:.1f} times {NATS_PY.key}, "
                f"at least {TIMES_NATS_PY} is aimed at: {_verdict(times >= TIMES_NATS_PY)}"
            )
        if LAND_DELTA in measured and LAND_PARQUET in measured:
            share = result.median(LAND_DELTA, HEADRACE) / result.median(LAND_PARQUET, HEADRACE)
            lines.append(
                f"{LAND_DELTA.name}: {HEADRACE} {share:.0%} of plain Parquet, "
                f"at least {DELTA_SHARE:.0%} is aimed at: {_verdict(share >= DELTA_SHARE)}"
            )
    if result.commits:
        longest = max(result.commits)
        lines.append(
            f"a commit to a Delta table with {tables.FILES:,} files: median "
            f"{summarize(result.commits).median:.3f} s, longest {longest:.3f} s, "
            f"at most {COMMIT_SECONDS} is aimed at: {_verdict(longest <= COMMIT_SECONDS)}"
        )
    busy = summarize(result.others) if result.others else None
    if busy is not None and busy.median >= NOISY_MACHINE_SHARE:
        lines.append(f"not a quiet machine, cores that other processes kept busy: {busy.median:.2f}")
    return lines


def as_json(result: Result, about: Mapping[str, str]) -> dict[str, Any]:
    return {
        "about": dict(about),
        "lines": [
            {"key": line.key, "name": line.name, "aim": line.aim, "rounds": result.rates[line.key]}
            for line in result.lines
        ],
        "others_cpu_share": result.others,
        "commit_seconds": result.commits,
    }


def _verdict(reached: bool) -> str:
    return "reached" if reached else "NOT reached"

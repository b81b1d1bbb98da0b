"""Which charts there are: from the report's records to plots, one function per kind.

Each kind is a row of small charts, such that within a chart only servers (and, if asked for, machines)
differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from headrace.bench.report import words
from headrace.bench.report.content import Content, Memory, Run, Stretch, Summary
from headrace.bench.report.plot import Axis, Plot, Point, Reference, Series, log_axis, values_axis, zero_axis
from headrace.bench.report.queries import LATENCIES

KNOWN_SERVERS = ("headrace", "nats-server")
NO_SUBSCRIBERS = 0.3
"""The position of zero subscribers on a logarithmic axis."""
RANKS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999, "max_us": 0.99999}
RANK_LABELS = {"p50": "50 %", "p90": "90", "p99": "99", "p99_9": "99.9", "p99_99": "99.99", "max_us": "max"}


class OfServer(Protocol):
    @property
    def machine(self) -> str: ...
    @property
    def server_name(self) -> str: ...


Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
Measured = TypeVar("Measured", bound=OfServer)


class Palette:
    """Names and colors: a server has the same ones in every chart."""

    def __init__(self, content: Content) -> None:
        self._show_machines = len(content.machines) > 1
        names = {self.name(run) for run in content.runs}
        known = [
            name for server in KNOWN_SERVERS for name in sorted(names) if name.partition("\n")[0] == server
        ]
        self._order = [*known, *sorted(names - set(known))]

    def name(self, of: OfServer) -> str:
        return f"{of.server_name}\non {of.machine[:6]}" if self._show_machines else of.server_name

    def colour(self, name: str) -> int:
        return self._order.index(name)

    def series(self, items: Iterable[Measured], point: Callable[[Measured], Point]) -> list[Series]:
        """A line per server, with a point per item."""
        return [
            Series(name, self.colour(name), [point(item) for item in group])
            for name, group in _grouped(items, self.name)
        ]


def fan_out(content: Content, palette: Palette) -> list[Plot]:
    """Throughput by number of subscribers: a chart per number of publishers and message size."""
    plots = []
    every = [figure for item in content.fan_out for figure in (item.lowest, item.highest)]
    for (pubs, size), group in _grouped(content.fan_out, lambda item: (item.num_pubs, item.msg_size)):
        seeds = [seed for seed in content.seeds if (seed.pubs, seed.msg_bytes) == (pubs, size)]
        plots.append(
            Plot(
                f"{words.count(pubs, 'publisher')}, {size:,} B",
                values_axis(
                    [item.num_subs or NO_SUBSCRIBERS for item in group] + [seed.subs for seed in seeds],
                    "subscribers",
                    lambda number: "0" if number < 1 else f"{number:,.0f}",
                ),
                log_axis([*every, *(seed.rate for seed in content.seeds)], "messages/s", words.rate),
                palette.series(
                    group,
                    lambda item: Point(
                        item.num_subs or NO_SUBSCRIBERS,
                        item.median,
                        item.lowest,
                        item.highest,
                        f"{words.count(item.num_subs, 'subscriber')}, "
                        + _tip(words.rate, item.median, item.lowest, item.highest, item.runs),
                    ),
                ),
                [
                    Reference(seed.rate, f"{seed.system}, {seed.subs} subs: {words.rate(seed.rate)}")
                    for seed in seeds
                ],
            )
        )
    return plots


def latency(content: Content, palette: Palette) -> list[Plot]:
    """Latency by percentile, on a scale on which each further nine takes the same room."""
    measured = [summary for summary in content.summaries if summary.p50]
    plots = []
    for title, group in _grouped(measured, lambda summary: words.case(summary.case)):
        ends = [
            getattr(item, f"{name}_{end}")
            for item in group
            for name in LATENCIES
            for end in ("lowest", "highest")
        ]
        series = [
            Series(
                name,
                palette.colour(name),
                [_latency_point(item, rank) for item in items for rank in LATENCIES],
            )
            for name, items in _grouped(group, palette.name)
        ]
        x = Axis(
            -math.log10(1 - 0.45),
            5.1,
            [(_nines(name), label) for name, label in RANK_LABELS.items()],
            "percentile",
        )
        plots.append(Plot(title, x, log_axis(ends, "latency", words.duration), series))
    return plots


def over_time(content: Content, palette: Palette) -> list[Plot]:
    """The 99th percentile of second after second, in the newest run of each server."""
    plots = []
    for title, group in _grouped(content.over_time, lambda item: words.case(item.case)):
        plots.append(
            Plot(
                title,
                zero_axis([item.second for item in group], "second of the run", lambda second: f"{second:g}"),
                log_axis(
                    [end for item in group for end in (item.p50, item.max_us)], "latency", words.duration
                ),
                palette.series(group, _stretch_point),
            )
        )
    return plots


def memory(content: Content, palette: Palette) -> list[Plot]:
    """Peak memory by number of connections: idle ones, and publishers and subscribers at work."""
    plots = []
    for (idle, size), group in _grouped(content.memory, lambda item: (item.idle, item.msg_size)):
        seeds = [seed for seed in content.seeds if seed.rss_bytes and seed.msg_bytes == size and not idle]
        references = [
            Reference(
                seed.rss_bytes or 0, f"{seed.system}, {seed.pubs + seed.subs:,}: {words.size(seed.rss_bytes)}"
            )
            for seed in seeds
        ]
        ends = [figure for item in group for figure in (item.lowest, item.highest)]
        plots.append(
            Plot(
                "idle connections" if idle else f"publishers and subscribers at work, {size:,} B",
                values_axis(
                    [item.clients for item in group] + [seed.pubs + seed.subs for seed in seeds],
                    "connections",
                    lambda number: f"{number:,.0f}",
                ),
                log_axis([*ends, *(reference.y for reference in references)], "peak memory", words.size),
                palette.series(group, _memory_point),
                references,
            )
        )
    return plots


def history(content: Content, palette: Palette) -> list[Plot]:
    """The headline value of run after run: a chart per case that was run more than once by some server."""
    plots = []
    valued = [run for run in content.runs if run.value is not None]
    for case, group in _grouped(valued, lambda run: words.case(run.case)):
        if max(run.number for run in group) < 2:
            continue
        first = group[0]
        seeds = [
            seed
            for seed in content.seeds
            if first.workload == "pubsub"
            and (seed.pubs, seed.subs, seed.msg_bytes) == (first.num_pubs, first.num_subs, first.msg_size)
        ]
        highest = max(run.number for run in group)
        ticks = sorted({1, highest, *range(1, highest + 1, max(1, highest // 6))})
        values = [run.value or 0 for run in group] + [seed.rate for seed in seeds]
        plots.append(
            Plot(
                case,
                Axis(
                    0.7,
                    highest + 0.3,
                    [(tick, str(tick)) for tick in ticks],
                    "run of this server, oldest first",
                ),
                zero_axis(values, words.headline(first.workload), partial(words.value, first.workload)),
                palette.series(group, _history_point),
                [Reference(seed.rate, f"{seed.system}: {words.rate(seed.rate)}") for seed in seeds],
            )
        )
    return plots


def _latency_point(item: Summary, name: str) -> Point:
    middle, low, high = (getattr(item, f"{name}{end}") for end in ("", "_lowest", "_highest"))
    return Point(
        _nines(name),
        middle,
        low,
        high,
        f"{RANK_LABELS[name]}: {_tip(words.duration, middle, low, high, item.runs)}",
    )


def _stretch_point(item: Stretch) -> Point:
    figures = (
        f"p50 {words.duration(item.p50)}, p99 {words.duration(item.p99)}, max {words.duration(item.max_us)}"
    )
    return Point(item.second, item.p99, item.p50, item.max_us, f"from second {item.second:g}: {figures}")


def _memory_point(item: Memory) -> Point:
    each = f", {words.size(item.per_connection)} per connection" if item.per_connection else ""
    return Point(
        item.clients,
        item.median,
        item.lowest,
        item.highest,
        f"{words.count(item.clients, 'connection')}, "
        + _tip(words.size, item.median, item.lowest, item.highest, item.runs)
        + each,
    )


def _history_point(run: Run) -> Point:
    value = run.value or 0
    changed = f", {words.change(run.change)}" if run.change is not None else ""
    where = f"{run.moment} UTC, version {run.server_version}, {run.run_id}"
    tip = f"{words.value(run.workload, value)}{changed} ({where})"
    return Point(run.number, value, value, value, tip)


def _tip(show: Callable[[float], str], middle: float, low: float, high: float, runs: int) -> str:
    if runs == 1:
        return show(middle)
    return f"median {show(middle)} of {runs} runs, {show(low)} to {show(high)}"


def _nines(name: str) -> float:
    return -math.log10(1 - RANKS[name])


def _grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> list[tuple[Key, Sequence[Item]]]:
    """Groups in the order of their first items."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.items())

"""The charts of the page, drawn with what the benchmark's report has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import mean
from typing import TypeVar

from headrace.bench.report.plot import Axis, Mark, Plot, Point, Series, log_axis, zero_axis
from tests.soak.faults import FAULTS
from tests.soak.record import Record, Sample

Value = TypeVar("Value")

MOST_POINTS = 240
MOST_MARKS = 12
LATENCY_RANKS = {"p50": 0.5, "p99": 0.99, "max": 1.0}


def all_charts(record: Record) -> list[Plot]:
    if len(record.samples) < 2:
        return []
    return [
        *(_latency(record, what) for what in record.latencies if record.latencies[what]),
        _rates(record),
        _figure(record, "Memory of the server", "MB", 0, lambda one: one.memory_bytes / 1e6),
        _figure(record, "Open descriptors", "", 1, lambda one: one.descriptors),
        _figure(record, "Threads", "", 2, lambda one: one.threads),
        _figure(record, "Bytes on the disk", "MB", 3, lambda one: one.store_bytes / 1e6),
        _timeline(record),
    ]


def _figure(record: Record, title: str, unit: str, colour: int, value: Callable[[Sample], float]) -> Plot:
    points = [
        _spread(slot, [value(one) for one in samples], unit)
        for slot, samples in _slots([(one.second, one) for one in record.samples], record.samples[-1].second)
    ]
    y = zero_axis([point.high for point in points], unit, _short)
    return Plot(title, _time(record), y, [Series("", colour, points, dots=False)], marks=_marks(record))


def _rates(record: Record) -> Plot:
    """Between neighbouring slots, so that a restart is a dip and not a gap."""
    series = []
    for colour, name in enumerate(("acknowledged", "delivered")):
        slots = [
            (slot, getattr(samples[-1], name))
            for slot, samples in _slots(
                [(one.second, one) for one in record.samples], record.samples[-1].second
            )
        ]
        points = [
            _point(slot, max(0.0, count - before) / max(slot - start, 1e-9), "per second")
            for (start, before), (slot, count) in pairwise(slots)
        ]
        series.append(Series(name, colour, points, dots=False))
    highest = [point.y for one in series for point in one.points] or [1.0]
    return Plot(
        "Messages per second", _time(record), zero_axis(highest, "", _short), series, marks=_marks(record)
    )


def _latency(record: Record, what: str) -> Plot:
    slots = _slots(record.latencies[what], record.samples[-1].second)
    series = []
    for colour, (name, rank) in enumerate(LATENCY_RANKS.items()):
        points = [
            _point(slot, max(percentile(values, rank), 1e-5), f"s: {name} of {len(values)}")
            for slot, values in slots
        ]
        series.append(Series(name, colour, points, dots=False))
    title = {"request": "A bystander's request", "publish": "A bystander's acknowledgement"}[what]
    y = log_axis([point.y for one in series for point in one.points], "", _seconds)
    return Plot(title, _time(record), y, series, marks=_marks(record))


def _timeline(record: Record) -> Plot:
    kinds = [name for name in FAULTS if name != "nothing"]
    series = []
    for row, name in enumerate(kinds, 1):
        moments = [fault for fault in record.faults if fault.name == name]
        points = [_point(fault.start, row, f"{name} until {fault.end:.0f} s") for fault in moments]
        if points:
            series.append(Series(name, row, points))
    wrong = [_point(one.second, 0, f"{one.kind}: {one.text}") for one in record.findings]
    if wrong:
        series.append(Series("wrong", 4, wrong))
    y = Axis(-0.5, len(kinds) + 0.5, [], "")
    return Plot("Faults, and when something was wrong", _time(record), y, series)


def percentile(values: Sequence[float], rank: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * rank))]


def _slots(values: Sequence[tuple[float, Value]], last: float) -> list[tuple[float, list[Value]]]:
    """Values by time, grouped so that there are not too many points; at the middle of each group."""
    width = max(1.0, last / MOST_POINTS)
    slots: dict[int, list[Value]] = {}
    for moment, value in sorted(values, key=lambda pair: pair[0]):
        if 0 <= moment <= last:
            slots.setdefault(int(moment / width), []).append(value)
    return [(min((slot + 0.5) * width, last), inside) for slot, inside in sorted(slots.items())]


def _time(record: Record) -> Axis:
    return zero_axis([record.samples[-1].second], "second", lambda second: f"{second:g}")


def _marks(record: Record) -> list[Mark]:
    """While there are few; the timeline has them all."""
    faults = [fault for fault in record.faults if fault.name != "nothing"]
    return [Mark(fault.start, "") for fault in faults] if len(faults) <= MOST_MARKS else []


def _spread(slot: float, values: Sequence[float], unit: str) -> Point:
    middle = mean(values)
    tip = f"{slot:.0f} s: {middle:,.1f} {unit}, {min(values):,.1f} to {max(values):,.1f}"
    return Point(slot, middle, min(values), max(values), tip)


def _point(x: float, y: float, tip: str) -> Point:
    return Point(x, y, y, y, f"{x:.0f} s: {y:,.4g} {tip}")


def _short(value: float) -> str:
    return f"{value / 1e3:g} k" if value >= 1e4 else f"{value:g}"


def _seconds(value: float) -> str:
    return f"{value:g} s" if value >= 1 else f"{value * 1000:g} ms"

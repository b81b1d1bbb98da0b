"""The charts of the page, drawn with what the benchmark's report has."""

from __future__ import annotations

import math

from examples.demo.job import Outcome
from examples.demo.latency import percentile
from examples.demo.orders import COUNTRIES, WINDOW_SECONDS
from examples.demo.summary import Latencies, seconds
from headrace.bench.report.plot import Axis, Mark, Plot, Point, Series, log_axis, zero_axis

RANKS = {50.0: "50 %", 90.0: "90", 95.0: "95", 99.0: "99", 99.9: "99.9"}
PUBLISHED, LANDED, ALL = 0, 2, 1
"""Colours."""


def progress(outcome: Outcome) -> Plot:
    samples = [sample for sample in outcome.samples if sample.second >= 0]
    lines = [("published", PUBLISHED), ("landed", LANDED)]
    series = [
        Series(
            name,
            colour,
            [_point(s.second, getattr(s, name), f"{s.second:.0f} s, {getattr(s, name):,}") for s in samples],
            dots=False,
        )
        for name, colour in lines
    ]
    return Plot(
        "Orders published, and in the table",
        _time(outcome),
        zero_axis([sample.published for sample in samples], "orders", _thousands),
        series,
        marks=_marks(outcome),
    )


def distribution(found: Latencies) -> Plot:
    groups = found.groups()
    series = [
        Series(
            "running" if number == 0 and len(groups) > 1 else "all",
            PUBLISHED if number == 0 and len(groups) > 1 else ALL,
            [
                _point(_nines(rank), value, f"{label}: {seconds(value)}")
                for rank, label in RANKS.items()
                for value in [percentile(ordered, rank)]
            ],
        )
        for number, (_, ordered) in enumerate(groups)
    ]
    x = Axis(
        _nines(45), _nines(99.93), [(_nines(rank), label) for rank, label in RANKS.items()], "percentile"
    )
    y = log_axis([point.y for one in series for point in one.points], "latency", _short_seconds)
    return Plot("Latency by percentile", x, y, series)


def latency_over_time(outcome: Outcome, found: Latencies) -> Plot:
    points = []
    for second, ordered in found.by_second(outcome):
        low, middle, high = ordered[0], percentile(ordered, 50), ordered[-1]
        points.append(
            Point(second, middle, low, high, f"second {second}: p50 {seconds(middle)}, max {seconds(high)}")
        )
    return Plot(
        "Latency by when the order was due",
        _time(outcome),
        zero_axis([point.high for point in points], "latency", _short_seconds),
        [Series("p50", PUBLISHED, points, dots=False)],
        marks=_marks(outcome),
    )


def revenue(outcome: Outcome) -> Plot:
    series = []
    for colour, country in enumerate(COUNTRIES):
        of_country = sorted(
            (at.start_ms, cents / 100) for at, _, cents in outcome.revenue if at.country == country
        )
        points = [
            _point(
                outcome.second(start / 1000),
                amount,
                f"from second {outcome.second(start / 1000):.0f}: {amount:,.0f}",
            )
            for start, amount in of_country
        ]
        series.append(Series(country, colour, points))
    return Plot(
        f"Revenue per {WINDOW_SECONDS} seconds and country",
        _seconds_axis(outcome.plan.count / outcome.plan.rate),
        zero_axis([point.y for one in series for point in one.points] or [1.0], "revenue", _thousands),
        [one for one in series if one.points],
    )


def _time(outcome: Outcome) -> Axis:
    return _seconds_axis(outcome.samples[-1].second)


def _seconds_axis(last: float) -> Axis:
    return zero_axis([last], "second of the run", lambda second: f"{second:g}")


def _marks(outcome: Outcome) -> list[Mark]:
    return [
        Mark(outcome.second(moment), label)
        for moment, label in ((outcome.killed, "kill -9"), (outcome.back, "lands again"))
        if not math.isnan(moment)
    ]


def _point(x: float, y: float, tip: str) -> Point:
    return Point(x, y, y, y, tip)


def _nines(percent: float) -> float:
    return -math.log10(1 - percent / 100)


def _thousands(value: float) -> str:
    return f"{value / 1e6:g} M" if value >= 1e6 else f"{value / 1e3:g} k" if value >= 1e3 else f"{value:g}"


def _short_seconds(value: float) -> str:
    return f"{value:g} s" if value >= 1 else f"{value * 1000:g} ms"

"""A line chart as SVG: scales, axes, points with their spread, direct labels, reference lines, marks.

Colors and fonts come from the page's style sheet, so that charts follow its light and dark mode. Numbers are
in the units of the view box, which the page scales to the available width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

WIDTH, HEIGHT = 420, 290
LEFT, RIGHT, TOP, BOTTOM = 58, 104, 26, 42
PLOT_RIGHT, PLOT_BOTTOM = WIDTH - RIGHT, HEIGHT - BOTTOM
CHARACTER = 6.4
LINE = 14
COLOURS = 6
LONGEST_NAME = 13

Format = Callable[[float], str]


@dataclass(frozen=True)
class Axis:
    """A range of values, its scale, and its ticks."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    label: str
    logarithmic: bool = False

    def place(self, value: float, start: float, end: float) -> float:
        """The position of a value between two positions."""
        if self.logarithmic:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return start + part * (end - start)


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    low: float
    high: float
    tip: str


@dataclass(frozen=True)
class Series:
    name: str
    """May have two lines."""
    colour: int
    points: Sequence[Point]
    dots: bool = True
    """Off for dense lines, whose dots would touch."""


@dataclass(frozen=True)
class Mark:
    """A position on the x axis where something happened, as a vertical line."""

    x: float
    label: str


@dataclass(frozen=True)
class Reference:
    """A published figure, as a dashed line."""

    y: float
    label: str


@dataclass(frozen=True)
class Plot:
    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    references: Sequence[Reference] = ()
    marks: Sequence[Mark] = ()


def log_axis(values: Iterable[float], label: str, show: Format) -> Axis:
    """From the 1, 2 or 5 below the lowest to the one above the highest value."""
    positive = [value for value in values if value > 0]
    low, high = _round_down(min(positive)), _round_up(max(positive))
    if low == high:
        low, high = _round_down(low * 0.99), _round_up(high * 1.01)
    wide = math.log10(high / low)
    steps = (1, 2, 5) if wide <= 2 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    return Axis(
        low, high, [(tick, show(tick)) for tick in ticks if low * 0.999 <= tick <= high * 1.001], label, True
    )


def values_axis(values: Iterable[float], label: str, show: Format) -> Axis:
    """Logarithmic, with a tick at each value, a little wider than they are."""
    ordered = sorted(set(values))
    low, high = ordered[0], ordered[-1]
    margin = (high / low) ** 0.06 if high > low else 2.0
    return Axis(low / margin, high * margin, [(value, show(value)) for value in ordered], label, True)


def zero_axis(values: Iterable[float], label: str, show: Format) -> Axis:
    """From zero to the round number above the highest value."""
    highest = max(values) or 1.0
    step = next(step for step in _round_steps(highest) if highest / step <= 5)
    high = math.ceil(highest / step) * step
    return Axis(
        0, high, [(step * n, show(step * n) if n else "0") for n in range(round(high / step) + 1)], label
    )


def draw(plot: Plot) -> str:
    """The chart as an SVG element."""
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(plot.title)}">',
        *_draw_y_axis(plot.y),
        *_draw_x_axis(plot.x),
        *_draw_references(plot),
        *_draw_marks(plot),
        *(part for series in plot.series for part in _draw_series(plot, series)),
        *_draw_names(plot),
        "</svg>",
    ]
    return "\n".join(parts)


def _draw_y_axis(axis: Axis) -> list[str]:
    parts = [_text(4, 12, axis.label, "axis")]
    for value, label in axis.ticks:
        y = axis.place(value, PLOT_BOTTOM, TOP)
        parts += [_line(LEFT, y, PLOT_RIGHT, y, "grid"), _text(LEFT - 6, y + 4, label, "tick", "end")]
    return parts


def _draw_x_axis(axis: Axis) -> list[str]:
    """Labels that would touch the one before are left out; the last one is always kept."""
    middle = (LEFT + PLOT_RIGHT) / 2
    parts = [
        _line(LEFT, PLOT_BOTTOM, PLOT_RIGHT, PLOT_BOTTOM, "base"),
        _text(middle, HEIGHT - 4, axis.label, "axis", "middle"),
    ]
    placed = [(axis.place(value, LEFT, PLOT_RIGHT), label) for value, label in axis.ticks]
    free_until = math.inf
    for x, label in reversed(placed):
        half = len(label) * CHARACTER / 2
        parts.append(_line(x, PLOT_BOTTOM, x, PLOT_BOTTOM + 4, "base"))
        if x + half <= free_until:
            parts.append(_text(x, PLOT_BOTTOM + 17, label, "tick", "middle"))
            free_until = x - half - CHARACTER
    return parts


def _draw_references(plot: Plot) -> list[str]:
    """Dashed lines; each label is above or below its line, left or right, where it hides the least."""
    parts = []
    taken = [spot for series in plot.series for spot in _spots(plot, series)]
    heights = [plot.y.place(reference.y, PLOT_BOTTOM, TOP) for reference in plot.references]
    taken += [(float(x), y) for y in heights for x in range(LEFT, PLOT_RIGHT, 8)]
    for y, reference in zip(heights, plot.references, strict=True):
        width = len(reference.label) * CHARACTER
        starts = (LEFT + 4, PLOT_RIGHT - 4 - width)
        places = [(x, middle) for middle in (y - 9, y + 10) for x in starts if TOP < middle < PLOT_BOTTOM]
        x, middle = min(places, key=lambda place: _covered(place, width, taken))
        taken += [(x + step, middle + up) for step in range(0, int(width), 4) for up in (-6, 0, 6)]
        parts += [
            _line(LEFT, y, PLOT_RIGHT, y, "reference"),
            _text(x, middle + 4, reference.label, "reference"),
        ]
    return parts


def _draw_marks(plot: Plot) -> list[str]:
    """Vertical lines; their labels are above the plot, each where the one before it leaves room."""
    parts = []
    free_from = 0.0
    for mark in sorted(plot.marks, key=lambda mark: mark.x):
        x = plot.x.place(mark.x, LEFT, PLOT_RIGHT)
        start = max(x - len(mark.label) * CHARACTER / 2, free_from)
        free_from = start + (len(mark.label) + 1) * CHARACTER
        parts += [
            _line(x, PLOT_BOTTOM, x, TOP, "mark"),
            _text(start, TOP - 4, mark.label, "mark"),
        ]
    return parts


def _spots(plot: Plot, series: Series) -> list[tuple[float, float]]:
    """Positions along a line, dense enough to see what a label would hide."""
    placed = [_place(plot, point.x, point.y) for point in series.points]
    parts = range(33)
    between = [
        (x1 + (x2 - x1) * part / 32, y1 + (y2 - y1) * part / 32)
        for (x1, y1), (x2, y2) in pairwise(placed)
        for part in parts
    ]
    return between + placed * 8


def _covered(place: tuple[float, float], width: float, spots: Sequence[tuple[float, float]]) -> int:
    left, middle = place
    return sum(left - 4 <= x <= left + width + 4 and abs(y - middle) <= 8 for x, y in spots)


def _draw_series(plot: Plot, series: Series) -> list[str]:
    placed = [(*_place(plot, point.x, point.y), point) for point in series.points]
    colour = f"c{series.colour % COLOURS}"
    title = series.name.replace("\n", " ")
    parts = [f'<g class="series {colour}">']
    if len(placed) > 1:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in placed)
        parts.append(f'<polyline points="{path}"/>')
    for x, y, point in placed:
        parts.append(f"<g><title>{escape(f'{title}: {point.tip}')}</title>")
        if point.low < point.high:
            bottom, top = (_place(plot, point.x, end)[1] for end in (point.low, point.high))
            parts.append(_line(x, bottom, x, top, "spread"))
        parts.append(f'<circle class="hit" cx="{x:.1f}" cy="{y:.1f}" r="11"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"/></g>' if series.dots else "</g>")
    return [*parts, "</g>"]


def _draw_names(plot: Plot) -> list[str]:
    """Each line's name at its right end; names that would overlap are pushed apart, in the lines' order."""
    ends = sorted(
        (_place(plot, series.points[-1].x, series.points[-1].y)[1], series.name, series.colour)
        for series in plot.series
        if series.points
    )
    parts = []
    gap = LINE * max((name.count("\n") + 1 for _, name, _ in ends), default=1)
    for y, (_, name, colour) in zip(_push_apart([end[0] for end in ends], gap), ends, strict=True):
        for number, line in enumerate(name.splitlines()):
            shown = line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + "…"
            parts.append(_text(PLOT_RIGHT + 8, y + 4 + LINE * number, shown, f"name c{colour % COLOURS}"))
    return parts


def _push_apart(positions: Sequence[float], gap: float) -> list[float]:
    """Ascending positions, each at least a gap below the one before, and none below the plot."""
    placed: list[float] = []
    for position in positions:
        placed.append(max(position, placed[-1] + gap) if placed else position)
    limit = float(PLOT_BOTTOM)
    for place in reversed(range(len(placed))):
        placed[place] = min(placed[place], limit)
        limit = placed[place] - gap
    return placed


def _place(plot: Plot, x: float, y: float) -> tuple[float, float]:
    return plot.x.place(x, LEFT, PLOT_RIGHT), plot.y.place(y, PLOT_BOTTOM, TOP)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _round_steps(value: float) -> list[float]:
    """The round numbers 1, 2, 5, 10, 20, ... around a value's order of magnitude, from far below it."""
    decade = math.floor(math.log10(value))
    return [step * 10.0**power for power in range(decade - 1, decade + 2) for step in (1, 2, 5)]


def _round_down(value: float) -> float:
    return max(step for step in _round_steps(value) if step <= value * (1 + 1e-9))


def _round_up(value: float) -> float:
    return min(step for step in _round_steps(value) if step >= value * (1 - 1e-9))

"""Lines in an SVG picture with logarithmic axes, one small chart for each line."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 250, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 34, 30
COLUMNS = 3
# Readable on light and dark pages alike: text and grid are gray.
STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#777}.t{font-weight:600}"
    ".g{stroke:#7774;stroke-width:1}.l{fill:none;stroke:#2a7de1;stroke-width:2}.p{fill:#2a7de1}"
)


@dataclass(frozen=True)
class Line:
    """What grows, and what it costs."""

    name: str
    points: list[tuple[int, float]]


def draw(lines: Sequence[tuple[str, Line]]) -> str:
    """A picture of all lines, each with the name of the part that it belongs to."""
    rows = math.ceil(len(lines) / COLUMNS)
    width, height = WIDTH * min(COLUMNS, len(lines)), HEIGHT * rows
    charts = [
        f'<g transform="translate({place % COLUMNS * WIDTH},{place // COLUMNS * HEIGHT})">'
        f"{_chart(part, line)}</g>"
        for place, (part, line) in enumerate(lines)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    return "\n".join((head, f"<style>{STYLE}</style>", *charts, "</svg>\n"))


def _chart(part: str, line: Line) -> str:
    across = _decades([count for count, _ in line.points])
    upward = _decades([value for _, value in line.points])

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * _share(value, across)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * _share(value, upward)

    drawn = [f'<text class="t" x="{LEFT}" y="14">{escape(part)}: {escape(line.name)}</text>']
    for power in range(upward[0], upward[1] + 1):
        at = y(10.0**power)
        drawn.append(f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        drawn.append(f'<text x="{LEFT - 5}" y="{at + 4:.1f}" text-anchor="end">{_short(power)}</text>')
    for power in range(across[0], across[1] + 1):
        at = x(10.0**power)
        drawn.append(f'<text x="{at:.1f}" y="{HEIGHT - 12}" text-anchor="middle">{_short(power)}</text>')
    places = [(x(count), y(value)) for count, value in line.points]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    drawn.append(f'<polyline class="l" points="{path}"/>')
    drawn += [f'<circle class="p" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in places]
    return "".join(drawn)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around all values, at least two."""
    least, most = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return least, max(most, least + 1)


def _share(value: float, decades: tuple[int, int]) -> float:
    return (math.log10(value) - decades[0]) / (decades[1] - decades[0])


def _short(power: int) -> str:
    value = 10.0**power
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"

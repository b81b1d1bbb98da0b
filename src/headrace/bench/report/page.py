"""The report as one HTML page that needs nothing else: no script, no font, no picture from anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

from headrace.bench.report import charts, tables
from headrace.bench.report.content import Content
from headrace.bench.report.plot import Plot, draw
from headrace.bench.report.style import STYLE
from headrace.bench.report.tables import Table

NO_CHART = "No saved run has figures for this."

CHARTS: list[tuple[str, str, Callable[[Content, charts.Palette], list[Plot]]]] = [
    (
        "Throughput by fan-out",
        "Messages per second, published and delivered together; both axes are logarithmic. A point is the "
        "median of its runs, the bar behind it goes from the lowest to the highest. Dashed: the "
        "predecessors' figures, taken on other machines.",
        charts.fan_out,
    ),
    (
        "Latency percentiles",
        "How long the slowest took: 99.9 means that one in a thousand took longer. Each further nine takes "
        "the same room; the latency axis is logarithmic.",
        charts.latency,
    ),
    (
        "Latency over time",
        "The newest run of each server: a point is the 99th percentile of a second (of several, in a long "
        "run), the bar goes from the median to the highest. A stall is a peak that one server has alone.",
        charts.over_time,
    ),
    (
        "Memory by connections",
        "The server's peak resident memory. Dashed: the predecessors' figures, taken on other machines.",
        charts.memory,
    ),
    (
        "History across runs",
        "The same work, run after run. A chart appears once a server has run it twice.",
        charts.history,
    ),
]


def html(content: Content) -> str:
    palette = charts.Palette(content)
    said, *warnings = tables.comparison(content)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>Benchmark report</title><style>{STYLE}</style></head><body>",
        "<h1>Benchmark report</h1>",
        f'<p class="soft">{escape(said)}</p>',
        *(f'<p class="warning">{escape(warning)}</p>' for warning in warnings),
        *_section(
            "Summary",
            "Over all runs of the same work: spread is highest minus lowest, as a share of the median.",
        ),
        _table(tables.summaries(content)),
        *(part for title, text, kind in CHARTS for part in _charts(title, text, kind(content, palette))),
        *_optional("Latencies", "The median of its runs for each percentile.", tables.latencies(content)),
        *_optional(
            "Beside the predecessors",
            "Their best published figure for the same clients and message size. Their machines were others, "
            "so this is a reference, not a comparison.",
            tables.beside_seeds(content),
        ),
        *_section("Runs", "Everything that was compared."),
        f"<details><summary>All runs ({len(content.runs)})</summary>{_table(tables.runs(content))}</details>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _section(title: str, text: str) -> Iterable[str]:
    return f"<h2>{escape(title)}</h2>", f'<p class="soft">{escape(text)}</p>'


def _charts(title: str, text: str, plots: list[Plot]) -> Iterable[str]:
    yield from _section(title, text)
    if not plots:
        yield f"<p>{NO_CHART}</p>"
        return
    yield '<div class="charts">'
    for plot in plots:
        yield f"<figure><figcaption>{escape(plot.title)}</figcaption>{draw(plot)}</figure>"
    yield "</div>"


def _optional(title: str, text: str, table: Table) -> Iterable[str]:
    return [*_section(title, text), _table(table)] if table.rows else []


def _table(table: Table) -> str:
    def row(cells: Iterable[str], tag: str) -> str:
        marks = ["" if place < table.texts else ' class="figure"' for place in range(len(table.head))]
        inside = "".join(
            f"<{tag}{mark}>{escape(cell)}</{tag}>" for cell, mark in zip(cells, marks, strict=True)
        )
        return f"<tr>{inside}</tr>"

    body = "\n".join(row(cells, "td") for cells in table.rows)
    head = row(table.head, "th")
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'

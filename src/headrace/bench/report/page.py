"""The report as one HTML page (`markup` has its pieces)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

from headrace.bench.report import charts, tables
from headrace.bench.report.content import Content
from headrace.bench.report.markup import document, figures, section, table
from headrace.bench.report.plot import Plot
from headrace.bench.report.tables import Table

NO_CHART = "No saved run has figures for this."

CHARTS: list[tuple[str, str, Callable[[Content, charts.Palette], list[Plot]]]] = [
    (
        "Throughput by fan-out",
        "Messages per second, published and delivered together; both axes are logarithmic. A point is the "
        "median of its runs, the bar behind it goes from the lowest to the highest. Dashed: the "
        "published figures of rnats and beaver, two small NATS servers in Rust, on other machines.",
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
        "The server's peak resident memory. Dashed: figures of rnats and beaver, on other machines.",
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
        f'<p class="soft">{escape(said)}</p>',
        *(f'<p class="warning">{escape(warning)}</p>' for warning in warnings),
        *section(
            "Summary",
            "Over all runs of the same work: spread is highest minus lowest, as a share of the median.",
        ),
        table(tables.summaries(content)),
        *(part for title, text, kind in CHARTS for part in _charts(title, text, kind(content, palette))),
        *_optional("Latencies", "The median of its runs for each percentile.", tables.latencies(content)),
        *_optional(
            "Compared with rnats and beaver",
            "Their best published figure for the same clients and message size. Their machines were others, "
            "so this is a reference, not a comparison.",
            tables.compared_with_seeds(content),
        ),
        *section("Runs", "Everything that was compared."),
        f"<details><summary>All runs ({len(content.runs)})</summary>{table(tables.runs(content))}</details>",
    ]
    return document("Benchmark report", parts)


def _charts(title: str, text: str, plots: list[Plot]) -> Iterable[str]:
    yield from section(title, text)
    yield from figures(plots) if plots else [f"<p>{NO_CHART}</p>"]


def _optional(title: str, text: str, content: Table) -> Iterable[str]:
    return [*section(title, text), table(content)] if content.rows else []

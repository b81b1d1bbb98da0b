"""The report's tables as Markdown, for a README or a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.bench.report import tables
from headrace.bench.report.content import Content
from headrace.bench.report.tables import Table


def markdown(content: Content) -> str:
    parts = ["# Benchmark report", *tables.comparison(content), _table(tables.summaries(content))]
    for title, table in (
        ("Latencies", tables.latencies(content)),
        (
            "Compared with rnats and beaver (two small NATS servers in Rust), on other machines",
            tables.compared_with_seeds(content),
        ),
        ("Runs", tables.runs(content)),
    ):
        if table.rows:
            parts += [f"## {title}", _table(table)]
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    lines = ["---" if place < table.texts else "---:" for place in range(len(table.head))]
    return "\n".join(_row(cells) for cells in (table.head, lines, *table.rows))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

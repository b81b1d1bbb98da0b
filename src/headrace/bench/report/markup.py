"""The pieces of a self-contained page: no script, no font, no image from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from headrace.bench.report.plot import Plot, draw
from headrace.bench.report.style import STYLE
from headrace.bench.report.tables import Table


def document(title: str, parts: Iterable[str]) -> str:
    """A complete page; its parts are markup already."""
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        *parts,
        "</body></html>",
    ]
    return "\n".join(lines) + "\n"


def section(title: str, text: str) -> list[str]:
    return [f"<h2>{escape(title)}</h2>", f'<p class="soft">{escape(text)}</p>']


def figures(plots: Iterable[Plot]) -> list[str]:
    """Charts side by side, as many as there is room for."""
    drawn = [f"<figure><figcaption>{escape(plot.title)}</figcaption>{draw(plot)}</figure>" for plot in plots]
    return ['<div class="charts">', *drawn, "</div>"]


def table(content: Table) -> str:
    def row(cells: Iterable[str], tag: str) -> str:
        marks = ["" if place < content.texts else ' class="figure"' for place in range(len(content.head))]
        inside = "".join(
            f"<{tag}{mark}>{escape(cell)}</{tag}>" for cell, mark in zip(cells, marks, strict=True)
        )
        return f"<tr>{inside}</tr>"

    body = "\n".join(row(cells, "td") for cells in content.rows)
    head = row(content.head, "th")
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'

"""How far a run is: a bar that rewrites itself on a terminal, a plain line elsewhere. Always on stderr."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from headrace.bench.compare import Row
from headrace.bench.servers import Server

SHORTEST_BAR, LONGEST_BAR = 8, 30


class Bar:
    """Of one run: `with Bar("what is run") as bar: bar(0.5)`."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._on_terminal = sys.stderr.isatty()

    def __enter__(self) -> Bar:
        if self._on_terminal:
            self(0.0)
        else:
            print(self._title, file=sys.stderr, flush=True)
        return self

    def __call__(self, share: float) -> None:
        if self._on_terminal:
            share = min(max(share, 0.0), 1.0)
            room = _columns() - len(" [] 100%")
            width = min(max(room - len(self._title), SHORTEST_BAR), LONGEST_BAR)
            filled = round(share * width)
            bar = "#" * filled + "." * (width - filled)
            _rewrite(f"{_cut(self._title, room - width)} [{bar}] {share:4.0%}")

    def __exit__(self, *_: object) -> None:
        if self._on_terminal:
            _rewrite("")


class Rounds:
    """Of a comparison: which row, which round, which server."""

    def __init__(self, rows: Sequence[Row], rounds: int) -> None:
        self._rows, self._rounds = list(rows), rounds
        self._on_terminal = sys.stderr.isatty()
        self._last: Row | None = None

    def __call__(self, row: Row, number: int, server: Server) -> None:
        place = f"[{self._rows.index(row) + 1}/{len(self._rows)}] {row.name}"
        if self._on_terminal:
            _rewrite(f"{place}: round {number + 1} of {self._rounds}, {server.name}")
        elif row is not self._last:
            print(place, file=sys.stderr, flush=True)
        self._last = row

    def finish(self) -> None:
        if self._on_terminal:
            _rewrite("")


def _columns() -> int:
    """The width of a line: one less than the terminal, in whose last column the cursor would wrap."""
    return shutil.get_terminal_size().columns - 1


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _rewrite(text: str) -> None:
    print(f"\r\033[K{_cut(text, _columns())}", end="", file=sys.stderr, flush=True)

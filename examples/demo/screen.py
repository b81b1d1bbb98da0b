"""What the demo prints: a line every two seconds, what happens in between, and the result as tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from examples.demo.watch import Sample

COLUMNS = ("published", "stored", "landed", "dead", "alerts", "behind", "published/s", "landed/s")
WIDTHS = (11, 11, 11, 6, 8, 9, 13, 10)
SHOW_SECONDS = 2.0
SHOW_UNCHANGED_SECONDS = 10.0


class Screen:
    def __init__(self) -> None:
        self.shown: Sample | None = None

    def say(self, text: str) -> None:
        print(text, flush=True)

    def head(self) -> None:
        titles = "".join(f"{title:>{width}}" for title, width in zip(COLUMNS, WIDTHS, strict=True))
        self.say(f"\n  time{titles}")

    def sample(self, sample: Sample) -> None:
        """A row every two seconds; where nothing changes, every ten."""
        if self.shown:
            seconds = sample.second - self.shown.second + 0.25
            if seconds < SHOW_SECONDS or (
                replace(sample, second=self.shown.second) == self.shown and seconds < SHOW_UNCHANGED_SECONDS
            ):
                return
        self.row(sample)

    def row(self, sample: Sample) -> None:
        """How far everything is, and how fast since the row before."""
        if sample is self.shown:
            return
        before = self.shown or Sample(0.0, 0, 0, 0, 0, 0)
        seconds = max(sample.second - before.second, 0.1)
        figures = (
            sample.published,
            sample.stored,
            sample.landed,
            sample.dead_letters,
            sample.alerts,
            max(0, sample.behind),
            round((sample.published - before.published) / seconds),
            max(0, round((sample.landed - before.landed) / seconds)),
        )
        shown = "".join(f"{figure:>{width},}" for figure, width in zip(figures, WIDTHS, strict=True))
        self.say(f"{sample.second:4.0f} s{shown}")
        self.shown = sample

    def event(self, second: float, text: str) -> None:
        self.say(f"{second:4.0f} s  >>> {text}")

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """The first column to the left, figures to the right."""
        widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
        for cells in [head, *rows]:
            first, *others = (f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
            self.say("  " + "   ".join([f"{first.strip():<{widths[0]}}", *others]))

    @staticmethod
    def short(path: Path) -> str:
        """As one would type it here."""
        relative = os.path.relpath(path)
        return str(path) if relative.startswith("..") else relative


def fail(text: str) -> None:
    print(f"\nFAILED: {text}", file=sys.stderr, flush=True)

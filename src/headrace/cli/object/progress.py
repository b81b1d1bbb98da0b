"""How much of a file has gone: a line on the terminal that replaces itself."""

from __future__ import annotations

import sys
import time

from headrace.cli.human import size

LEAST_BYTES = 20 * 1024
SHOWN_EVERY_SECONDS = 0.1
_ERASE_LINE = "\r\x1b[K"


class Progress:
    """Shows nothing unless stderr is a terminal and the file is worth it; `total` may be unknown."""

    def __init__(self, total: int | None, *, wanted: bool) -> None:
        self._total = total
        self._shown = wanted and sys.stderr.isatty() and (total is None or total >= LEAST_BYTES)
        self._start = time.monotonic()
        self._next = self._start
        self._done = 0

    def add(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if self._shown and now >= self._next:
            self._next = now + SHOWN_EVERY_SECONDS
            rate = size(int(self._done / max(now - self._start, 0.001)))
            whole = (
                f" of {size(self._total)}  {100 * self._done // max(self._total, 1)} %" if self._total else ""
            )
            sys.stderr.write(f"{_ERASE_LINE}{size(self._done)}{whole}  {rate}/s")
            sys.stderr.flush()

    def finish(self) -> None:
        if self._shown:
            sys.stderr.write(_ERASE_LINE)
            sys.stderr.flush()

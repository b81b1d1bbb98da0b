"""How far a long command is: one line on stderr that is rewritten, if that is a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from types import TracebackType

from headrace.cli.human import duration, size
from headrace.cli.output import plural

INTERVAL_SECONDS = 0.2
CLEAR_LINE = "\r\x1b[K"


class Progress:
    """Counts messages, or bytes. Use it with `with`: the line is gone at the end."""

    def __init__(self, verb: str, total: int, *, in_bytes: bool = False, shown: bool = True) -> None:
        self.done = 0
        self._verb = verb
        self._total = total
        self._in_bytes = in_bytes
        self._shown = shown and sys.stderr.isatty()
        self._started = self._printed = time.monotonic()

    def advance(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if self._shown and now - self._printed >= INTERVAL_SECONDS:
            self._printed = now
            self._print(f"headrace: {self._verb} {self._share()}, {self._rate()} per second")

    def summary(self) -> str:
        """`1,000 messages in 1.2s`, for the last line."""
        return f"{self._amount(self.done)} in {duration(round(self._seconds() * 1e9))}"

    def _share(self) -> str:
        if self._total <= 0:
            return self._amount(self.done)
        share = min(self.done / self._total, 1.0)  # an archive may be larger than the messages in it
        return f"{self._amount(self.done)} of {self._amount(self._total)}, {share:.0%}"

    def _rate(self) -> str:
        return self._amount(round(self.done / max(self._seconds(), 0.001)))

    def _amount(self, count: int) -> str:
        return size(count) if self._in_bytes else plural(count, "message")

    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _print(self, text: str) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{CLEAR_LINE}{text}")
            sys.stderr.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._print("")

"""rate_limit_bps: how fast a push consumer may send.

It is a bucket of bytes that fills at that rate, and holds at least one message.
"""

from __future__ import annotations

from headrace.go_formats import NANOSECONDS


class RateLimit:
    def __init__(self, bits_per_second: int, burst: int, now: int) -> None:
        self._rate = max(1, bits_per_second // 8)
        self._burst = burst
        self._tokens = float(burst)
        self._filled = now

    def budget(self, now: int) -> int:
        """Bytes that may be sent now; if not positive, none: see `wait`."""
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._rate / NANOSECONDS)
        self._filled = now
        return int(self._tokens)

    def note(self, size: int) -> None:
        """A message may use more than there is; the debt is paid off before the next one."""
        self._tokens -= size

    @property
    def wait(self) -> int:
        """Nanoseconds until something may be sent again."""
        return int((1 - self._tokens) * NANOSECONDS / self._rate) + 1

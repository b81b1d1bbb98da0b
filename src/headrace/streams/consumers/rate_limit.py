"""The rate limit of a push consumer: a bucket of bytes that fills at that rate, and holds one message at
least.
"""

from __future__ import annotations

NANOSECONDS = 1_000_000_000


class RateLimit:
    def __init__(self, bits_per_second: int, burst: int, now: int) -> None:
        self._rate = max(1, bits_per_second // 8)
        self._burst = burst
        self._tokens = float(burst)
        self._filled = now

    def budget(self, now: int) -> int:
        """Bytes that may go now; not positive: none, see `wait`."""
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._rate / NANOSECONDS)
        self._filled = now
        return int(self._tokens)

    def note(self, size: int) -> None:
        """A message may take more than there is: the debt is paid off before the next one."""
        self._tokens -= size

    @property
    def wait(self) -> int:
        """Nanoseconds until something may go again."""
        return int((1 - self._tokens) * NANOSECONDS / self._rate) + 1

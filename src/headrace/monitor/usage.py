"""What this process uses: memory and processor time."""

from __future__ import annotations

import os
import resource
import time

SAMPLE_SECONDS = 1.0


def resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux: the largest size so far is the best estimate
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class ProcessorShare:
    """Percent of one core, over the time since the last sample; a sample is at least a second long."""

    def __init__(self) -> None:
        self._share = 0.0
        self._sampled_at = time.monotonic()
        self._used = time.process_time()

    def read(self) -> float:
        now = time.monotonic()
        if now - self._sampled_at >= SAMPLE_SECONDS:
            used = time.process_time()
            self._share = round(100 * (used - self._used) / (now - self._sampled_at), 1)
            self._sampled_at, self._used = now, used
        return self._share

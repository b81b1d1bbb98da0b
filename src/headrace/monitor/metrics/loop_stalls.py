"""How long the event loop keeps others waiting, measured by a timer that is due ten times a second.

However long a turn of the loop takes, the timer is run after it: how late it is run is what anybody else had
to wait who came at that moment. So a stall of more than TIMER_SECONDS is always seen, a shorter one now and
then, in proportion to its length; and it costs nothing while messages are handled. (Timing every turn would
take a hook into the loop, which uvloop does not have.)
"""

from __future__ import annotations

import asyncio
import time

from headrace.monitor.metrics.histogram import Histogram

TIMER_SECONDS = 0.1
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class LoopStalls:
    def __init__(self) -> None:
        self.seconds = Histogram(BOUNDS)
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def start(self) -> None:
        self._due = time.monotonic() + TIMER_SECONDS
        self._timer = asyncio.get_running_loop().call_later(TIMER_SECONDS, self._on_timer)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        # A loop rounds its timers to milliseconds, and may run one a little early.
        self.seconds.observe(max(time.monotonic() - self._due, 0.0))
        self.start()

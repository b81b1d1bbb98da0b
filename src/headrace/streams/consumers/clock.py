"""A clock that nobody can set: it starts with the time of day and then only counts.

Consumers measure with it how long they wait, so that nothing expires, and nothing waits for a day, because
somebody corrected the time of the machine. What they tell, and what they compare with a date, is the time of
day.
"""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]


def steady_clock(time_of_day: Clock) -> Clock:
    """Nanoseconds, equal to those of the time of day at this moment."""
    start = time_of_day() - time.monotonic_ns()
    return lambda: start + time.monotonic_ns()

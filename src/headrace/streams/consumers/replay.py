"""Replay with the original timing: messages that were stored before the consumer started keep their
distances.
"""

from __future__ import annotations

from headrace.streams.consumers.core import Core

SHORTEST_WAIT = 1_000_000
"""Nanoseconds; messages that came closer are delivered at once."""


class Replay:
    """Inactive for `instant`, and once the consumer has caught up with where the stream was at its start."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._end = core.log.last_seq if core.config.replay_policy == "original" else 0
        self._last_time = 0
        self._last_delivery = 0
        self._next_time = 0

    @property
    def is_active(self) -> bool:
        return self._end > 0

    def must_wait(self) -> bool:
        """Whether the next message is not due yet; then the alarm is set to when it is."""
        if not self._end:
            return False
        core = self._core
        stored = core.log.next(core.cursor.next_seq, core.cursor.filter)
        if stored is None or stored.seq > self._end:
            self._end = 0
            return False
        self._next_time = stored.time
        distance = stored.time - self._last_time
        if not self._last_time or distance <= SHORTEST_WAIT:
            return False
        due = self._last_delivery + distance
        if due <= core.now():
            return False
        core.alarm.set("replay", due)
        return True

    def note_delivery(self) -> None:
        if self._end:
            self._last_time = self._next_time
            self._last_delivery = self._core.now()

"""Pausing a consumer (pause_until): nothing is delivered before that time. An advisory says when it ends."""

from __future__ import annotations

from headrace.streams.consumers.core import Core
from headrace.streams.formats import parse_time


def pause_until(core: Core) -> int:
    """0 if it was never paused."""
    return parse_time(core.config.pause_until) if core.config.pause_until else 0


def is_paused(core: Core) -> bool:
    return pause_until(core) > core.time_of_day()


def schedule_end(core: Core) -> None:
    """Set the alarm, which follows the steady clock."""
    core.alarm.clear("pause")
    if is_paused(core):
        core.alarm.set("pause", core.now() + pause_until(core) - core.time_of_day())


def on_alarm(core: Core) -> bool:
    """Whether the pause is over; then an advisory says so."""
    if is_paused(core):  # the time of day was set back
        schedule_end(core)
        return False
    core.advisories.paused(pause_until(core))
    return True

"""What runs when the program ends without having stopped its servers."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable

_ACTIONS: dict[object, Callable[[], None]] = {}


def at_program_end(owner: object, action: Callable[[], None]) -> None:
    """Call it then, unless `forget(owner)` comes first."""
    _ACTIONS[owner] = action


def forget(owner: object) -> None:
    _ACTIONS.pop(owner, None)


def _run_actions() -> None:
    while _ACTIONS:
        _, action = _ACTIONS.popitem()
        action()


# Before the threads of executors end, which a server uses while it stops: `atexit` comes too late for that.
getattr(threading, "_register_atexit", atexit.register)(_run_actions)
os.register_at_fork(after_in_child=_ACTIONS.clear)  # a fork has no servers

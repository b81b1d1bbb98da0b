"""Waits for a server that is away for a moment: it is being restarted, or its cluster elects a leader.

A query runs for weeks and must survive that. But after mistyping an address or a password, nobody should
have to wait for the error. So how patient we are depends on what we know about the server:

| contact | waits for |
|---|---|
| none: the first question of a new query | a leader |
| assumed: a task of the sink | that, and a server that does not listen |
| made: all others | that, and a host name that is unknown for a moment, and JetStream |

Nobody waits when the server refuses us, or knows no such stream.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from typing import TypeVar

from headrace.client.errors import ApiError, ConnectionFailed, NoResponders, RequestTimeout
from headrace.client.refusals import Refused, UnknownHost
from headrace.errors import HeadraceError
from headrace.spark.notice import notice

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
SERVER_ERROR = 500  # and above, as in HTTP: not our fault

Answer = TypeVar("Answer")


class Contact(enum.IntEnum):
    """What we know about the server."""

    NONE = 0
    ASSUMED = 1
    MADE = 2


def patiently(work: Callable[[], Answer], contact: Callable[[], Contact], seconds: float) -> Answer:
    """The result of `work`, which is repeated for up to `seconds` if that may help. Raises its last error."""
    began, waits = time.monotonic(), False
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            answer = work()
        except HeadraceError as error:
            if not may_pass(error, contact()) or time.monotonic() + pause > began + seconds:
                raise
            if not waits:
                waits = True
                notice(f"{error}: waiting up to {seconds:g} s (nats.reconnectTimeout)")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        else:
            if waits:
                notice(f"the server answers again after {time.monotonic() - began:.1f} s")
            return answer


def may_pass(error: HeadraceError, contact: Contact) -> bool:
    """Whether a retry in a moment may succeed."""
    if isinstance(error, Refused):
        return False
    if isinstance(error, RequestTimeout):
        return True
    if isinstance(error, ApiError):
        return error.code >= SERVER_ERROR
    if isinstance(error, UnknownHost | NoResponders):
        return contact is Contact.MADE
    return isinstance(error, ConnectionFailed) and contact is not Contact.NONE

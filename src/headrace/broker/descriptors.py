"""File descriptors: as many as the process may have, and some that clients cannot take.

Every client takes one, and so does every file of a stream that is read or written. Clients alone must not be
able to use them all up: nothing could be read from disk any more.
"""

from __future__ import annotations

import resource
import time

from headrace.logs import Logger

RESERVED_SHARE = 4  # one in four, but at most
MOST_RESERVED = 1024
COMPLAINT_SECONDS = 10.0


def raise_limit() -> None:
    """Raise the limit as far as the process may, as Go programs do at startup."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class DescriptorReserve:
    """Decides whether a client may keep its descriptor, and logs a warning now and then if not."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._complained_at = -COMPLAINT_SECONDS

    def has_room_for(self, descriptor: int) -> bool:
        """The kernel gives the lowest number that is free, so a high one means that few are left."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        reserved = min(limit // RESERVED_SHARE, MOST_RESERVED)
        if descriptor < limit - reserved:
            return True
        now = time.monotonic()
        if now - self._complained_at > COMPLAINT_SECONDS:
            self._complained_at = now
            self._logger.error(
                f"Clients are refused: the process may open {limit} files, and the last {reserved} of them"
                " are reserved for streams. Raise the limit (ulimit -n)"
            )
        return False

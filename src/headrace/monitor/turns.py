"""One step of the monitor in a turn of the event loop, for all its peers together, first come, first served.

Whoever sends many requests at once, over one connection or many, has them answered one by one: between two of
them the server does everything else. Without this, 50 requests in one write were answered in one turn, and
nobody else was served meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    def __init__(self) -> None:
        self._lock = asyncio.Lock()  # which is fair

    @asynccontextmanager
    async def next(self) -> AsyncIterator[None]:
        """What is done in the block, without an await, is all that the monitor does in this turn."""
        async with self._lock:
            await asyncio.sleep(0)
            yield

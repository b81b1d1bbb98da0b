"""One step of the monitor in a turn of the event loop, for all its peers together, first come, first served.

Many requests at once, over one connection or many, are answered one by one, and the server does everything
else in between. Without this, 50 requests in one write were answered in one turn, and nobody else was served
in the meantime.
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
        """The monitor does nothing else in this turn than this block, which must not await."""
        async with self._lock:
            await asyncio.sleep(0)
            yield

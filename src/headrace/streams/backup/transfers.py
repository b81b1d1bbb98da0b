"""The snapshots and restores of one account that are in progress."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Coroutine

from headrace.logs import Logger


class Transfers:
    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[None, None, None], what: str) -> None:
        """It begins in the next turn of the event loop: the response to its request goes first."""
        task = asyncio.get_running_loop().create_task(self._run(work, what), name=what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """End all of them, unfinished. Nothing is left of a restore."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, work: Coroutine[None, None, None], what: str) -> None:
        try:
            await work
        except Exception as error:  # a bug: nobody waits for this task
            trace = "".join(traceback.format_exception(error))
            self._logger.error(f"{what} failed: {trace}")

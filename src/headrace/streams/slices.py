"""Work on a large stream, a slice at a time: no request may keep everybody else waiting.

The event loop's thread owns the streams, so whoever goes through a million messages in one piece holds up
every client. Such work is cut into steps of a few thousand records. All that is under way, for whatever
stream or request, waits in one line: a turn of the loop takes steps from it for about two milliseconds, one
of each in turn. The rules that keep this correct are few:

- A step leaves the stream as consistent as any publish does. Nothing but sequences is carried from one step
  to the next: each looks at what is there by then.
- What a request concerns is fixed when it begins: a purge takes nothing that was published after it.
- Requests about one stream are handled one after another (the line in api.py), so two purges, or a purge
  and an update, never mix; the answer comes when all is done and on disk. Publishes, deliveries,
  acknowledgements and ages go on in between: they are single steps themselves.
- Every removal is a record of the log, so a crash in between leaves some of it done, and nobody was told
  that it is.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from headrace.streams.errors import api_error

if TYPE_CHECKING:
    from headrace.engine.log import Log

SLICE_SECONDS = 0.002
STEP_RECORDS = 2000
"""Records that a step may read; about half a millisecond."""


Step = Callable[[], bool]
"""Does a part, and says whether that was the last."""


class Line:
    """The steps that are under way in one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._steps: deque[Step] = deque()
        self._until: float | None = None  # when this turn has had its share; None if it has not begun
        self._is_running = False

    def add(self, step: Step) -> None:
        """Call it, again and again, until all is done; at once, if there is time left in this turn."""
        self._steps.append(step)
        if not self._is_running:
            self._run()

    def _run(self) -> None:
        is_first = self._until is None
        if self._until is None:
            self._until = time.monotonic() + SLICE_SECONDS
            self._loop.call_soon(self._begin_turn)
        self._is_running = True
        try:
            while self._steps and (is_first or time.monotonic() < self._until):
                is_first = False
                step = self._steps.popleft()
                if not step():
                    self._steps.append(step)
        finally:
            self._is_running = False

    def _begin_turn(self) -> None:
        self._until = None
        if self._steps:
            self._run()


_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, Line] = WeakKeyDictionary()


def wait_in_line(step: Step) -> None:
    """Have all of it done, in turn with everything else. What the step raises is a bug."""
    loop = asyncio.get_running_loop()
    if loop not in _lines:
        _lines[loop] = Line(loop)
    _lines[loop].add(step)


async def in_slices(step: Step) -> None:
    """Have all of it done, and wait for it."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def step_until_done() -> bool:
        if done.done():  # whoever waited was cancelled
            return True
        try:
            is_done = step()
        except Exception as error:
            done.set_exception(error)
            return True
        if is_done:
            done.set_result(None)
        return is_done

    wait_in_line(step_until_done)
    await done


async def remove_in_slices(log: Log, step: Step) -> None:
    """The same for a step that removes messages; what is removed is committed as it goes.

    Raises ApiError if the disk fails meanwhile: what could not be written is there again.
    """
    failures: list[str] = []

    def note(failure: str | None) -> None:
        if failure:
            failures.append(failure)

    def step_and_commit() -> bool:
        is_done = step()
        log.when_committed(note)
        return is_done or bool(failures)

    try:
        await in_slices(step_and_commit)
    except OSError as error:  # of a log that takes no more writes
        raise api_error("stream_store_failed", err=str(error)) from None
    if failures:
        raise api_error("stream_store_failed", err=failures[0])


class Background:
    """Work in slices that goes on by itself.

    `step` removes a part and says whether that was all. What is removed is committed as it goes. If the log
    takes no writes at present, it is left for the next time.
    """

    def __init__(self, log: Log, step: Step) -> None:
        self._log = log
        self._step = step
        self._under_way: object = None  # another one for each time that it is started
        self._waiting: list[asyncio.Future[None]] = []

    def start(self) -> None:
        """Unless it is under way."""
        if self._under_way is None:
            this = self._under_way = object()
            wait_in_line(lambda: self._under_way is not this or self._run())

    def stop(self) -> None:
        self._end()

    async def finished(self) -> None:
        """Wait until there is nothing left to do."""
        if self._under_way is not None:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(done)
            await done

    def _run(self) -> bool:
        is_done = True
        try:
            is_done = self._step()
        except OSError:
            pass
        finally:
            self._log.commit()
            if is_done:
                self._end()
        return is_done

    def _end(self) -> None:
        self._under_way = None
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            if not done.done():
                done.set_result(None)

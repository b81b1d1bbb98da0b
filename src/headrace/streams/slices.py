"""Work on a large stream, a slice at a time: no request may keep everybody else waiting.

The event loop's thread owns the streams, so whoever goes through a million messages in one piece holds up
every client. Such work is cut into steps of a few thousand records; after about two milliseconds of them the
loop has a turn. The rules that keep this correct are few:

- A step leaves the stream as consistent as any publish does. Nothing but sequences is carried from one step
  to the next: each looks at what is there by then.
- What a request concerns is fixed when it begins: a purge takes nothing that was published after it.
- Requests about one stream are handled one after another (the line in api.py), so two purges, or a purge
  and an update, never mix; the answer comes when all is done and on disk. Publishes, deliveries,
  acknowledgements and ages go on in between: they are single steps themselves.
- Every removal is a record of the log, so a crash in between leaves some of it done, and nobody was told
  that it is.
- Work that gets nowhere would keep its stream busy for ever, and nobody would know. Where the caller can
  say how far it is (`place`), a thousand steps on the spot are an error: the request is answered with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.streams.errors import api_error

if TYPE_CHECKING:
    from headrace.engine.log import Log

SLICE_SECONDS = 0.002
STEP_RECORDS = 2000
"""Records that a step may read; about half a millisecond."""
STUCK_STEPS = 1000
"""Steps in a row that may leave the work where it was."""


class StuckError(RuntimeError):
    """A mistake of ours: the work would never have ended."""


class Watchdog:
    """Looks at how far the work is after every step. Raises StuckError if it has stopped moving."""

    def __init__(self, place: Callable[[], object] | None) -> None:
        self._place = place
        self._last: object = None
        self._steps = 0

    def check(self) -> None:
        if self._place is None:
            return
        place = self._place()
        if place != self._last:
            self._last, self._steps = place, 0
        self._steps += 1
        if self._steps >= STUCK_STEPS:
            raise StuckError(f"no progress in {STUCK_STEPS} steps at {place}")


async def in_slices(step: Callable[[], bool], *, place: Callable[[], object] | None = None) -> None:
    """Call `step` until it says that all is done. Raises StuckError if `place` stays the same."""
    until = time.monotonic() + SLICE_SECONDS
    watchdog = Watchdog(place)
    while not step():
        watchdog.check()
        if time.monotonic() > until:
            await asyncio.sleep(0)
            until = time.monotonic() + SLICE_SECONDS


async def remove_in_slices(
    log: Log, step: Callable[[], bool], *, place: Callable[[], object] | None = None
) -> None:
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
        await in_slices(step_and_commit, place=place)
    except OSError as error:  # of a log that takes no more writes
        raise api_error("stream_store_failed", err=str(error)) from None
    if failures:
        raise api_error("stream_store_failed", err=failures[0])


class Background:
    """Work in slices that goes on by itself: the first slice at once, the others in later turns of the loop.

    `step` removes a part and says whether that was all. What is removed is committed as it goes. If the log
    takes no writes at present, it is left for the next time. If `place` shows that it gets nowhere, it is
    given up and `on_stuck` is called.
    """

    def __init__(
        self,
        log: Log,
        step: Callable[[], bool],
        *,
        place: Callable[[], object] | None = None,
        on_stuck: Callable[[StuckError], object] | None = None,
    ) -> None:
        self._log = log
        self._step = step
        self._place = place
        self._on_stuck = on_stuck
        self._watchdog = Watchdog(place)
        self._handle: asyncio.Handle | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def start(self) -> None:
        """Unless it is under way."""
        if self._handle is None:
            self._watchdog = Watchdog(self._place)
            self._run()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._end()

    async def finished(self) -> None:
        """Wait until there is nothing left to do."""
        if self._handle is not None:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(done)
            await done

    def _run(self) -> None:
        self._handle = None
        until = time.monotonic() + SLICE_SECONDS
        try:
            while not self._step():
                self._watchdog.check()
                if time.monotonic() > until:
                    self._handle = asyncio.get_running_loop().call_soon(self._run)
                    return
        except OSError:
            return
        except StuckError as error:
            if self._on_stuck is None:
                raise
            self._on_stuck(error)
        finally:
            self._log.commit()
            if self._handle is None:
                self._end()

    def _end(self) -> None:
        self._handle = None
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            if not done.done():
                done.set_result(None)

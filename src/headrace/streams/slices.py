"""Work on a large stream, one slice at a time, so that no request keeps all other clients waiting.

The event loop's thread owns the streams: a loop over a million messages in one go would stall every client.
Such work is split into steps of a few thousand records. The steps of all streams and requests share one
queue: each turn of the event loop runs steps from it, round robin, for about two milliseconds. These rules
keep it correct:

- A step leaves the stream as consistent as a publish does. Only sequences are carried from one step to the
  next: each step looks at what is there by then.
- The scope of a request is fixed when it begins: a purge removes nothing that was published after it.
- Requests about one stream are handled one after another (the queue in api/dispatch.py), so two purges, or a
  purge and an update, never mix; the response is sent when all is done and on disk. Publishes, deliveries,
  acknowledgements and expiry continue in between: each of them is a single step.
- Every removal is a record of the log, so a crash in between leaves some of them done, and nobody has been
  told that all are.
- Work that makes no progress would keep its stream busy forever, unnoticed. If the caller can say how
  far it is (`progress`), a thousand steps without any are an error, and the request is answered with it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from headrace.streams.errors import api_error, store_error

if TYPE_CHECKING:
    from headrace.engine.store.log import Log

SLICE_SECONDS = 0.002
RETRY_SECONDS = 1.0
STEP_RECORDS = 2000
"""Records that a step may read; about half a millisecond."""
STEP_SUBJECTS = 50
"""Subjects of a configuration that a step may compare; about half a millisecond, too."""
STEP_ITEMS = 10
"""Streams or consumers that a step may describe; about half a millisecond, too."""
STUCK_STEPS = 1000
"""Steps in a row that may leave the work where it was."""


Item = TypeVar("Item")
Made = TypeVar("Made")
Work = Generator[None, None, Made]
"""Pauses at each `yield`, where others may run, and returns what it made."""
Step = Callable[[], bool]
"""Does a part of the work, and returns whether that was the last."""
Progress = Callable[[], object]
"""How far the work is: any value that changes when it advances."""
_END = object()


def steps_of(work: Iterator[object]) -> Step:
    """Each step runs to the next `yield`."""
    return lambda: next(work, _END) is _END


def at_once(work: Work[Made]) -> Made:
    """What the work returns, without a pause: before there are any clients."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            made: Made = end.value
            return made


class StuckError(RuntimeError):
    """A bug: the work would never have ended."""


class Watchdog:
    """Checks after every step how far the work is. Raises StuckError if it makes no progress."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._last: object = None
        self._steps = 0

    def check(self) -> None:
        if self._progress is None:
            return
        progress = self._progress()
        if progress != self._last:
            self._last, self._steps = progress, 0
        self._steps += 1
        if self._steps >= STUCK_STEPS:
            raise StuckError(f"no progress in {STUCK_STEPS} steps at {progress}")


class Slices:
    """The work of one JetStream that is in progress."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()
        self._until: float | None = None  # the end of this turn; None if no turn has begun
        self._is_running = False

    def add(self, step: Step) -> None:
        """Call `step` until it says that all is done; the first time now, if this turn has time left.

        A step must not raise.
        """
        self._steps.append(step)
        if not self._is_running:
            self._run()

    async def run(self, step: Step, *, progress: Progress | None = None) -> None:
        """Do all of it, and wait until it is done. Raises StuckError if `progress` stays the same."""
        watchdog = Watchdog(progress)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def step_until_done() -> bool:
            if done.done():  # the caller was cancelled
                return True
            try:
                is_done = step()
                if not is_done:
                    watchdog.check()
            except Exception as error:
                done.set_exception(error)
                return True
            if is_done:
                done.set_result(None)
            return is_done

        self.add(step_until_done)
        await done

    async def result(self, work: Work[Made]) -> Made:
        """What the work returns; each step runs to its next `yield`."""
        made: list[Made] = []

        def step() -> bool:
            try:
                next(work)
            except StopIteration as end:
                made.append(end.value)
            return bool(made)

        await self.run(step)
        return made[0]

    async def map(self, function: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
        """The results for all items, a few at a time; an item may have changed before its turn."""
        made: list[Made] = []
        left = iter(items)

        def step() -> bool:
            some = list(islice(left, STEP_ITEMS))
            made.extend(map(function, some))
            return len(some) < STEP_ITEMS

        await self.run(step, progress=lambda: len(made))
        return made

    async def remove(self, log: Log, step: Step, *, progress: Progress | None = None) -> None:
        """The same for a step that removes messages; removals are committed on the way.

        Raises ApiError if the disk fails in the meantime; removals that could not be written are undone.
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
            await self.run(step_and_commit, progress=progress)
        except OSError as error:  # the log accepts no more writes
            raise store_error(error) from None
        if failures:
            raise api_error("stream_store_failed", err=failures[0])

    def _run(self) -> None:
        is_first = self._until is None
        if self._until is None:
            self._until = time.monotonic() + SLICE_SECONDS
            asyncio.get_running_loop().call_soon(self._begin_turn)
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


class Background:
    """Work in slices that nobody has to wait for.

    `step` removes some messages and returns whether those were all. Removals are committed on the way. If the
    log cannot be read or written at present, `finished` returns, and the work is tried again a second later.
    If `progress` stays the same, the work is abandoned and `on_stuck` is called.
    """

    def __init__(
        self,
        slices: Slices,
        log: Log,
        step: Step,
        *,
        progress: Progress | None = None,
        on_stuck: Callable[[StuckError], object] | None = None,
    ) -> None:
        self._slices = slices
        self._log = log
        self._step = step
        self._progress = progress
        self._on_stuck = on_stuck
        self._watchdog = Watchdog(progress)
        self._in_progress: object = None  # a new object for each start
        self._retry: asyncio.TimerHandle | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def start(self) -> None:
        """Start it unless it is in progress."""
        if self._in_progress is None:
            self._cancel_retry()
            self._watchdog = Watchdog(self._progress)
            this = self._in_progress = object()
            self._slices.add(lambda: self._in_progress is not this or self._run())

    def stop(self) -> None:
        self._cancel_retry()
        self._end()

    async def finished(self) -> None:
        """Wait until there is nothing left to do, or nothing more can be done at present."""
        if self._in_progress is not None:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(done)
            await done

    def _run(self) -> bool:
        is_done = True
        try:
            is_done = self._step()
            if not is_done:
                self._watchdog.check()
        except OSError:
            self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self.start)
        except StuckError as error:
            is_done = True
            if self._on_stuck is None:
                raise
            self._on_stuck(error)
        finally:
            self._log.commit()
            if is_done:
                self._end()
        return is_done

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _end(self) -> None:
        self._in_progress = None
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            if not done.done():
                done.set_result(None)


async def outcome(call_when_done: Callable[[Callable[[str | None], None]], None]) -> str | None:
    """Wait until it is done; why it failed, or None."""
    done: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def on_done(failure: str | None) -> None:
        if not done.done():
            done.set_result(failure)

    call_when_done(on_done)
    return await done

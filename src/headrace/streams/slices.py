"""Work on a large stream, a slice at a time: no request may keep everybody else waiting.

The event loop's thread owns the streams, so whoever goes through a million messages in one piece holds up
every client. Such work is cut into steps of a few thousand records. All that is under way, for whatever
stream or request, waits in one line: a turn of the loop takes steps from it for about two milliseconds, one
of each in turn. The rules that keep this correct are few:

- A step leaves the stream as consistent as any publish does. Nothing but sequences is carried from one step
  to the next: each looks at what is there by then.
- What a request concerns is fixed when it begins: a purge takes nothing that was published after it.
- Requests about one stream are handled one after another (the line in api/dispatch.py), so two purges, or a
  purge and an update, never mix; the answer comes when all is done and on disk. Publishes, deliveries,
  acknowledgements and ages go on in between: they are single steps themselves.
- Every removal is a record of the log, so a crash in between leaves some of it done, and nobody was told
  that it is.
- Work that gets nowhere would keep its stream busy for ever, and nobody would know. Where the caller can
  say how far it is (`place`), a thousand steps on the spot are an error: the request is answered with it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from headrace.streams.errors import api_error, store_error

if TYPE_CHECKING:
    from headrace.engine.store.log import Log

SLICE_SECONDS = 0.002
RETRY_SECONDS = 1.0
STEP_RECORDS = 2000
"""Records that a step may read; about half a millisecond."""
STEP_ITEMS = 10
"""Streams or consumers that a step may describe; about half a millisecond, too."""
STUCK_STEPS = 1000
"""Steps in a row that may leave the work where it was."""


Item = TypeVar("Item")
Made = TypeVar("Made")
Step = Callable[[], bool]
"""Does a part, and says whether that was the last."""
_END = object()


def steps_of(work: Iterator[object]) -> Step:
    """Each goes on to the next `yield`."""
    return lambda: next(work, _END) is _END


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


async def in_slices(step: Step, *, place: Callable[[], object] | None = None) -> None:
    """Have all of it done, and wait for it. Raises StuckError if `place` stays the same."""
    watchdog = Watchdog(place)
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def step_until_done() -> bool:
        if done.done():  # whoever waited was cancelled
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

    wait_in_line(step_until_done)
    await done


async def map_in_slices(function: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
    """What the function makes of each, a few at a time; they may have changed when it is their turn."""
    made: list[Made] = []
    left = iter(items)

    def step() -> bool:
        some = list(islice(left, STEP_ITEMS))
        made.extend(map(function, some))
        return len(some) < STEP_ITEMS

    await in_slices(step, place=lambda: len(made))
    return made


async def remove_in_slices(log: Log, step: Step, *, place: Callable[[], object] | None = None) -> None:
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
        raise store_error(error) from None
    if failures:
        raise api_error("stream_store_failed", err=failures[0])


class Background:
    """Work in slices that goes on by itself.

    `step` removes a part and says whether that was all. What is removed is committed as it goes. If the log
    cannot be read or written at present, whoever waits is let go, and it is tried again a second later. If
    `place` shows that it gets nowhere, it is given up and `on_stuck` is called.
    """

    def __init__(
        self,
        log: Log,
        step: Step,
        *,
        place: Callable[[], object] | None = None,
        on_stuck: Callable[[StuckError], object] | None = None,
    ) -> None:
        self._log = log
        self._step = step
        self._place = place
        self._on_stuck = on_stuck
        self._watchdog = Watchdog(place)
        self._under_way: object = None  # another one for each time that it is started
        self._retry: asyncio.TimerHandle | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def start(self) -> None:
        """Unless it is under way."""
        if self._under_way is None:
            self._cancel_retry()
            self._watchdog = Watchdog(self._place)
            this = self._under_way = object()
            wait_in_line(lambda: self._under_way is not this or self._run())

    def stop(self) -> None:
        self._cancel_retry()
        self._end()

    async def finished(self) -> None:
        """Wait until there is nothing left to do, or nothing that can be done at present."""
        if self._under_way is not None:
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
        self._under_way = None
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            if not done.done():
                done.set_result(None)

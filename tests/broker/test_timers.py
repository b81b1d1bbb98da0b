"""EqualTimers, with a clock that jumps to whatever the loop waits for."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from headrace.broker.timers import TURN_SECONDS, EqualTimers


class JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting it moves the clock on."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = JumpingSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


class Bell:
    """Notes what rang, and when."""

    def __init__(self, loop: JumpingLoop) -> None:
        self.loop = loop
        self.rung: list[tuple[str, float]] = []

    def __call__(self, item: str) -> None:
        self.rung.append((item, round(self.loop.time(), 3)))


Run = Callable[[Callable[[Bell], Awaitable[None]]], list[tuple[str, float]]]


@pytest.fixture
def run() -> Iterator[Run]:
    loop = JumpingLoop()
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: errors.append(context))

    def run_one(body: Callable[[Bell], Awaitable[None]]) -> list[tuple[str, float]]:
        bell = Bell(loop)

        async def main() -> None:
            await body(bell)

        loop.run_until_complete(main())
        return bell.rung

    yield run_one
    loop.close()


def test_each_item_rings_after_its_time(run: Run) -> None:
    async def body(bell: Bell) -> None:
        timers = EqualTimers(2.0, bell)
        timers.start("a")
        await asyncio.sleep(0.5)
        timers.start("b")
        timers.start("c")
        assert "a" in timers
        await asyncio.sleep(10)
        assert "a" not in timers

    assert run(body) == [("a", 2.0), ("b", 2.5), ("c", 2.5)]


def test_a_stopped_item_does_not_ring(run: Run) -> None:
    async def body(bell: Bell) -> None:
        timers = EqualTimers(2.0, bell)
        for item in ("a", "b", "c"):
            timers.start(item)
            await asyncio.sleep(0.5)
        timers.stop("a")
        timers.stop("never started")
        await asyncio.sleep(10)

    assert run(body) == [("b", 2.5), ("c", 3.0)]


def test_starting_again_starts_over(run: Run) -> None:
    async def body(bell: Bell) -> None:
        timers = EqualTimers(2.0, bell)
        timers.start("a")
        timers.start("b")
        await asyncio.sleep(1)
        timers.start("a")
        await asyncio.sleep(10)

    assert run(body) == [("b", 2.0), ("a", 3.0)]


def test_stop_all_stops_all_and_new_ones_can_start(run: Run) -> None:
    async def body(bell: Bell) -> None:
        timers = EqualTimers(2.0, bell)
        timers.start("a")
        await asyncio.sleep(1)
        timers.stop_all()
        timers.start("b")
        await asyncio.sleep(10)

    assert run(body) == [("b", 3.0)]


def test_the_loop_serves_others_while_many_ring_at_once(run: Run) -> None:
    async def body(bell: Bell) -> None:
        def ring(item: str) -> None:
            bell(item)
            bell.loop.call_soon(bell, "other")
            time.sleep(TURN_SECONDS)

        timers = EqualTimers(2.0, ring)
        for item in ("a", "b", "c"):
            timers.start(item)
        await asyncio.sleep(10)

    assert [item for item, _ in run(body)] == ["a", "other", "b", "other", "c", "other"]


def test_an_item_may_start_itself_again(run: Run) -> None:
    async def body(bell: Bell) -> None:
        def ring(item: str) -> None:
            bell(item)
            timers.start(item)

        timers = EqualTimers(3.0, ring)
        timers.start("a")
        await asyncio.sleep(1)
        timers.start("b")
        await asyncio.sleep(8.5)

    assert run(body) == [("a", 3.0), ("b", 4.0), ("a", 6.0), ("b", 7.0), ("a", 9.0)]


def test_an_item_may_stop_another(run: Run) -> None:
    async def body(bell: Bell) -> None:
        def ring(item: str) -> None:
            bell(item)
            timers.stop("b")

        timers = EqualTimers(3.0, ring)
        for item in ("a", "b", "c"):
            timers.start(item)
        await asyncio.sleep(10)

    assert run(body) == [("a", 3.0), ("c", 3.0)]


def test_a_longer_time_holds_for_those_that_start_later(run: Run) -> None:
    async def body(bell: Bell) -> None:
        timers = EqualTimers(2.0, bell)
        timers.start("a")
        timers.seconds = 5.0
        timers.start("b")
        await asyncio.sleep(10)

    assert run(body) == [("a", 2.0), ("b", 5.0)]


def test_a_shorter_time_holds_for_those_that_start_later(run: Run) -> None:
    async def body(bell: Bell) -> None:
        timers = EqualTimers(100.0, bell)
        timers.start("a")
        timers.seconds = 1.0
        timers.start("b")
        await asyncio.sleep(200)

    assert ("b", 1.0) in run(body)


def test_an_item_that_raises_does_not_stop_the_others(run: Run) -> None:
    async def body(bell: Bell) -> None:
        def ring(item: str) -> None:
            bell(item)
            if item == "a":
                raise ZeroDivisionError

        timers = EqualTimers(2.0, ring)
        timers.start("a")
        await asyncio.sleep(1)
        timers.start("b")
        await asyncio.sleep(10)

    assert run(body) == [("a", 2.0), ("b", 3.0)]

"""One connection of nats-py that is never reopened, so that it is certain what was sent on which.

A library that reconnects may send again what it had buffered: then nobody knows how often a message was sent.
Here a lost connection ends everything that waits on it, with `NoAnswer`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import nats
import nats.errors
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

PATIENCE_SECONDS = 45.0
"""Longer than any fault lasts: who waits longer is not answered."""
CONNECT_SECONDS = 5
WATCH_SECONDS = 0.1

Result = TypeVar("Result")


class NoAnswer(Exception):
    """What was asked for may have been done or not."""


class Silence(NoAnswer):
    """There was no answer though the connection is there."""


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error.get('description')} ({error.get('err_code', error.get('code'))})")
        self.code = int(error.get("err_code", 0))


class Line:
    """Make one with `open_line`."""

    def __init__(self) -> None:
        self.nats = Nats()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inbox = ""
        self._number = 0
        self._waiting: dict[str, asyncio.Future[Msg]] = {}
        self._watching: asyncio.Task[None] | None = None

    async def open(self, port: int) -> None:
        async def quiet(_: Exception) -> None:
            pass

        await self.nats.connect(
            f"nats://127.0.0.1:{port}",
            allow_reconnect=False,
            connect_timeout=CONNECT_SECONDS,
            error_cb=quiet,
            ping_interval=20,
            max_outstanding_pings=3,
        )
        self._inbox = self.nats.new_inbox()
        await self.nats.subscribe(f"{self._inbox}.*", cb=self._on_answer)
        self._watching = asyncio.ensure_future(self._watch())

    async def publish(
        self, subject: str, payload: bytes, headers: dict[str, str] | None = None
    ) -> asyncio.Future[Msg]:
        """Send with a reply subject. The future has the answer, or NoAnswer."""
        self._number += 1
        reply = f"{self._inbox}.{self._number}"
        future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        if self.closed.done():
            raise NoAnswer("the connection is closed")
        self._waiting[reply] = future
        try:
            await self.send(subject, payload, headers, reply)
        except (NoAnswer, nats.errors.Error, OSError) as error:
            self._waiting.pop(reply, None)
            raise NoAnswer(str(error)) from None
        return future

    async def send(
        self, subject: str, payload: bytes, headers: dict[str, str] | None = None, reply: str = ""
    ) -> None:
        """Without an answer, if no reply subject is given."""
        await self.guard(self.nats.publish(subject, payload, reply, headers))

    async def answer(self, future: asyncio.Future[Msg]) -> dict[str, Any]:
        """Raises Refused, NoAnswer, Silence."""
        try:
            message = await asyncio.wait_for(future, PATIENCE_SECONDS)
        except TimeoutError:
            raise Silence("no answer") from None
        if message.headers and message.headers.get("Status") == "503":
            raise Refused({"description": "no responders", "code": 503})
        answer: dict[str, Any] = json.loads(message.data)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    async def ask(self, subject: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """A request of the JetStream API."""
        payload = json.dumps(body).encode() if body is not None else b""
        return await self.answer(await self.publish(subject, payload))

    async def guard(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Something of nats-py's own, given up when the connection ends: it would wait for its timeout."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            both: set[asyncio.Future[Any]] = {task, self.closed}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise NoAnswer("the connection ended")
            return task.result()
        finally:
            task.cancel()

    async def subscribe(self, subject: str, handle: Callable[[Msg], Awaitable[None]]) -> None:
        await self.nats.subscribe(subject, cb=handle)

    async def close(self) -> None:
        if not self.nats.is_closed:
            with suppress(OSError):  # the rest of what it had to say cannot be sent
                await self.nats.close()
        if self._watching is not None:
            self._watching.cancel()
        self._end()

    def hang_up(self) -> None:
        """Without a word, with whatever is under way."""
        writer = self._writer()
        if writer is not None:
            writer.transport.abort()

    def _writer(self) -> asyncio.StreamWriter | None:
        return getattr(self.nats._transport, "_io_writer", None)

    async def _watch(self) -> None:
        """A connection that breaks while nats-py writes to it ends without its callbacks (nats-py 2.16)."""
        while not self.nats.is_closed:
            await asyncio.sleep(WATCH_SECONDS)
        self._end()

    async def _on_answer(self, message: Msg) -> None:
        future = self._waiting.pop(message.subject, None)
        if future is not None and not future.done():
            future.set_result(message)

    def _end(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        for subscription in self.nats._subs.values():
            handling: asyncio.Task[None] | None = subscription._wait_for_msgs_task
            if handling is not None:
                handling.cancel()
        writer = self._writer()
        if writer is not None:
            writer.close()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(NoAnswer("the connection ended"))
                future.exception()  # nobody may be waiting any more


LOST = (NoAnswer, nats.errors.Error, OSError, TimeoutError)
"""What a client sees when the server is away, or its connection is."""


async def open_line(port: int) -> Line:
    """As soon as the server takes it."""
    while True:
        line = Line()
        try:
            await line.open(port)
        except LOST:
            await line.close()
            await asyncio.sleep(0.2)
        else:
            return line

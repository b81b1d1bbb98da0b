"""Publish many messages and wait for their acknowledgements, with a few in flight.

async with Publisher(jetstream) as publisher:
    await publisher.publish(subject, payload)       waits while too much is in flight
    await publisher.finish()                        until everything is acknowledged
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from headrace.cli.jetstream.api import REQUEST_SECONDS, JetStream
from headrace.errors import HeadraceError

IN_FLIGHT_BYTES = 4 * 1024 * 1024


class Publisher:
    def __init__(self, jetstream: JetStream) -> None:
        self._jetstream = jetstream
        self._sizes: list[int] = []
        self._answered = 0
        self._bytes = 0
        self._failure: HeadraceError | None = None
        self._progress = asyncio.Event()

    async def __aenter__(self) -> Publisher:
        client = self._jetstream.connection.client
        self._inbox = client.new_inbox()
        self._subscription = await client.subscribe(f"{self._inbox}.*", cb=self._on_answer)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._jetstream.connection.client.is_connected:
            await self._settle()
        if not self._jetstream.connection.client.is_closed:
            await self._subscription.unsubscribe()

    async def publish(self, subject: str, payload: bytes) -> None:
        """Raises HeadraceError if this or an earlier message was refused."""
        while self._bytes and self._bytes + len(payload) > IN_FLIGHT_BYTES:
            await self._wait()
        reply = f"{self._inbox}.{len(self._sizes)}"
        self._sizes.append(len(payload))
        self._bytes += len(payload)
        await self._jetstream.connection.publish(subject, payload, reply, None)

    async def finish(self) -> None:
        while self._answered < len(self._sizes):
            await self._wait()
        if self._failure:
            raise self._failure

    async def _settle(self) -> None:
        """Until nothing is under way any more: a purge that follows an error would not see what comes later.

        Not through `wait_for`: an interrupt, which may be the error, would end it.
        """
        while self._answered < len(self._sizes):
            self._progress.clear()
            try:
                await asyncio.wait_for(self._progress.wait(), REQUEST_SECONDS)
            except TimeoutError:
                return

    async def _wait(self) -> None:
        if self._failure:
            raise self._failure
        self._progress.clear()
        connection = self._jetstream.connection
        try:
            await connection.wait_for(self._progress.wait(), REQUEST_SECONDS)
        except TimeoutError:
            raise HeadraceError(
                f"no acknowledgement from {connection.address} within {REQUEST_SECONDS:g} s"
            ) from None
        if self._failure:
            raise self._failure

    async def _on_answer(self, message: Any) -> None:
        try:
            if not message.data and (message.headers or {}).get("Status") == "503":
                raise HeadraceError(f"no stream at {self._jetstream.connection.address} stores this")
            self._jetstream.decode(message.data, "a publish")
        except HeadraceError as error:
            self._failure = self._failure or error
        self._answered += 1
        self._bytes -= self._sizes[int(message.subject.rpartition(".")[2])]
        self._progress.set()

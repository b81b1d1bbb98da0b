"""Somebody who only wants an answer: how long do a request and an acknowledgement take, all the time?"""

from __future__ import annotations

import time

from nats.aio.msg import Msg

from tests.soak.actor import Actor, Habit
from tests.soak.ledger import Limits
from tests.soak.line import Line

MOST_MESSAGES = 1000


class BystanderActor(Actor):
    async def prepare(self) -> None:
        self.ledger = await self.make_stream(
            "BYSTANDER", Limits(messages=MOST_MESSAGES), subjects=["BYSTANDER.>"], max_msgs=MOST_MESSAGES
        )

    def habits(self) -> list[tuple[Habit, float]]:
        return [(self.request, 0.05), (self.store, 0.1)]

    async def on_connected(self, line: Line) -> None:
        async def echo(message: Msg) -> None:
            await message.respond(message.data)

        await line.subscribe("bystander.echo", echo)

    async def request(self) -> None:
        line = await self.line()
        began = time.monotonic()
        await line.answer(await line.publish("bystander.echo", b"{}"))
        self._sample("request", began)

    async def store(self) -> None:
        await self.line()
        began, before = time.monotonic(), self.ledger.acknowledged
        await self.publish(self.ledger, "BYSTANDER.x", [self.new_identity()], lambda: 100)
        if self.ledger.acknowledged > before:
            self._sample("publish", began)

    def _sample(self, what: str, began: float) -> None:
        now = time.monotonic()
        self.samples.append((now, what, now - began))

"""Atomic batches, which are stored whole or not at all, and messages that expire."""

from __future__ import annotations

import math
import time

from tests.soak.actor import Actor, Habit
from tests.soak.ledger import Limits
from tests.soak.line import Line, Refused
from tests.soak.messages import ID_HEADER, payload_of

MOST_MESSAGES = 5000
MAX_AGE_SECONDS = 60.0
LIFETIMES = (2, 5, 15, 40, 300)


class BatchActor(Actor):
    async def prepare(self) -> None:
        self.batches = await self.make_stream(
            "BATCH",
            Limits(messages=MOST_MESSAGES),
            subjects=["BATCH.>"],
            max_msgs=MOST_MESSAGES,
            allow_atomic=True,
        )
        self.expiring = await self.make_stream(
            "EXPIRING",
            subjects=["EXPIRING.>"],
            allow_msg_ttl=True,
            max_age=int(MAX_AGE_SECONDS * 1e9),
        )

    def habits(self) -> list[tuple[Habit, float]]:
        return [
            (self.publish_batch, 0.4),
            (self.abandon_batch, 4.0),
            (self.publish_expiring, 0.3),
            (self.hang_up, 12.0),
        ]

    async def publish_batch(self) -> None:
        name, count = self.new_identity(), self.random.randint(1, 30)
        line, identities = await self._send_batch(name, count)
        last = identities[-1]
        headers = {**self._headers(name, count, last), "Nats-Batch-Commit": "1"}
        future = await line.publish("BATCH.end", self._payload(last), headers)
        try:
            answer = await line.answer(future)
        except Refused as error:
            if error.code:
                for identity in identities:
                    self.batches.refuse(identity)
            return
        for back, identity in enumerate(reversed(identities)):
            self.batches.acknowledge(identity, answer["seq"] - back, time.time())
        self.counts["batches"] += 1

    async def abandon_batch(self) -> None:
        """Without its end: nothing of it may ever be stored."""
        _, identities = await self._send_batch(self.new_identity(), self.random.randint(1, 20))
        for identity in identities:
            self.batches.refuse(identity)

    async def _send_batch(self, name: str, count: int) -> tuple[Line, list[str]]:
        """All of it but its last message."""
        line = await self.line()
        identities = [f"{name}.{number}" for number in range(1, count + 1)]
        for number, identity in enumerate(identities, 1):
            subject = f"BATCH.{self.random.randrange(3)}" if number < count else "BATCH.end"
            self.batches.send(identity, subject, self.life, headed=True, batch=name)
            if number < count:
                headers = self._headers(name, number, identity)
                await line.send(subject, self._payload(identity), headers=headers)
        return line, identities

    def _headers(self, name: str, number: int, identity: str) -> dict[str, str]:
        return {"Nats-Batch-Id": name, "Nats-Batch-Sequence": str(number), ID_HEADER: identity}

    def _payload(self, identity: str) -> bytes:
        return payload_of("BATCH", identity, self.random.randint(0, 2000))

    async def publish_expiring(self) -> None:
        identities = [self.new_identity() for _ in range(self.random.randint(1, 10))]
        lifetime = float(self.random.choice((*LIFETIMES, math.inf)))
        headers = {} if math.isinf(lifetime) else {"Nats-TTL": f"{lifetime:.0f}s"}
        await self.publish(
            self.expiring,
            f"EXPIRING.{self.random.randrange(3)}",
            identities,
            lambda: self.random.randint(0, 1000),
            headers=headers,
            lifetime=min(lifetime, MAX_AGE_SECONDS),
        )

    async def probe(self, stream: str) -> None:
        if stream == "EXPIRING":
            await self.publish_expiring()
        else:
            await super().probe(stream)

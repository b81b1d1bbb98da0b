"""Consumers with acknowledgements: what they were given, what they acknowledged, and what they never got.

At a check a follower takes all there is and acknowledges it. After that every message that is stored must
have been acknowledged, or it was skipped; and what was acknowledged then must never be delivered again, not
even after a kill: the state of consumers is on disk within a fraction of a second, and checks last longer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import nats.errors
from nats.aio.msg import Msg

from tests.soak.actor import Actor
from tests.soak.ledger import Ledger
from tests.soak.line import LOST, Line, NoAnswer
from tests.soak.messages import Stored

ACK_WAIT_SECONDS = 2.0
DRAIN_SECONDS = 90.0
SETTLE_SECONDS = 1.0
FETCH_SECONDS = 1.0

ANSWERS = {"ack": 70, "confirmed": 14, "nak": 5, "term": 2, "later": 4, "forget": 5}
"""What becomes of a delivery, and how often. `later`: in progress, then acknowledged."""


class Follower:
    """One durable consumer. `on_ack` hears of every message that may now be removed because of it."""

    def __init__(
        self,
        actor: Actor,
        ledger: Ledger,
        name: str,
        *,
        filter_subject: str = "",
        deliver: str = "",
        on_ack: Callable[[str], None] = lambda identity: None,
    ) -> None:
        self.actor, self.ledger, self.name = actor, ledger, name
        self.filter_subject = filter_subject
        self._deliver = deliver
        self._on_ack = on_ack
        self._acked: set[int] = set()
        self._settled = 0
        self._draining = False
        self._subscription: Any = None
        self._line: Line | None = None

    async def create(self) -> None:
        config: dict[str, Any] = {
            "durable_name": self.name,
            "ack_policy": "explicit",
            "ack_wait": int(ACK_WAIT_SECONDS * 1e9),
            "deliver_policy": "all",
            "max_ack_pending": 500,
        }
        if self.filter_subject:
            config["filter_subject"] = self.filter_subject
        if self._deliver:
            config["deliver_subject"] = self._deliver
        body = {"stream_name": self.ledger.stream, "config": config}
        await self.actor.insist(f"CONSUMER.CREATE.{self.ledger.stream}.{self.name}", body)

    async def listen(self, line: Line) -> None:
        """Of a consumer that pushes: on a new connection."""
        await line.subscribe(self._deliver, self._take)

    async def pull(self, batch: int = 50) -> int:
        """One fetch, and what becomes of its messages."""
        line = await self.actor.line()
        if self._line is not line:
            context = line.nats.jetstream(timeout=FETCH_SECONDS)
            self._subscription = await line.guard(
                context.pull_subscribe_bind(durable=self.name, stream=self.ledger.stream)
            )
            self._line = line
        try:
            messages = await line.guard(self._subscription.fetch(batch, timeout=FETCH_SECONDS))
        except TimeoutError:  # also what nats-py raises as its own
            return 0
        for message in messages:
            await self._take(message)
        return len(messages)

    async def _take(self, message: Msg) -> None:
        if not message.reply:
            return
        words = message.reply.split(".")
        stored = Stored(int(words[5]), message.subject, raw_headers(message), message.data)
        self.actor.counts["delivered"] += 1
        self.actor.counts["redelivered"] += int(words[4]) > 1
        identity = self.ledger.recognise_delivery(stored)
        if stored.seq <= self._settled:
            text = f"{self.ledger.stream}/{self.name}: {stored.seq} came again, acknowledged before a check"
            self.actor.findings.add("doubled", text)
        answer = (
            "confirmed"
            if self._draining
            else self.actor.random.choices(list(ANSWERS), list(ANSWERS.values()))[0]
        )
        if answer not in ("nak", "forget"):
            if identity is not None:
                self._on_ack(identity)
            self._acked.add(stored.seq)
        try:
            await self._respond(message, answer)
        except LOST:
            self.actor.counts["disturbed"] += 1

    async def _respond(self, message: Msg, answer: str) -> None:
        line = await self.actor.line()
        if answer in ("ack", "later"):
            if answer == "later":
                await line.guard(message.in_progress())
            await line.guard(message.ack())
        elif answer == "nak":
            await line.guard(message.nak())
        elif answer == "term":
            await line.guard(message.term())
        elif answer == "confirmed":
            await line.guard(message.ack_sync(timeout=5))

    async def drain(self) -> bool:
        """Take and acknowledge all there is. False, and a finding, if it does not come to an end."""
        self._draining = True
        deadline = time.monotonic() + DRAIN_SECONDS
        try:
            while True:
                info = await self.actor.insist(f"CONSUMER.INFO.{self.ledger.stream}.{self.name}", {})
                if not info["num_pending"] and not info["num_ack_pending"]:
                    return True
                if time.monotonic() > deadline:
                    left = {key: info[key] for key in ("num_pending", "num_ack_pending", "delivered")}
                    text = f"{self.ledger.stream}/{self.name} does not drain: {left}"
                    self.actor.findings.add("unanswered", text)
                    return False
                try:
                    await (asyncio.sleep(0.1) if self._deliver else self.pull(500))
                except (NoAnswer, nats.errors.Error):
                    await asyncio.sleep(0.1)
        finally:
            self._draining = False

    def check(self, present: dict[int, str]) -> None:
        """After `drain`, with what is stored: nothing of it was skipped."""
        for seq, identity in present.items():
            entry = self.ledger.entries.get(identity)
            if seq > self._settled and seq not in self._acked and entry and self._wants(entry.subject):
                text = f"{self.ledger.stream}/{self.name} never got {identity} ({seq})"
                self.actor.findings.add("skipped", text)
        self.actor.counts["followed"] += len(self._acked)
        self._settled = max([self._settled, *self._acked, *present])
        self._acked.clear()

    def _wants(self, subject: str) -> bool:
        prefix = self.filter_subject.removesuffix(">")
        return subject.startswith(prefix)


def raw_headers(message: Msg) -> bytes:
    lines = [f"{key}: {value}" for key, value in (message.headers or {}).items()]
    return "\r\n".join(["NATS/1.0", *lines]).encode()

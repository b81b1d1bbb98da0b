"""Streams whose messages go when they are acknowledged: a work queue, and one with interest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from tests.soak.actor import Actor, Habit
from tests.soak.followers import SETTLE_SECONDS, Follower
from tests.soak.ledger import Ledger


class QueueActor(Actor):
    """Two consumers of the work queue share the subjects, two of the other stream get everything."""

    async def prepare(self) -> None:
        self.queue = await self.make_stream("WORK", subjects=["WORK.>"], retention="workqueue")
        self.interest = await self.make_stream("EVENTS", subjects=["EVENTS.>"], retention="interest")
        self.heard: dict[str, set[str]] = {}
        self.followers = [
            Follower(self, self.queue, "odd", filter_subject="WORK.odd", on_ack=self._on(self.queue)),
            Follower(self, self.queue, "even", filter_subject="WORK.even", on_ack=self._on(self.queue)),
            Follower(self, self.interest, "mail", on_ack=partial(self._heard, "mail")),
            Follower(self, self.interest, "audit", on_ack=partial(self._heard, "audit")),
        ]
        for follower in self.followers:
            await follower.create()

    def habits(self) -> list[tuple[Habit, float]]:
        pulls: list[tuple[Habit, float]] = [(partial(self._pull, one), 0.3) for one in self.followers]
        return [*pulls, (self.publish_work, 0.3), (self.publish_events, 0.3), (self.hang_up, 11.0)]

    async def _pull(self, follower: Follower) -> None:
        await follower.pull(30)

    async def publish_work(self) -> None:
        subject = self.random.choice(("WORK.odd", "WORK.even"))
        await self._burst(self.queue, subject)

    async def publish_events(self) -> None:
        await self._burst(self.interest, f"EVENTS.{self.random.randrange(3)}")

    async def _burst(self, ledger: Ledger, subject: str) -> None:
        identities = [self.new_identity() for _ in range(self.random.randint(1, 20))]
        with_ids = self.random.random() < 0.5
        await self.publish(
            ledger, subject, identities, lambda: self.random.randint(0, 3000), msg_ids=with_ids
        )

    def _on(self, ledger: Ledger) -> Callable[[str], None]:
        def on_ack(identity: str) -> None:
            ledger.may_go([identity], self.life)
            ledger.leave_open(self.life)

        return on_ack

    def _heard(self, name: str, identity: str) -> None:
        """Only when both have acknowledged it may it go."""
        heard = self.heard.setdefault(identity, set())
        heard.add(name)
        if len(heard) == 2:
            self.interest.may_go([identity], self.life)
            self.interest.leave_open(self.life)

    def readers(self, ledger: Ledger) -> list[str]:
        return ["direct gets"]

    def probe_subject(self, stream: str) -> str:
        return "WORK.odd" if stream == "WORK" else "EVENTS.probe"

    async def check(self) -> None:
        """What nobody has acknowledged is there; then everything is consumed, and nothing is."""
        await self.check_stream(self.queue)
        await self.check_stream(self.interest)
        drained = [follower for follower in self.followers if await follower.drain()]
        await asyncio.sleep(SETTLE_SECONDS)
        for ledger in (self.queue, self.interest):
            for seq, identity in (await self.check_stream(ledger)).items():
                entry = ledger.entries.get(identity)
                got = "acknowledged" if entry is not None and entry.removable else "never delivered"
                kind = "resurrected" if got == "acknowledged" else "skipped"
                self.findings.add(kind, f"{ledger.stream}: {identity} ({seq}) is left, {got}")
        for follower in drained:
            follower.check({})
        self.heard.clear()
        await self.probe("WORK")
        await self.probe("EVENTS")

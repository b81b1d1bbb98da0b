"""A stream that keeps its messages: published in every way, deleted, purged, followed and replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any, ClassVar

import nats.errors
from nats.aio.msg import Msg

from tests.soak.actor import Actor, Habit
from tests.soak.followers import SETTLE_SECONDS, Follower, raw_headers
from tests.soak.ledger import Limits
from tests.soak.line import Line, NoAnswer
from tests.soak.messages import Stored

SUBJECTS = 5
REPLAY_SILENCE_SECONDS = 5.0


class LogActor(Actor):
    """Subclasses say how large it is."""

    config: ClassVar[dict[str, Any]] = {}
    most_messages = 20_000
    sizes = (0, 2_000)
    burst = 60
    seconds = 0.25
    purge_seconds = 12.0

    async def prepare(self) -> None:
        self.stream = self.name.upper()
        limits = Limits(messages=self.most_messages)
        self.ledger = await self.make_stream(
            self.stream, limits, subjects=[f"{self.stream}.>"], max_msgs=self.most_messages, **self.config
        )
        self.pulling = Follower(self, self.ledger, "pulling")
        self.pushed = Follower(self, self.ledger, "pushed", deliver=f"deliver.{self.stream}")
        await self.pulling.create()
        await self.pushed.create()
        await self.pushed.listen(await self.line())

    async def on_connected(self, line: Line) -> None:
        if hasattr(self, "pushed"):
            await self.pushed.listen(line)

    def habits(self) -> list[tuple[Habit, float]]:
        return [
            (self.publish_plain, self.seconds),
            (self.publish_with_ids, self.seconds),
            (self.publish_again, 1.0),
            (self.publish_expecting, 0.5),
            (self.follow, 0.1),
            (self.delete, 0.3),
            (self.purge, self.purge_seconds),
            (self.replay, 4.0),
            (self.hang_up, 9.0),
        ]

    def subject(self) -> str:
        return f"{self.stream}.{self.random.randrange(SUBJECTS)}"

    def size(self) -> int:
        return self.random.randint(*self.sizes)

    # -- publishing -----------------------------------------------------------------------------------------

    async def publish_plain(self) -> None:
        identities = [self.new_identity() for _ in range(self.random.randint(1, self.burst))]
        headers = {"Soak-Note": "x" * self.random.randrange(200)} if self.random.random() < 0.3 else None
        await self.publish(self.ledger, self.subject(), identities, self.size, headers=headers)

    async def publish_with_ids(self) -> None:
        identities = [self.new_identity() for _ in range(self.random.randint(1, self.burst))]
        await self.publish(self.ledger, self.subject(), identities, self.size, msg_ids=True)
        if self.random.random() < 0.2:  # as a client does that has not seen its acknowledgements
            for identity in identities:
                await self._again(identity)

    async def publish_again(self) -> None:
        """What has an id and no acknowledgement."""
        for identity in list(self.ledger.unsettled())[:50]:
            await self._again(identity)

    async def _again(self, identity: str) -> None:
        entry = self.ledger.entries.get(identity)
        if entry is not None and entry.with_id:
            await self.publish(self.ledger, entry.subject, [identity], self.size, msg_ids=True, again=True)
            self.counts["republished"] += 1

    async def publish_expecting(self) -> None:
        """With an expectation that is right is stored; with one that is wrong it must not be."""
        subject = f"{self.stream}.expecting"
        identity = self.new_identity()
        wrong = {"Nats-Expected-Last-Sequence": str(self.ledger.highest + 1_000_000_000)}
        await self.publish(self.ledger, subject, [identity], self.size, headers=wrong)
        entry = self.ledger.entries.get(identity)
        if entry is not None and entry.seq:
            self.findings.add("resurrected", f"{self.stream}: {entry.seq} was stored against its expectation")
        before = self.ledger.matching(lambda name: name == subject, settled=True)
        expected = self.ledger.entries[before[-1]].seq if before else 0
        right = {"Nats-Expected-Last-Subject-Sequence": str(expected)}
        await self.publish(self.ledger, subject, [self.new_identity()], self.size, headers=right)

    # -- removing -------------------------------------------------------------------------------------------

    async def delete(self) -> None:
        settled = self.ledger.matching(lambda _: True, settled=True)
        if len(settled) < 20:
            return
        for identity in self.random.sample(settled, self.random.randint(1, 5)):
            async with self.gate():
                await self._delete(identity)

    async def _delete(self, identity: str) -> None:
        entry = self.ledger.entries.get(identity)
        if entry is None:
            return
        body = {"seq": entry.seq, "no_erase": self.random.random() < 0.5}
        self.ledger.may_go([identity], self.life)
        with self.ledger.removal(lambda _: False, self.life):
            await self.ask(f"STREAM.MSG.DELETE.{self.stream}", body)
        self.ledger.has_gone([identity])
        self.counts["deletes"] += 1

    async def purge(self) -> None:
        kind = self.random.choice(("all", "filter", "keep", "seq", "filter and seq", "keep of filter"))
        if kind == "all" and self.random.random() < 0.5:
            return
        self.counts["purges"] += 1
        if self.random.random() < 0.5:
            async with self.silence():  # then it is known exactly what must go
                await self._purge(kind, exact=self.ledger.is_certain())
        else:
            await self._purge(kind, exact=False)

    async def _purge(self, kind: str, *, exact: bool) -> None:
        filter_subject = self.subject() if "filter" in kind else ""
        concerns: Callable[[str], bool] = lambda name: not filter_subject or name == filter_subject  # noqa: E731
        body: dict[str, object] = {"filter": filter_subject} if filter_subject else {}
        settled = self.ledger.matching(concerns, settled=True)
        going = settled
        may_go = settled
        if "keep" in kind:
            # Which are the newest is known only if it is known what is stored.
            keep = self.random.randint(1, max(2, len(settled)))
            body["keep"] = keep
            going = settled[:-keep] if exact else []
            may_go = going if exact else settled
        elif "seq" in kind and settled:
            seq = self.ledger.entries[self.random.choice(settled)].seq
            body["seq"] = seq
            may_go = going = [one for one in settled if self.ledger.entries[one].seq < seq]
        self.ledger.may_go([*may_go, *self.ledger.matching(concerns, settled=False)], self.life)
        with self.ledger.removal(concerns, self.life):
            await self.ask(f"STREAM.PURGE.{self.stream}", body)
        self.ledger.has_gone(going)

    # -- consuming ------------------------------------------------------------------------------------------

    async def follow(self) -> None:
        await self.pulling.pull()

    async def replay(self) -> None:
        """All of the stream through an ordered consumer: none is left out, none comes out of order."""
        line = await self.line()
        before = {entry.seq: identity for identity, entry in self.ledger.entries.items() if entry.seq}
        if not before:
            return
        seen: list[int] = []
        arrived = asyncio.Event()

        async def on_message(message: Msg) -> None:
            words = message.reply.split(".")
            seen.append(int(words[5]))
            stored = Stored(int(words[5]), message.subject, raw_headers(message), message.data)
            self.ledger.recognise_delivery(stored)
            arrived.set()

        context = line.nats.jetstream(timeout=5)
        subscribing = context.subscribe(
            f"{self.stream}.>", stream=self.stream, ordered_consumer=True, cb=on_message
        )
        subscription = await line.guard(subscribing)
        last = max(before)
        try:
            while not seen or seen[-1] < last:
                arrived.clear()
                await asyncio.wait_for(line.guard(arrived.wait()), REPLAY_SILENCE_SECONDS)
        except (TimeoutError, NoAnswer):
            pass  # the last ones may be gone, or the server is: what came until then is compared
        finally:
            with suppress(NoAnswer, nats.errors.Error):
                await line.guard(subscription.unsubscribe())
        self.counts["replays"] += 1
        self._compare_replay(before, seen)

    def _compare_replay(self, before: dict[int, str], seen: list[int]) -> None:
        if any(later <= earlier for earlier, later in pairwise(seen)):
            self.findings.add("skipped", f"{self.stream}: an ordered consumer got messages out of order")
        reached, came = max(seen, default=0), set(seen)
        first_kept = self.ledger.highest - self.most_messages
        for seq, identity in before.items():
            entry = self.ledger.entries.get(identity)
            if entry is None or entry.removable or seq > reached or seq in came or seq <= first_kept:
                continue
            self.findings.add("skipped", f"{self.stream}: an ordered consumer did not get {seq} ({identity})")

    async def check(self) -> None:
        await self.check_stream(self.ledger)
        drained = [one for one in (self.pulling, self.pushed) if await one.drain()]
        present = await self.check_stream(self.ledger)
        for follower in drained:
            follower.check(present)
        await asyncio.sleep(SETTLE_SECONDS)
        await self.probe(self.stream)


class SmallActor(LogActor):
    """Many small messages in plain segments."""

    config: ClassVar[dict[str, Any]] = {"duplicate_window": int(120e9)}


class LargeActor(LogActor):
    """Large messages in compressed segments, of which there are several."""

    config: ClassVar[dict[str, Any]] = {"compression": "s2", "duplicate_window": int(120e9)}
    most_messages = 2_500
    sizes = (10_000, 70_000)
    burst = 16
    seconds = 0.5
    purge_seconds = 40.0

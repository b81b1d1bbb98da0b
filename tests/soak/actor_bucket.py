"""A key-value bucket through nats-py: puts, updates of a revision, deletes and purges of keys."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import nats.js.errors
from nats.js.api import KeyValueConfig

from tests.soak.actor import Actor, Habit
from tests.soak.ledger import Ledger, Limits
from tests.soak.line import Refused
from tests.soak.messages import ID_HEADER, payload_of

KEYS = 20
HISTORY = 5
BUCKET = "settings"
NO_MESSAGE = 10037
STREAM = f"KV_{BUCKET}"


class BucketActor(Actor):
    async def prepare(self) -> None:
        line = await self.line()
        config = KeyValueConfig(bucket=BUCKET, history=HISTORY, direct=True)
        await line.nats.jetstream(timeout=20).create_key_value(config)
        self.ledger = Ledger(STREAM, self.findings, Limits(per_subject=HISTORY))
        self.ledgers[STREAM] = self.ledger
        self.writing = {key: asyncio.Lock() for key in range(KEYS)}

    def habits(self) -> list[tuple[Habit, float]]:
        return [
            (self.put, 0.05),
            (self.put, 0.05),
            (self.remove, 0.5),
            (self.look, 0.5),
            (self.hang_up, 13.0),
        ]

    def subject(self, key: int) -> str:
        return f"$KV.{BUCKET}.key{key}"

    def probe_subject(self, stream: str) -> str:
        return f"$KV.{BUCKET}.probe"

    async def put(self) -> None:
        key = self.random.randrange(KEYS)
        async with self.writing[key]:
            line = await self.line()
            bucket: Any = await line.guard(line.nats.jetstream(timeout=40).key_value(BUCKET))
            identity = self.new_identity()
            value = payload_of(STREAM, identity, self.random.randint(0, 500))
            last = self._last(key)
            self.ledger.send(identity, self.subject(key), self.life)
            try:
                if last and self.random.random() < 0.3:
                    revision = await line.guard(bucket.update(f"key{key}", value, last=last))
                else:
                    revision = await line.guard(bucket.put(f"key{key}", value))
            except nats.js.errors.APIError:
                self.counts["refused"] += 1
                self.ledger.refuse(identity)
            else:
                self.ledger.acknowledge(identity, revision, time.time())

    def _last(self, key: int) -> int:
        """The revision that is known to be the last, or 0."""
        of_key = self.ledger.matching(lambda name: name == self.subject(key), settled=True)
        return self.ledger.entries[of_key[-1]].seq if of_key else 0

    async def remove(self) -> None:
        """A marker, which with a purge takes everything before it along."""
        key = self.random.randrange(KEYS)
        async with self.writing[key]:
            subject, identity = self.subject(key), self.new_identity()
            purging = self.random.random() < 0.5
            headers = {"KV-Operation": "PURGE" if purging else "DEL", ID_HEADER: identity}
            before: list[str] = []
            if purging:
                headers["Nats-Rollup"] = "sub"
                before = self.ledger.matching(lambda name: name == subject, settled=True)
                unsettled = self.ledger.matching(lambda name: name == subject, settled=False)
                self.ledger.may_go([*before, *unsettled], self.life)
            self.ledger.send(identity, subject, self.life, headed=True)
            line = await self.line()
            with self.ledger.removal(lambda _: False, self.life):
                answer = await line.answer(await line.publish(subject, b"", headers))
            self.ledger.acknowledge(identity, answer["seq"], time.time())
            self.ledger.has_gone(before)
            self.counts["deletes"] += 1

    async def look(self) -> None:
        """The last value of a key is the last that was put, if that is certain."""
        key = self.random.randrange(KEYS)
        async with self.writing[key]:
            last = self._last(key)
            if not last or self.ledger.matching(lambda name: name == self.subject(key), settled=False):
                return
            identity = next(one for one, entry in self.ledger.entries.items() if entry.seq == last)
            if self.ledger.entries[identity].removable:
                return
            try:
                found = await self.ask(f"STREAM.MSG.GET.{STREAM}", {"last_by_subj": self.subject(key)})
            except Refused as error:
                if error.code == NO_MESSAGE:
                    self.findings.add("lost", f"{BUCKET}: key{key} has revision {last}: {error}")
                return
            if found["message"]["seq"] != last:
                text = f"{BUCKET}: the last revision of key{key} is {last}, not {found['message']['seq']}"
                self.findings.add("lost", text)

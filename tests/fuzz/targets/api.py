"""Requests to the JetStream API of a server in this process, through the real dispatcher, and publishes in
between.

    input     up to MOST_STEPS steps, between bytes of 0xFF
    step      byte 0: which request, or a publish; byte 1: which stream and consumer; rest: the body

Each input begins with one stream S of three messages and one consumer c: those of the input before, if that
one changed nothing. Right is: every request is answered, and no answer is an internal error; a bug is
reported nowhere; at the end the server still answers.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile

import msgspec

from headrace.broker.broker import Broker
from headrace.broker.internal import InternalClient
from headrace.config.options import Options
from headrace.engine.core.sinks import InboxMessage
from headrace.logs import Logger, LogSettings
from headrace.streams.api.routes import ROUTES
from headrace.streams.jetstream import JetStream

MOST_STEPS = 4
API = b"$JS.API."
INBOX = b"_R.%d"
STREAMS = (b"S", b"S", b"S", b"T", b"no")
CONSUMERS = (b"c", b"c", b"d", b"no", b"\xc3x")  # the last is not UTF-8
SUBJECTS = sorted(
    [API + route.pattern.encode() for route in ROUTES]
    + [API + b"DIRECT.GET.*", API + b"DIRECT.GET.*.s.a", b"s.a"]
)
PUBLISH = SUBJECTS.index(b"s.a")
READING = re.compile(rb"INFO|NAMES|LIST|DIRECT|STREAM\.MSG\.GET")
STREAM = {"name": "S", "subjects": ["s.>"], "storage": "memory", "allow_direct": True, "allow_msg_ttl": True,
          "allow_rollup_hdrs": True, "allow_msg_schedules": True, "allow_atomic": True}  # fmt: skip
CONSUMER = {"stream_name": "S", "config": {"durable_name": "c", "ack_policy": "explicit"}}


class Errors(Logger):
    """A log that goes nowhere, and keeps the errors."""

    def __init__(self) -> None:
        super().__init__(LogSettings(path=os.devnull))
        self.errors: list[str] = []

    def error(self, text: str) -> None:
        self.errors.append(text)


class Room:
    """The server: without listener and signals, with everything behind them."""

    def __init__(self) -> None:
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        options = Options(
            port=-1,
            jetstream=True,
            store_dir=tempfile.mkdtemp(prefix="headrace-fuzz-", dir=shared),
            jetstream_max_memory=1 << 30,
            jetstream_max_store=1 << 30,
        )
        self.logger = Errors()
        self.broker = Broker(options, self.logger)
        self.jetstream = JetStream(options, self.broker, self.logger)
        (self.account,) = self.jetstream.accounts.values()
        self.client = InternalClient(self.broker.hub, self.broker.interest, self.broker.on_bug)
        self.answer: asyncio.Future[InboxMessage] | None = None
        self.inbox = b""
        self.asked = 0
        self.is_changed = True

    async def start(self) -> None:
        hub = self.broker.hub
        asyncio.get_running_loop().add_reader(hub.fileno(), hub.poll)
        self.jetstream.start()
        self.client.subscribe(b"_R.*", self.on_answer)
        self.client.subscribe(b"$JS.EVENT.ADVISORY.API", lambda _: None)  # audits are written only if read

    def on_answer(self, message: InboxMessage) -> None:
        if self.answer is not None and not self.answer.done() and message.subject == self.inbox:
            self.answer.set_result(message)

    async def ask(self, subject: bytes, body: bytes, headers: bytes = b"") -> bytes:
        """The first answer; b"" if nobody listens. If there is none, libFuzzer's patience ends."""
        self.answer = LOOP.create_future()
        self.asked += 1
        self.inbox = INBOX % self.asked
        if not self.client.publish(subject, body, reply=self.inbox, headers=headers):
            return b""
        payload: bytes = (await self.answer).payload
        return payload

    async def reset(self) -> None:
        for name in list(self.account.streams):
            await self.ask(API + b"STREAM.DELETE." + name.encode(), b"")
        await self.ask(API + b"STREAM.CREATE.S", msgspec.json.encode(STREAM))
        for _ in range(3):
            await self.ask(b"s.a", b"hello")
        await self.ask(API + b"CONSUMER.CREATE.S.c", msgspec.json.encode(CONSUMER))
        assert list(self.account.streams) == ["S"], self.logger.errors
        assert list(self.account.streams["S"].consumers) == ["c"], self.logger.errors

    async def step(self, step: bytes) -> None:
        place, names, body = step[0] % len(SUBJECTS), step[1], step[2:]
        if place == PUBLISH:
            block, _, payload = body.partition(b"\0")
            headers = b"NATS/1.0\r\n" + block + b"\r\n\r\n" if block else b""
            answer = await self.ask(b"s.a", payload, headers)
            is_reading = False
        else:
            stream, consumer = STREAMS[names % len(STREAMS)], CONSUMERS[names // 16 % len(CONSUMERS)]
            subject = SUBJECTS[place].replace(b"*", stream, 1).replace(b"*", consumer).replace(b">", b"s.a")
            answer = await self.ask(subject, body)
            is_reading = READING.search(SUBJECTS[place]) is not None
        self.is_changed = self.is_changed or not (is_reading or b'"error":' in answer)
        assert b'"internal error"' not in answer, (answer, self.logger.errors)

    async def run(self, steps: list[bytes]) -> None:
        self.logger.errors.clear()
        if self.is_changed:
            await self.reset()
            self.is_changed = False
        for step in steps:
            await self.step(step)
        assert await self.ask(API + b"INFO", b"")
        assert self.logger.errors == []


LOOP = asyncio.new_event_loop()
ROOM = Room()
LOOP.run_until_complete(ROOM.start())


def check(data: bytes) -> None:
    steps = [step for step in data.split(b"\xff")[:MOST_STEPS] if len(step) >= 2]
    LOOP.run_until_complete(ROOM.run(steps))

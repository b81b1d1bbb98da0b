"""A stream on a clock that the test moves, and a model of what it keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from headrace.broker.broker import Broker
from headrace.config.options import Options
from headrace.config.storage import with_limits
from headrace.engine.basics.filters import Filter
from headrace.logs import Logger, LogSettings
from headrace.streams import headers
from headrace.streams.api.dispatch import Request
from headrace.streams.api.message_requests import delete_message
from headrace.streams.api.stream_requests import create_stream, purge_stream, update_stream
from headrace.streams.delete_markers import is_marker
from headrace.streams.errors import ApiError
from headrace.streams.ingest.publication import Publication
from headrace.streams.ingest.ttl import read_ttl
from headrace.streams.jetstream import JetStream
from headrace.streams.jetstream_account import JetStreamAccount
from headrace.streams.stream import Stream
from tests.streams.clock_loop import SECOND, Clock, ClockLoop
from tests.streams.expiry_model import NEVER, ExpiryModel, Kept

MILLISECOND = SECOND // 1000
LONGEST_DELAY = SECOND // 10
ALL = Filter(())


@dataclass(frozen=True)
class Config:
    """Durations are in seconds; 0: none."""

    max_age: int = 0
    marker_ttl: int = 0
    allow_ttl: bool = False


class Pair:
    """A stream and its model, side by side.

    Each operation has a millisecond of the second to itself, and waiting is for whole seconds: so nothing
    is ever due at the very moment of another operation.
    """

    def __init__(self, loop: ClockLoop, clock: Clock, directory: str, config: Config, storage: str) -> None:
        self.loop = loop
        self.clock = clock
        self.directory = directory
        self.storage = storage
        self.model = ExpiryModel()
        self.logger = Logger(LogSettings(path=f"{directory}/log"))
        self.max_per_subject = -1
        self.config = config

    async def open(self, max_per_subject: int = -1) -> None:
        self.max_per_subject = self.model.max_per_subject = max_per_subject
        self.start()
        await self.ask(create_stream, self.wire_config(self.config))
        self.model.configure(**vars(self.config))

    def start(self) -> None:
        options = with_limits(Options(store_dir=self.directory, jetstream=True))
        self.broker = Broker(options, self.logger)
        self.loop.add_reader(self.broker.hub.fileno(), self.broker.hub.poll)
        self.jetstream = JetStream(options, self.broker, self.logger, self.clock)
        self.jetstream.start()

    async def stop(self) -> None:
        await self.jetstream.stop()
        self.loop.remove_reader(self.broker.hub.fileno())

    @property
    def stream(self) -> Stream:
        return self.account.streams["S"]

    @property
    def account(self) -> JetStreamAccount:
        return self.jetstream.accounts["$G"]

    async def ask(self, handler: Callable[[JetStreamAccount, Request], Any], body: dict[str, Any]) -> Any:
        answer = handler(self.account, Request("", ["S"], b"", b"", msgspec.json.encode(body), None))
        return await answer if hasattr(answer, "__await__") else answer

    def wire_config(self, config: Config) -> dict[str, Any]:
        return {
            "name": "S",
            "subjects": ["s.*"],
            "storage": self.storage,
            "max_age": config.max_age * SECOND,
            "duplicate_window": SECOND // 10,
            "max_msgs_per_subject": self.max_per_subject,
            "allow_rollup_hdrs": True,
            "allow_msg_ttl": config.allow_ttl,
            "subject_delete_marker_ttl": config.marker_ttl * SECOND,
        }

    # -- what happens -------------------------------------------------------------------------------------

    async def apply(self, name: str, *arguments: Any) -> None:
        await self.pass_time(MILLISECOND)
        await getattr(self, f"on_{name}")(*arguments)
        await self.settle()
        self.check()

    async def pass_time(self, duration: int) -> None:
        self.clock.time += duration
        self.model.expire(self.clock.time)
        await self.settle()

    async def on_publish(self, subject: str, ttl: int) -> None:
        self.publish(subject, ttl)
        self.model.publish(subject, self.clock.time, ttl)

    async def on_publish_kv_purge(self, subject: str, ttl: int) -> None:
        self.publish(subject, ttl, (headers.KEY_VALUE_OPERATION, b"PURGE"))
        self.model.publish(subject, self.clock.time, ttl, is_kv_purge=True)

    async def on_roll_up(self, subject: str, rollup: str, ttl: int) -> None:
        self.publish(subject, ttl, (headers.ROLLUP, rollup.encode()))
        self.model.publish(subject, self.clock.time, ttl, rollup=rollup)

    def publish(self, subject: str, ttl: int, *others: tuple[bytes, bytes]) -> None:
        block = b""
        for name, value in others:
            block = headers.append(block, name, value)
        if ttl:
            block = headers.append(block, headers.TTL, b"never" if ttl == NEVER else b"%d" % ttl)
        # A stream without TTLs takes messages that have one from other streams.
        is_sourced = bool(ttl) and not self.stream.config.allow_msg_ttl
        publication = Publication(subject.encode(), b"", block, b"x", is_sourced=is_sourced)
        self.stream.ingest.accept_own(publication)

    async def on_wait(self, seconds: int) -> None:
        await self.pass_time(seconds * SECOND)

    async def on_delete(self, place: int) -> None:
        if self.model.kept:
            message = self.model.kept[place % len(self.model.kept)]
            self.model.remove([message])
            await self.ask(delete_message, {"seq": message.seq})

    async def on_purge(self, subject: str, keep: int) -> None:
        matching = self.model.of(subject) if subject == "s.a" else self.model.kept
        self.model.remove(matching[: len(matching) - keep])
        await self.ask(purge_stream, {"filter": subject, "keep": keep})

    async def on_restart(self, seconds: int) -> None:
        if self.storage == "memory":
            return
        await self.stop()
        self.clock.time += seconds * SECOND
        self.model.expire(self.clock.time)
        self.start()

    async def on_configure(self, config: Config) -> None:
        self.check()
        self.model.configure(**vars(config))
        self.model.expire(self.clock.time)
        self.config = Config(config.max_age, config.marker_ttl, self.model.allow_ttl)
        await self.ask(update_stream, self.wire_config(self.config))

    # -- what there is ------------------------------------------------------------------------------------

    def check(self) -> None:
        found = self.found()
        if not self.model.allow_ttl:
            self.accept_late(found)
        assert found == self.model.kept
        log = self.stream.log
        assert log.last_seq == self.model.last_seq
        assert log.count == len(found)

    def accept_late(self, found: list[Kept]) -> None:
        """Where all messages have the same age, those of a tenth of a second may go together."""
        oldest = self.clock.time - self.model.max_age * SECOND - LONGEST_DELAY
        late = [kept for kept in found if kept not in self.model.kept and kept.time > oldest]
        self.model.kept = sorted(self.model.kept + late, key=lambda kept: kept.seq)

    async def settle(self) -> None:
        for _ in range(3):
            await self.turn()
            while self.loop.has_due_timers():
                await self.turn()

    async def turn(self) -> None:
        """One turn of the loop, and until what was changed in it is on disk, or failed to be."""
        await asyncio.sleep(0)
        await self.stream.settled()
        with suppress(ApiError):
            await self.stream.committed()

    def found(self) -> list[Kept]:
        log, found = self.stream.log, []
        message = log.next(0, ALL)
        while message is not None:
            leaves_marker = not is_marker(message.headers)
            subject = message.subject.decode()
            found.append(Kept(message.seq, subject, message.time, read_ttl(message.headers), leaves_marker))
            message = log.next(message.seq + 1, ALL)
        return found


def run_pair(
    config: Config,
    storage: str,
    directory: str,
    work: Callable[[Pair], Coroutine[Any, Any, None]],
    max_per_subject: int = -1,
) -> None:
    """Do some work with a pair that is open, in a loop of its own."""
    clock = Clock()
    loop = ClockLoop(clock)

    async def run() -> None:
        pair = Pair(loop, clock, directory, config, storage)
        await pair.open(max_per_subject)
        try:
            await work(pair)
        finally:
            await pair.stop()
            pair.logger.close()

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()

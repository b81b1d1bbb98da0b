"""Clients and streams that come and go: connect storms, half-open sockets, receivers that do not read."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from nats.aio.msg import Msg

from tests.soak.actor import Actor, Habit
from tests.soak.ledger import Ledger
from tests.soak.line import LOST, Refused, open_line
from tests.soak.messages import identity_of, payload_of
from tests.soak.reading import READERS, read_stream

STORM = 40
FLOOD_BYTES = 64 * 1024
FLOOD_MESSAGES = 300
NO_STREAM = 10059


class ChurnActor(Actor):
    async def prepare(self) -> None:
        self.deleted: list[str] = []
        self.half_open: list[socket.socket] = []

    def habits(self) -> list[tuple[Habit, float]]:
        return [
            (self.storm, 3.0),
            (self.leave_half_open, 2.0),
            (self.do_not_read, 8.0),
            (self.talk, 1.0),
            (self.live_a_stream, 2.0),
        ]

    async def storm(self) -> None:
        """Many connects at once, which end in different ways."""
        results = await asyncio.gather(*(self._visit() for _ in range(STORM)), return_exceptions=True)
        self.counts["connects"] += sum(result is None for result in results)

    async def _visit(self) -> None:
        reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self.port), 10)
        try:
            if self.random.random() < 0.8:
                writer.write(b'CONNECT {"verbose":false}\r\nSUB visit.* 1\r\nPUB visit.x 2\r\nhi\r\nPING\r\n')
                await asyncio.wait_for(reader.readuntil(b"PONG\r\n"), 10)
            if self.random.random() < 0.5:
                writer.transport.abort()
        finally:
            writer.close()

    async def leave_half_open(self) -> None:
        """Sockets whose other end never says anything again; the oldest go."""
        place = socket.socket()
        place.setblocking(False)
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(place, ("127.0.0.1", self.port)), 10)
        half = self.random.choice((b"", b"CONN", b'CONNECT {"verbose":false}\r\nPUB x 100\r\nabc'))
        await asyncio.get_running_loop().sock_sendall(place, half)
        self.half_open.append(place)
        if len(self.half_open) > 10:
            self.half_open.pop(0).close()

    async def do_not_read(self) -> None:
        """A receiver that stops reading while much is sent to it: it is cut, or waited for."""
        _, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self.port), 10)
        try:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b'CONNECT {"verbose":false}\r\nSUB flood.here 1\r\nPING\r\n')
            line = await self.line()
            for _ in range(FLOOD_MESSAGES):
                await line.send("flood.here", b"x" * FLOOD_BYTES)
                await asyncio.sleep(0)
            await asyncio.wait_for(line.guard(line.nats.flush(timeout=10)), 15)
            self.counts["floods"] += 1
        finally:
            writer.transport.abort()

    async def talk(self) -> None:
        """Core messages from one client to another and to a group: once, in order, whole."""
        speaker, listener = await open_line(self.port), await open_line(self.port)
        heard: list[str | None] = []
        shared: list[str | None] = []

        async def on_message(message: Msg) -> None:
            heard.append(identity_of("core", b"", message.data))

        async def on_shared(message: Msg) -> None:
            shared.append(identity_of("core", b"", message.data))

        try:
            subject = f"talk.{self.new_identity()}"
            await listener.nats.subscribe(subject, cb=on_message)
            for member in (listener, speaker):
                await member.nats.subscribe(subject, queue="group", cb=on_shared)
                await member.guard(member.nats.flush(timeout=10))
            said = [self.new_identity() for _ in range(self.random.randint(1, 100))]
            for identity in said:
                await speaker.send(subject, payload_of("core", identity, 100))
            for member in (speaker, listener):
                await member.guard(member.nats.flush(timeout=10))
            await asyncio.sleep(0.2)
            if speaker.closed.done() or listener.closed.done():
                return
            if heard != said:
                self.findings.add("skipped", f"core: {len(said)} said, {len(heard)} heard, or out of order")
            if sorted(map(str, shared)) != sorted(said):
                self.findings.add("skipped", f"core: {len(said)} said, {len(shared)} heard by a group")
            self.counts["core"] += len(said)
        finally:
            await speaker.close()
            await listener.close()

    # -- streams that come and go ---------------------------------------------------------------------------

    async def live_a_stream(self) -> None:
        """Created, filled, updated, read, given consumers, deleted; and it does not come back."""
        name = self.new_identity().upper()
        storage = self.random.choice(("file", "file", "memory"))
        config: dict[str, Any] = {
            "name": name,
            "subjects": [f"{name}.>"],
            "storage": storage,
            "allow_direct": True,
        }
        ledger = Ledger(name, self.findings)
        life = self.life
        try:
            await self.ask(f"STREAM.CREATE.{name}", config)
            await self.publish(
                ledger, f"{name}.a", [self.new_identity() for _ in range(100)], lambda: 500, msg_ids=True
            )
            await self._make_consumers(name)
            await self.ask(f"STREAM.UPDATE.{name}", {**config, "subjects": [f"{name}.>", f"{name}-more"]})
            await self.publish(ledger, f"{name}-more", [self.new_identity()], lambda: 500)
            stored, state = await asyncio.to_thread(read_stream, self.port, name, READERS["direct gets"])
            if life == self.life:
                ledger.check(stored, state["last_seq"], life, 0.0, 0.0)
                self.counts["streams"] += 1
        finally:
            self.counts["short-lived"] += ledger.acknowledged
            await self._delete_stream(name)

    async def _make_consumers(self, name: str) -> None:
        for number in range(3):
            consumer = {"durable_name": f"c{number}", "ack_policy": "explicit"}
            await self.ask(f"CONSUMER.CREATE.{name}.c{number}", {"stream_name": name, "config": consumer})
        await self.ask(f"CONSUMER.DELETE.{name}.c1")

    async def _delete_stream(self, name: str) -> None:
        while True:
            try:
                await self.ask(f"STREAM.DELETE.{name}")
            except Refused as error:
                if error.code != NO_STREAM:
                    await asyncio.sleep(0.5)
                    continue
            except LOST:
                await asyncio.sleep(0.2)
                continue
            self.deleted.append(name)
            return

    async def check(self) -> None:
        """Deleted streams stay away."""
        try:
            names = (await self.ask("STREAM.NAMES", {})).get("streams") or []
        except LOST:
            return
        for name in set(names) & set(self.deleted):
            self.findings.add("resurrected", f"stream {name} was deleted and is there")
            self.deleted.remove(name)

"""A client with habits, things that it does again and again, and a check of all that it knows."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.soak.findings import Findings
from tests.soak.ledger import Ledger, Limits
from tests.soak.line import LOST, Line, NoAnswer, Refused, Silence, open_line
from tests.soak.messages import ID_HEADER, payload_of
from tests.soak.reading import READERS, read_stream

PROBE_SECONDS = 20.0
HABIT_SECONDS = 120.0
"""nats-py can wait for ever when a connection breaks at the wrong moment."""
API = "$JS.API"

Habit = Callable[[], Awaitable[None]]


class Actor:
    """`habits` are run side by side, each again and again after a pause of about its seconds."""

    def __init__(self, name: str, port: int, seed: int, rate: float) -> None:
        self.name = name
        self.port = port
        self.random = random.Random(f"{seed} {name}")
        self.rate = rate
        self.life = 1
        self.findings = Findings()
        self.counts: Counter[str] = Counter()
        self.ledgers: dict[str, Ledger] = {}
        self.samples: list[tuple[float, str, float]] = []
        self.going = asyncio.Event()
        self.quiet = asyncio.Lock()
        """Held while nobody may begin to publish."""
        self.publishing = 0
        self._busy = 0
        self._line: Line | None = None
        self._opening = asyncio.Lock()
        self._numbers = 0

    def habits(self) -> list[tuple[Habit, float]]:
        raise NotImplementedError

    async def prepare(self) -> None:
        """Make the streams and consumers."""
        raise NotImplementedError

    # -- what the supervisor asks for -----------------------------------------------------------------------

    async def pause(self) -> None:
        """Returns when nothing is under way any more."""
        self.going.clear()
        while self._busy:
            await asyncio.sleep(0.02)

    async def check(self) -> None:
        """While all are paused: read everything back, and compare. Then every stream takes a message."""
        for ledger in self.ledgers.values():
            await self.check_stream(ledger)
        for stream in self.ledgers:
            await self.probe(stream)

    async def repeat(self, habit: Habit, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds * self.random.uniform(0.3, 1.7) / self.rate)
            await self.going.wait()
            self._busy += 1
            try:
                async with asyncio.timeout(HABIT_SECONDS):
                    await habit()
            except (Refused, *LOST):
                self.counts["disturbed"] += 1
            finally:
                self._busy -= 1

    def take_samples(self) -> list[tuple[float, str, float]]:
        """What was measured since the last time: when, what, and how much."""
        taken, self.samples = self.samples, []
        return taken

    # -- talking to the server ------------------------------------------------------------------------------

    async def line(self) -> Line:
        """The connection that all habits share, reopened if it is lost."""
        async with self._opening:
            if self._line is None or self._line.closed.done():
                if self._line is not None:
                    await self._line.close()
                    self.counts["reconnects"] += 1
                self._line = await open_line(self.port)
                await self.on_connected(self._line)
            return self._line

    async def on_connected(self, line: Line) -> None:
        """Subscribe again, where that is wanted."""

    async def hang_up(self) -> None:
        if self._line is not None:
            self._line.hang_up()
            self.counts["hang-ups"] += 1

    async def ask(self, subject: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """An API request. Silence is a finding, if the server was there all the time."""
        line, life = await self.line(), self.life
        try:
            return await line.ask(f"{API}.{subject}", body)
        except Silence:
            if life == self.life and not line.closed.done():
                self.findings.add("unanswered", f"{subject} {body}")
            raise

    async def make_stream(self, name: str, limits: Limits | None = None, **config: Any) -> Ledger:
        """Until it is there: the server may be killed meanwhile."""
        wanted = {"name": name, "storage": "file", "allow_direct": True, **config}
        await self.insist(f"STREAM.CREATE.{name}", wanted)
        self.ledgers[name] = Ledger(name, self.findings, limits)
        return self.ledgers[name]

    async def insist(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask until there is an answer."""
        while True:
            try:
                return await self.ask(subject, body)
            except LOST:
                await asyncio.sleep(0.1)

    def new_identity(self) -> str:
        self._numbers += 1
        return f"{self.name}-{self._numbers}"

    async def publish(
        self,
        ledger: Ledger,
        subject: str,
        identities: list[str],
        size: Callable[[], int],
        *,
        msg_ids: bool = False,
        headers: dict[str, str] | None = None,
        lifetime: float = math.inf,
        again: bool = False,
    ) -> None:
        """Several at once on one connection; their sequences must be in the order of sending."""
        async with self.gate():
            await self._publish(ledger, subject, identities, size, msg_ids, headers, lifetime, again)

    @asynccontextmanager
    async def gate(self) -> AsyncIterator[None]:
        """Every publisher goes through it."""
        async with self.quiet:
            self.publishing += 1
        try:
            yield
        finally:
            self.publishing -= 1

    @asynccontextmanager
    async def silence(self) -> AsyncIterator[None]:
        """Nobody publishes meanwhile, and no acknowledgement is awaited."""
        async with self.quiet:
            while self.publishing:
                await asyncio.sleep(0.02)
            yield

    async def _publish(
        self,
        ledger: Ledger,
        subject: str,
        identities: list[str],
        size: Callable[[], int],
        msg_ids: bool,
        headers: dict[str, str] | None,
        lifetime: float,
        again: bool,
    ) -> None:
        line = await self.line()
        waiting = []
        for identity in identities:
            entry = ledger.entries.get(identity)
            if again and (entry is None or entry.removable):
                continue  # removed meanwhile: its id would still be known, though it is not stored
            extra = {"Nats-Msg-Id": identity} if msg_ids else {}
            if headers or msg_ids:
                extra |= {ID_HEADER: identity, **(headers or {})}
            payload = payload_of(ledger.stream, identity, size())
            ledger.send(
                identity,
                subject,
                self.life,
                now=time.time(),
                lifetime=lifetime,
                headed=bool(extra),
                with_id=msg_ids,
            )
            waiting.append((identity, await line.publish(subject, payload, extra or None)))
        before = 0
        for identity, future in waiting:
            seq, again = await self._acknowledged(line, ledger, identity, future)
            if seq and not again:
                if seq < before:
                    self.findings.add("skipped", f"{ledger.stream}: {identity} got {seq} after {before}")
                before = seq

    async def _acknowledged(
        self, line: Line, ledger: Ledger, identity: str, future: asyncio.Future[Any]
    ) -> tuple[int, bool]:
        life = self.life
        try:
            answer = await line.answer(future)
        except Refused as error:
            self.counts["refused"] += 1
            if error.code:  # an answer of JetStream, not "no responders"
                ledger.refuse(identity)
            return 0, False
        except NoAnswer as error:
            if isinstance(error, Silence) and life == self.life and not line.closed.done():
                self.findings.add("unanswered", f"{ledger.stream}: publish of {identity}")
            self.counts["unknown"] += 1
            return 0, False
        ledger.acknowledge(identity, answer["seq"], time.time())
        return answer["seq"], "duplicate" in answer

    # -- checks ---------------------------------------------------------------------------------------------

    async def check_stream(self, ledger: Ledger) -> dict[int, str]:
        name = self.random.choice(sorted(self.readers(ledger)))
        began = time.time()
        for attempt in range(3):
            try:
                stored, state = await asyncio.to_thread(read_stream, self.port, ledger.stream, READERS[name])
                break
            except OSError as error:
                if attempt == 2:
                    self.findings.add("unanswered", f"{ledger.stream} cannot be read with {name}: {error}")
                    return {}
        present = ledger.check(stored, state["last_seq"], self.life, began, time.time())
        if math.isinf(max((entry.lifetime for entry in ledger.entries.values()), default=math.inf)):
            self._compare_counts(ledger, name, len(stored), state)
        return present

    def readers(self, ledger: Ledger) -> list[str]:
        return list(READERS)

    def _compare_counts(self, ledger: Ledger, reader: str, count: int, state: dict[str, Any]) -> None:
        if state["messages"] != count:
            text = f"{ledger.stream}: {state['messages']} messages by its state, {count} with {reader}"
            self.findings.add("lost" if count < state["messages"] else "resurrected", text)

    async def probe(self, stream: str) -> None:
        """No fault is under way: the stream takes a message, soon."""
        ledger = self.ledgers[stream]
        identity = self.new_identity()
        deadline = time.monotonic() + PROBE_SECONDS
        while True:
            await self.publish(ledger, self.probe_subject(stream), [identity], lambda: 0, msg_ids=True)
            entry = ledger.entries.get(identity)
            if entry is not None and entry.seq:
                return
            if time.monotonic() > deadline:
                self.findings.add("unanswered", f"{stream} takes no messages, {PROBE_SECONDS:.0f} s long")
                return
            await asyncio.sleep(0.3)

    def probe_subject(self, stream: str) -> str:
        return f"{stream}.probe"

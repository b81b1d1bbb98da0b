"""The run: a server, its clients, one fault after another, and a check after each."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.soak.actors import ACTORS
from tests.soak.clients import ClientFailed, ClientProcess
from tests.soak.disk import Disk
from tests.soak.faults import FAULTS, NEEDS_A_SMALL_DISK, NOT_BY_DEFAULT, Scene
from tests.soak.findings import Findings
from tests.soak.record import Fault, Finding, Record, Sample
from tests.soak.server import ServerFailed, ServerProcess

SAMPLE_SECONDS = 1.0
PROGRESS_SECONDS = 10.0
DISK_MEGABYTES = 400


@dataclass(frozen=True)
class Plan:
    seconds: float
    seed: int
    rate: float
    directory: Path
    work_seconds: tuple[float, float] = (3.0, 12.0)
    """Before a fault, and once more after it."""
    faults: tuple[str, ...] = tuple(FAULTS)


class Soak:
    """`run` returns the record, also when `stop` was called or something has failed."""

    def __init__(self, plan: Plan, show: Callable[[str], None]) -> None:
        self.record = Record(plan.seed)
        self._plan, self._show = plan, show
        self._random = random.Random(plan.seed)
        self._stopping = asyncio.Event()
        self._disk = Disk(plan.directory, DISK_MEGABYTES)
        self.server = ServerProcess(self._disk.store, plan.directory / "server.log")
        self._clients = [ClientProcess(name, self.record.hear) for name in ACTORS]
        self._own = Findings()
        self._at_fault = False
        self._shown = self._shown_wrong = 0
        self._faults = list(plan.faults)
        if self._disk.why_unlimited:
            self._faults = [name for name in self._faults if name not in NEEDS_A_SMALL_DISK]
            self._note(f"The disk was never full in this run: {self._disk.why_unlimited}.")

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> Record:
        watching: list[asyncio.Task[None]] = []
        try:
            await self.server.start()
            seed, rate = self._plan.seed, self._plan.rate
            watching = [asyncio.ensure_future(self._sample()), asyncio.ensure_future(self._progress())]
            await asyncio.gather(*(one.start(self.server.port, seed, rate) for one in self._clients))
            await self._everybody("go")
            await self._rounds()
        except (ServerFailed, ClientFailed) as error:
            self._own.add("died", str(error))
        finally:
            for task in watching:
                task.cancel()
            self._count()
            await asyncio.gather(*(one.stop() for one in self._clients))
            if self.server.running() and not await self.server.terminate():
                self._own.add("died", "SIGTERM did not end the server; it was killed")
            self._disk.close()
            self._count()
        return self.record

    async def _rounds(self) -> None:
        """Every fault once, in another order each time, until the time is over."""
        while not self._over():
            for name in self._random.sample(self._faults, len(self._faults)):
                await self._work()
                if self._over():
                    break
                await self._fault(name)
                await self._work()
                await self._check()
        await self._check()

    async def _work(self) -> None:
        """Some seconds, less if the end comes."""
        seconds = self._random.uniform(*self._plan.work_seconds) / 2
        left = self._plan.seconds - self.record.second
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), max(0.0, min(seconds, left)))
        if not self.server.running():
            raise ServerFailed(f"the server ended by itself: exit code {self.server.process.returncode}")

    async def _fault(self, name: str) -> None:
        began = self.record.second
        scene = Scene(self.server, self._disk, self._random, self._own, self._announce)
        self._at_fault = True
        try:
            await {**FAULTS, **NOT_BY_DEFAULT}[name](scene)
        finally:
            self._at_fault = False
            self.record.faults.append(Fault(name, began, self.record.second))

    async def _check(self) -> None:
        await self._everybody("pause")
        await self._everybody("check")
        self.record.checks.append(self.record.second)
        self._count()
        if self.record.wrong > self._shown_wrong:
            self._show_progress()
        await self._everybody("go")

    async def _announce(self, life: int) -> None:
        await self._everybody("life", life)

    async def _everybody(self, command: str, argument: object = "") -> None:
        await asyncio.gather(*(one.do(command, argument) for one in self._clients))

    def _over(self) -> bool:
        return self._stopping.is_set() or self.record.second >= self._plan.seconds

    # -- watching -------------------------------------------------------------------------------------------

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            self._count()
            vitals, counts = self.server.vitals(), self.record.counts
            if vitals is not None:
                self.record.samples.append(
                    Sample(
                        self.record.second,
                        *(vitals.memory_bytes, vitals.descriptors, vitals.threads),
                        self._disk.used_bytes(),
                        *(counts["acknowledged"], counts["delivered"], counts["checked"]),
                    )
                )

    async def _progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            self._show_progress()

    def _show_progress(self) -> None:
        self._show(self.progress_line())
        for one in self.record.findings[self._shown :]:
            self._show(f"  {one.second:6.0f} s  {one.who:10} {one.kind:11} {one.text}")
        self._shown, self._shown_wrong = len(self.record.findings), self.record.wrong

    def progress_line(self) -> str:
        record = self.record
        last = record.samples[-1] if record.samples else None
        figures = f", {last.memory_bytes / 1e6:.0f} MB, {last.descriptors:.0f} descriptors" if last else ""
        fault = f", last fault: {record.faults[-1].name}" if record.faults else ""
        counts = record.counts
        return (
            f"[{record.second:5.0f} s] life {self.server.life}, {counts['acknowledged']:,} acknowledged, "
            f"{counts['checked']:,} checked, {record.wrong} wrong{figures}{fault}"
        )

    def _count(self) -> None:
        counts: Counter[str] = Counter()
        found = Counter(self._own.counts)
        for client in self._clients:
            counts.update(client.counts)
            found.update(client.found)
        self.record.counts, self.record.found, self.record.lives = counts, found, self.server.life
        for kind, text in self._own.take():
            self.record.findings.append(Finding(self.record.second, "supervisor", kind, text))

    def _note(self, text: str) -> None:
        self.record.notes.append(text)
        self._show(text)

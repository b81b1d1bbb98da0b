"""The supervisor's side of the clients' processes."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Callable
from typing import Any

ANSWER_SECONDS = 240.0
"""A check of everything, with consumers that drain, on a busy machine."""
LONGEST_LINE = 1 << 24


class ClientFailed(Exception):
    """A client's process has ended, or does not answer: what it knew is lost, so the soak says nothing."""


class ClientProcess:
    def __init__(self, name: str, on_news: Callable[[str, dict[str, Any]], None]) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self._on_news = on_news
        self._done: asyncio.Queue[str] = asyncio.Queue()
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self, port: int, seed: int, rate: float) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.soak.worker", self.name, str(port), str(seed), str(rate)),
            stdin=PIPE,
            stdout=PIPE,
            limit=LONGEST_LINE,
            start_new_session=True,
        )
        self._reading = asyncio.ensure_future(self._read())
        await self._wait("prepare")

    async def do(self, command: str, argument: object = "") -> None:
        """Returns when it is done."""
        self._write(f"{command} {argument}\n")
        await self._wait(command)

    async def stop(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        self._write("stop\n")
        try:
            await asyncio.wait_for(self._process.wait(), 10)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _write(self, line: str) -> None:
        if self._process is None or self._process.stdin is None:
            raise ClientFailed(f"{self.name} was not started")
        self._process.stdin.write(line.encode())

    async def _wait(self, command: str) -> None:
        try:
            done = await asyncio.wait_for(self._done.get(), ANSWER_SECONDS)
        except TimeoutError:
            raise ClientFailed(f"client {self.name} does not answer to {command!r}") from None
        if done != command:
            raise ClientFailed(f"client {self.name} has ended (see its traceback above)")

    async def _read(self) -> None:
        if self._process is None or self._process.stdout is None:
            raise ClientFailed(f"{self.name} was not started")
        while line := await self._process.stdout.readline():
            news = json.loads(line)
            if "done" in news:
                self._done.put_nowait(news["done"])
            else:
                self.counts = Counter(news["counts"])
                self.found = Counter(news["found"])
                self._on_news(self.name, news)
        self._done.put_nowait("ended")

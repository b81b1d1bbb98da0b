"""A broker in the event loop of the test, with real sockets and a real log."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from headrace.broker.broker import Broker
from headrace.config.options import Options
from headrace.logs import Logger, LogSettings
from tests.frames import Frame, read_frames

HOST = "127.0.0.1"
PATIENCE_SECONDS = 20.0
OWN_SUBSCRIPTIONS = 1  # of the server, in each account
QUIET = {"verbose": False, "pedantic": False, "headers": True}


class RawClient:
    """A client that sends exactly what a test gives it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, info: dict[str, Any]
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.info = info

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def connect(self, **fields: Any) -> None:
        await self.send(b"CONNECT " + json.dumps({**QUIET, **fields}).encode() + b"\r\n")

    async def line(self) -> bytes:
        """The next line, or what is left when the server closes."""
        return await asyncio.wait_for(self.reader.readline(), PATIENCE_SECONDS)

    async def ask(self, data: bytes = b"") -> list[Frame]:
        """Send, then a PING; all that came until its PONG was there, but for that and an INFO."""
        await self.send(data + b"PING\r\n")
        received = b""
        while True:
            piece = await asyncio.wait_for(self.reader.read(65536), PATIENCE_SECONDS)
            assert piece, f"closed after {received!r}"
            received += piece
            frames, rest = read_frames(received)
            operations = [frame.operation for frame in frames]
            if not rest and "PONG" in operations:
                return [frame for frame in frames if frame.operation not in ("PONG", "INFO")]

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        received = b""
        try:
            while piece := await asyncio.wait_for(self.reader.read(65536), PATIENCE_SECONDS):
                received += piece
        except ConnectionResetError:
            pass
        return received

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


class Running:
    """A started broker and whoever connected to it."""

    def __init__(self, broker: Broker, logger: Logger) -> None:
        self.broker = broker
        self.logger = logger
        self._is_stopped = False
        self._raw: list[RawClient] = []
        self._clients: list[Client] = []

    async def raw(self, **connect: Any) -> RawClient:
        """A raw client that has read its INFO and, if fields are given, sent CONNECT."""
        reader, writer = await asyncio.open_connection(HOST, self.broker.port, limit=1 << 24)
        info = await asyncio.wait_for(reader.readline(), PATIENCE_SECONDS)
        assert info.startswith(b"INFO ")
        client = RawClient(reader, writer, json.loads(info[5:]))
        self._raw.append(client)
        if connect:
            await client.connect(**connect)
        return client

    async def client(self, **options: Any) -> Client:
        """A nats-py client."""
        client = await nats.connect(
            f"nats://{HOST}:{self.broker.port}", **{"allow_reconnect": False, "connect_timeout": 5, **options}
        )
        self._clients.append(client)
        return client

    def log_text(self) -> str:
        assert self.logger.flush()
        return Path(self.logger.path).read_text()

    async def until(self, condition: Callable[[], object]) -> None:
        """Let the loop run until something has come true."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await asyncio.sleep(0.002)

    def stop(self) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            self.broker.stop()

    async def close(self) -> None:
        for client in self._clients:
            if not client.is_closed:
                await client.close()
        for raw in self._raw:
            await raw.close()
        self.stop()
        self.logger.close()


Start = Callable[..., Running]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start brokers: `start(max_payload=100)`."""
    running: list[Running] = []

    def start_one(*, host: str = HOST, port: int = -1, **options: Any) -> Running:
        path = str(tmp_path / f"{len(running)}.log")
        logger = Logger(LogSettings(path, debug=True, trace=options.get("trace", False), logtime=False))
        broker = Broker(Options(host=host, port=port, **options), logger)
        running.append(Running(broker, logger))
        broker.start()
        return running[-1]

    yield start_one
    for one in running:
        await one.close()
        assert "Internal error" not in Path(one.logger.path).read_text()

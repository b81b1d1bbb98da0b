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
PATIENCE_SECONDS = 30.0
OWN_SUBSCRIPTIONS = 1  # of the server, in each account
QUIET = {"verbose": False, "pedantic": False, "headers": True}
PING = b"PING\r\n"  # of the server: the first comes after two seconds, which a busy machine may take


class RawClient:
    """A client that sends exactly what a test gives it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, info: dict[str, Any]
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.info = info
        self._second_info_comes = False

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def connect(self, **fields: Any) -> None:
        await self.send(b"CONNECT " + json.dumps({**QUIET, **fields}).encode() + b"\r\n")
        self._second_info_comes = bool(fields.get("protocol"))

    async def line(self) -> bytes:
        """The next line, or what is left when the server closes."""
        line = await asyncio.wait_for(self.reader.readline(), PATIENCE_SECONDS)
        self._second_info_comes &= not line.startswith(b"INFO ")
        return line

    async def ask(self, data: bytes = b"") -> list[Frame]:
        """Send, then a PING; all that came until its PONG was there, but for that, an INFO and a PING.

        The second INFO of a connection follows its first PONG, perhaps in a packet of its own.
        """
        await self.send(data + b"PING\r\n")
        received = b""
        while True:
            piece = await asyncio.wait_for(self.reader.read(65536), PATIENCE_SECONDS)
            assert piece, f"closed after {received!r}"
            received += piece
            frames, rest = read_frames(received)
            operations = [frame.operation for frame in frames]
            self._second_info_comes &= "INFO" not in operations
            if not rest and "PONG" in operations and not self._second_info_comes:
                return [frame for frame in frames if frame.operation not in ("PONG", "INFO", "PING")]

    async def rest(self, *, pings: bool = False) -> bytes:
        """Everything until the server closes; without its PINGs, unless they matter."""
        received = b""
        try:
            while piece := await asyncio.wait_for(self.reader.read(65536), PATIENCE_SECONDS):
                received += piece
        except ConnectionResetError:
            pass
        return received if pings else received.replace(PING, b"")

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
            f"nats://{HOST}:{self.broker.port}", **{"allow_reconnect": False, **options}
        )
        self._clients.append(client)
        return client

    def log_text(self) -> str:
        assert self.logger.flush(PATIENCE_SECONDS)
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

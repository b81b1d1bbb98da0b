from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from headrace.config.options import Options
from headrace.logs import Logger, LogSettings
from headrace.server import Server

Starter = Callable[..., Awaitable[Server]]
Connecter = Callable[..., Awaitable[Client]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Starter]:
    """Starts servers in the event loop of the test."""
    running: list[tuple[Server, asyncio.Task[None], Logger]] = []

    async def start_server(**options: Any) -> Server:
        settings = {"host": "127.0.0.1", "port": -1, "http_port": -1, "no_sigs": True, **options}
        logger = Logger(LogSettings(path=str(tmp_path / "server.logger")))
        server = Server(Options(**settings), logger)
        await server.start()
        running.append((server, asyncio.create_task(server.serve()), logger))
        return server

    yield start_server
    for server, task, logger in running:
        server.stop()
        await task
        logger.close()


@pytest.fixture
async def connect() -> AsyncIterator[Connecter]:
    """Connects clients, and closes them at the end."""
    clients: list[Client] = []

    async def connect_client(port: int, **options: Any) -> Client:
        client = await nats.connect(f"nats://127.0.0.1:{port}", allow_reconnect=False, **options)
        clients.append(client)
        return client

    yield connect_client
    for client in clients:
        await client.close()

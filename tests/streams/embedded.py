"""A server in the test's own event loop: the test can replace parts of it, and decide when things happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nats import connect
from nats.aio.client import Client

from headrace.config.options import Options
from headrace.logs import Logger, LogSettings
from headrace.server import Server


class EmbeddedServer:
    def __init__(self, server: Server, log_file: Path) -> None:
        self.server = server
        self._log_file = log_file

    def log(self) -> str:
        self.server.logger.flush()
        return self._log_file.read_text()

    async def client(self) -> Client:
        return await connect(f"nats://{self.server.address}", allow_reconnect=False)


@asynccontextmanager
async def embedded_server(directory: Path) -> AsyncIterator[EmbeddedServer]:
    """Stopped at the end, as by SIGTERM."""
    log_file = directory / "server.logger"
    options = Options(
        host="127.0.0.1", port=-1, no_sigs=True, jetstream=True, store_dir=str(directory / "store")
    )
    logger = Logger(LogSettings(path=str(log_file)))
    server = Server(options, logger)
    await server.start()
    serving = asyncio.ensure_future(server.serve())
    try:
        yield EmbeddedServer(server, log_file)
    finally:
        server.stop()
        await serving
        logger.close()

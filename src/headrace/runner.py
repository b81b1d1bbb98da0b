"""Runs a server in its own event loop: uvloop if it is installed, asyncio's otherwise."""

from __future__ import annotations

import asyncio
import gc
import signal
import traceback
from collections.abc import Callable
from typing import Any

from headrace.broker.descriptors import raise_limit
from headrace.config.options import Options
from headrace.engine.core import last_resort
from headrace.errors import HeadraceError
from headrace.logs import Logger
from headrace.server import Server
from headrace.service_manager import ServiceManager

STOP_SECONDS = 25
"""From SIGTERM to the end of the process, whatever it is doing. Kubernetes kills after 30 s."""
COLLECTIONS = (5_000, 5, 20)
"""How many new containers, and collections of the younger generation, make the garbage collector run. Young
ones are cheap. A full collection walks everything that connections and streams consist of, 8 ms with 5000
connections, and with Python's own numbers a few large answers of the monitor were enough to start one."""


def run_server(
    options: Options,
    logger: Logger,
    *,
    reread: Callable[[], Options] | None = None,
    on_ready: Callable[[Server], None] | None = None,
) -> int:
    """Serve until stopped; the exit code is 0, or 1 if the server could not start (the log says why)."""

    async def serve() -> int:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: logger.error(f"Internal error: {describe_bug(context)}")
        )
        server = Server(options, logger, reread)
        try:
            await server.start()
        except HeadraceError as error:
            logger.fatal(error.explained)
            return 1
        last_resort.watch(STOP_SECONDS, (signal.SIGTERM, signal.SIGINT))
        if on_ready:
            on_ready(server)
        server.service_manager = manager = ServiceManager.of_environment()
        manager.ready(f"Listening for client connections on {server.address}")
        await server.told_to_stop()
        last_resort.start()
        manager.stopping()
        await server.serve()
        # All is done: a second signal while Python ends must not make a clean exit look like a crash.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
        return 0

    raise_limit()
    # Imported modules stay for good: keep the garbage collector from scanning them again and again.
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(serve())


def describe_bug(context: dict[str, Any]) -> str:
    """The event loop's report of an uncaught exception, with its traceback."""
    error = context.get("exception")
    text = "".join(traceback.format_exception(error)) if error is not None else ""
    return f"{context['message']}: {text}"


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """None: asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop

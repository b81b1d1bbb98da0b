"""Runs a server in an event loop of its own: uvloop where it is installed, asyncio's otherwise."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

from headrace.config.options import Options
from headrace.errors import HeadraceError
from headrace.logs import Log
from headrace.server import Server


def run_server(
    options: Options,
    log: Log,
    *,
    reread: Callable[[], Options] | None = None,
    on_ready: Callable[[Server], None] | None = None,
) -> int:
    """Serve until stopped; the exit code is 0, or 1 if the server could not start (the log says why)."""

    async def serve() -> int:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: log.error(
                f"Internal error: {context['message']}: {context.get('exception')!r}"
            )
        )
        server = Server(options, log, reread)
        try:
            await server.start()
        except HeadraceError as error:
            log.fatal(f"{error}{f' ({error.hint})' if error.hint else ''}")
            return 1
        if on_ready:
            on_ready(server)
        await server.serve()
        return 0

    # What was imported stays for good: keep the collector from walking it again and again.
    gc.freeze()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(serve())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop

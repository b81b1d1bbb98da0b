"""One run of a server: a thread of this process, with an event loop of its own.

Why a thread and not a process: starting one takes a millisecond instead of an interpreter's start, it cannot
outlive the program, and messages are handled by compiled code anyway. It has its own loop, so the program's
loop, if it has one, is never used, and several servers do not know of each other. Signals belong to the
program. The price is the lock of the interpreter, which server and program share: measure with
`headrace serve` in a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future

import msgspec

from headrace.config.options import Options
from headrace.embedded.log import PythonLogger
from headrace.logs import Logger
from headrace.runner import describe_bug, loop_factory
from headrace.server import Server, log_settings


class Ports(msgspec.Struct, frozen=True):
    """Where it listens. 0: not at all."""

    nats: int
    monitor: int = 0
    websocket: int = 0
    http_in: int = 0


class ServerThread:
    """`ready` gets the ports, or the error because of which it did not start; `ended` comes last."""

    def __init__(self, options: Options) -> None:
        self.ready: Future[Ports] = Future()
        self.ended: Future[None] = Future()
        self._options = options
        self._process = os.getpid()
        self._server: Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_asked = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="headrace-server", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Does not wait. Once is as good as twice, and before it is ready as good as later."""
        with self._lock:
            self._stop_asked = True
            if self._server is not None and self._loop is not None and self.is_ours:
                self._loop.call_soon_threadsafe(self._server.stop)

    def join(self) -> None:
        if self.is_ours:
            self._thread.join()

    @property
    def is_ours(self) -> bool:
        """A fork has the object, but not the thread."""
        return self._process == os.getpid()

    def _run(self) -> None:
        try:
            logger = make_logger(self._options)
            try:
                with asyncio.Runner(loop_factory=loop_factory()) as runner:
                    runner.run(self._serve(logger))
            finally:
                logger.close()
        except BaseException as error:
            if not self.ready.done():
                self.ready.set_exception(error)
                self.ended.set_result(None)
            else:
                self.ended.set_exception(error)
        else:
            self.ended.set_result(None)

    async def _serve(self, logger: Logger) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda _, context: logger.error(f"Internal error: {describe_bug(context)}")
        )
        server = Server(self._options, logger)
        await server.start()
        with self._lock:
            self._server, self._loop = server, loop
            if self._stop_asked:
                server.stop()
        self.ready.set_result(ports_of(server))
        try:
            await server.serve()
        finally:
            with self._lock:
                self._loop = None  # nobody can call it from now on


def make_logger(options: Options) -> Logger:
    settings = log_settings(options)
    return Logger(settings) if settings.path else PythonLogger(settings)


def ports_of(server: Server) -> Ports:
    websocket = server.broker.websocket
    return Ports(
        server.broker.port,
        server.monitor.port if server.monitor else 0,
        websocket.port if websocket else 0,
        server.http_in.port if server.http_in else 0,
    )

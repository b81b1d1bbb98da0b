"""`from headrace import Server`: a server for as long as a block runs.

    with Server() as server:
        client = connect(server.url)

What it is made of: settings.py (keywords to options), store.py (the temporary directory), thread.py (where it
runs), program_end.py (if nobody stops it).
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

import msgspec

from headrace.broker.listener import WILDCARD_HOSTS, join_address
from headrace.config.options import Options
from headrace.embedded.program_end import at_program_end, forget
from headrace.embedded.settings import LOOPBACK, Config, make_options
from headrace.embedded.store import TemporaryStore
from headrace.embedded.thread import Ports, ServerThread
from headrace.errors import UsageError


class Server:
    """A NATS server in a thread of this process, on a free port of 127.0.0.1, with streams.

    `with Server() as server:` or `async with Server() as server:`; it is ready when the block begins, and has
    stopped when the block has ended, whatever ends it. `start()` and `stop()` do the same.

    Options are keywords: any directive of a configuration file (`max_payload=1000`, `jetstream=False`,
    `authorization={"token": "s3cret"}`), any plain option (`token="s3cret"`, `monitor_port=-1`). `config` is
    a configuration file, its text, or a dict; keywords override it. Streams are in a temporary directory that
    is removed at the end; `store_dir` keeps them for the next server.

    Raises UsageError (an option that does not exist, a port in use) or ConfigError (a wrong value).
    """

    def __init__(self, *, config: Config | None = None, **options: Any) -> None:
        self._options = make_options(config, options)
        self._store: TemporaryStore | None = None
        self._run: ServerThread | None = None
        self._ports = Ports(0)

    def __repr__(self) -> str:
        return f"<headrace.Server {self.url}>" if self.is_running else "<headrace.Server, not running>"

    # -- where it is

    @property
    def is_running(self) -> bool:
        return self._run is not None

    @property
    def url(self) -> str:
        """For clients: `nats://127.0.0.1:PORT`, or `tls://…`. Without credentials."""
        scheme = "tls" if self._options.tls_required else "nats"
        return f"{scheme}://{join_address(self.host, self.port)}"

    @property
    def host(self) -> str:
        """Where this machine reaches it."""
        return _reachable(self._options.host)

    @property
    def port(self) -> int:
        return self._running_ports.nats

    @property
    def monitor_url(self) -> str:
        """Of the HTTP endpoints. Raises UsageError if it has none."""
        port = self._running_ports.monitor
        if not port:
            raise UsageError("this server has no monitor", hint="Server(monitor_port=-1) takes a free port")
        scheme = "https" if self._options.https_port else "http"
        return f"{scheme}://{join_address(_reachable(self._options.monitor_host), port)}"

    @property
    def websocket_url(self) -> str:
        """Raises UsageError if it has none."""
        port = self._running_ports.websocket
        if not port:
            raise UsageError(
                "this server has no websocket port", hint='Server(websocket={"port": -1, "no_tls": True})'
            )
        websocket = self._options.websocket
        scheme = "wss" if websocket.tls else "ws"
        return f"{scheme}://{join_address(_reachable(websocket.host), port)}"

    @property
    def http_in_url(self) -> str:
        """Where messages are sent over HTTP, without the subject. Raises UsageError if there is none."""
        port = self._running_ports.http_in
        if not port:
            raise UsageError("this server takes no messages over HTTP", hint="Server(http_in=-1)")
        scheme = "https" if self._options.http_in.tls else "http"
        return f"{scheme}://{join_address(_reachable(self._options.http_in_host), port)}/publish/"

    @property
    def store_dir(self) -> str:
        """The directory of its streams."""
        return self._store.path if self._store else self._options.store_dir

    @property
    def _running_ports(self) -> Ports:
        if self._run is None:
            raise UsageError("this server is not running", hint="use `with Server() as server:` or start()")
        return self._ports

    # -- blocking

    def start(self) -> Server:
        """Returns itself when it is ready. Raises UsageError, and leaves nothing behind."""
        run = self._begin()
        try:
            self._ports = run.ready.result()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Returns when everything is on disk and closed. A server that does not run is left alone."""
        run = self._ask_to_stop()
        if run is not None:
            run.join()
            self._finish(run)

    def restart(self) -> None:
        """Stop it and start it again, with the same port and the same streams."""
        options = self._same_place()
        store, self._store = self._store, None  # so that it stays
        try:
            self.stop()
        finally:
            self._store = store
        self._options, before = options, self._options
        try:
            self.start()
        finally:
            self._options = before

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- in an event loop, without blocking it

    async def start_async(self) -> Server:
        run = self._begin()
        try:
            self._ports = await asyncio.shield(asyncio.wrap_future(run.ready))
        except BaseException:
            await self.stop_async()
            raise
        return self

    async def stop_async(self) -> None:
        run = self._ask_to_stop()
        if run is not None:
            await asyncio.shield(asyncio.to_thread(self._wait_and_finish, run))

    async def __aenter__(self) -> Server:
        return await self.start_async()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop_async()

    # -- how

    def _begin(self) -> ServerThread:
        if self._run is not None:
            raise UsageError("this server is running already", hint="make another Server()")
        options = self._options
        if options.jetstream and not options.store_dir:
            self._store = self._store or TemporaryStore()
            options = msgspec.structs.replace(options, store_dir=self._store.path)
        self._run = run = ServerThread(options)
        at_program_end(run, self.stop)
        run.start()
        return run

    def _ask_to_stop(self) -> ServerThread | None:
        run, self._run = self._run, None
        forget(run)
        if run is None or not run.is_ours:
            return None
        run.ask_to_stop()
        return run

    def _wait_and_finish(self, run: ServerThread) -> None:
        run.join()
        self._finish(run)

    def _finish(self, run: ServerThread) -> None:
        """Raises what ended the server, if that was not we."""
        store, self._store = self._store, None
        try:
            if not run.ready.exception():
                run.ended.result()
        finally:
            if store is not None:
                store.remove()

    def _same_place(self) -> Options:
        ports, options = self._running_ports, self._options
        changes: dict[str, Any] = {"port": ports.nats}
        if ports.monitor:
            changes["https_port" if options.https_port else "http_port"] = ports.monitor
        if ports.websocket:
            changes["websocket"] = msgspec.structs.replace(options.websocket, port=ports.websocket)
        if ports.http_in:
            changes["http_in"] = msgspec.structs.replace(options.http_in, port=ports.http_in)
        return msgspec.structs.replace(options, **changes)


def _reachable(host: str) -> str:
    return LOOPBACK if host in WILDCARD_HOSTS else host

"""The composition root: builds the rooms, starts them, stops them in order.

server = Server(Options(port=-1), logger)
await server.start()          # listening from here on
await server.serve()          # until stop(), a signal, or the end of lame duck mode
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from headrace import __version__
from headrace.broker.broker import Broker
from headrace.broker.listener import join_address
from headrace.config.durations import format_duration
from headrace.config.options import API_LEVEL, NATS_VERSION, Options
from headrace.config.reload import ReloadPlan, plan_reload
from headrace.config.storage import StorageDirectory, with_limits
from headrace.errors import HeadraceError, UsageError
from headrace.logs import Logger, LogSettings
from headrace.monitor.endpoint import new_context
from headrace.monitor.formats import format_bytes
from headrace.monitor.monitor import Monitor
from headrace.monitor.system.events import SystemEvents
from headrace.monitor.system.requests import SystemRequests
from headrace.process_files import Ports, ProcessFiles
from headrace.service_manager import SILENT

if TYPE_CHECKING:
    from headrace.http_in.server import HttpIn
    from headrace.streams.jetstream import JetStream


class Server:
    """One server. `reread` re-reads the options for SIGHUP; without it a reload changes nothing."""

    def __init__(self, options: Options, logger: Logger, reread: Callable[[], Options] | None = None) -> None:
        self.options = options
        self.logger = logger
        self.broker = Broker(options, logger)
        self.events = SystemEvents(self.broker)
        self.monitor: Monitor | None = None
        self.requests: SystemRequests | None = None
        self.jetstream: JetStream | None = None
        self.http_in: HttpIn | None = None
        self.service_manager = SILENT
        self._storage: StorageDirectory | None = None
        self._files = ProcessFiles()
        self._reread = reread
        self._stopped = asyncio.Event()
        self._lame_duck: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """`host:port` where clients connect."""
        return join_address(self.options.host, self.broker.port)

    async def start(self) -> None:
        """Raises UsageError if an address cannot be used; then nothing is left running."""
        logger, options = self.logger, self.options
        logger.info("Starting nats-server")
        logger.info(f"  Version:  {NATS_VERSION} (headrace {__version__})")
        logger.info(f"  Name:     {options.server_name or self.broker.server_id}")
        logger.info(f"  ID:       {self.broker.server_id}")
        if options.config_path:
            logger.info(f"Using configuration file: {options.config_path} ({options.config_digest})")
        if options.has_plaintext_password:
            logger.warn("Plaintext passwords detected, use bcrypt")
        # First of all: if this port is taken, the storage directory is most likely in use, too, which is less
        # clear.
        self.broker.reserve_address()
        try:
            if options.monitor_port:
                self.monitor = Monitor(self.broker)
                await self.monitor.start()
            self.requests = SystemRequests(
                self.monitor.context if self.monitor else new_context(self.broker),
                reload=self.reload,
                publish_statsz=self.events.publish_statsz,
            )
            if options.jetstream:
                await self._start_jetstream()
            self.broker.start()
            self.events.start()
            self.requests.start()
            if options.http_in.port:
                await self._start_http_in()
            self._files.write_pid(options.pid_file)
            self._write_ports()
        except BaseException:
            await self._stop_rooms()
            raise
        if not options.no_sigs:
            self._handle_signals()
        logger.info("Server is ready")

    async def _start_jetstream(self) -> None:
        """Recover what is stored, before the first client can ask for it."""
        from headrace.streams.jetstream import JetStream  # a server without streams does not load them

        logger, started = self.logger, time.monotonic()
        logger.info("Starting JetStream")
        if not self.options.store_dir:
            logger.warn("Temporary storage directory used, data could be lost on system reboot")
        self._storage = StorageDirectory(self.options.jetstream_directory)
        self.broker.start_operator_mode()
        try:
            await self._storage.open()
            if self.broker.operator_mode:
                self.broker.operator_mode.meet_accounts_of(self.options.jetstream_directory)
            options = with_limits(self.options)
            for line in describe_jetstream(options):
                logger.info(line)
            self.jetstream = JetStream(options, self.broker, logger)
            self.jetstream.start()
        except HeadraceError as error:
            raise UsageError(f"Can't start JetStream: {error}", hint=error.hint) from error
        self.events.jetstream = self.jetstream
        if self.monitor:
            self.monitor.show_jetstream(self.jetstream)
        if self.requests:
            self.requests.show_jetstream(self.jetstream)
        logger.info(f"Took {format_duration(time.monotonic() - started)} to start JetStream")

    async def _start_http_in(self) -> None:
        from headrace.http_in.server import HttpIn  # the same

        self.http_in = HttpIn(self.broker, self.jetstream)
        await self.http_in.start()

    async def told_to_stop(self) -> None:
        """Return when the server is about to stop."""
        await self._stopped.wait()

    async def serve(self) -> None:
        """Return when the server has stopped."""
        await self.told_to_stop()
        self.logger.info("Initiating Shutdown...")
        await self._stop_rooms()
        self.logger.info("Server Exiting..")

    def stop(self) -> None:
        """Ask the server to stop; `serve` returns when it has."""
        self._stopped.set()

    def enter_lame_duck(self) -> None:
        """Accept no new clients, ask the others to leave, close those that stay, then stop."""
        if self._lame_duck is None:
            self.logger.info("Entering lame duck mode, stop accepting new clients")
            self._lame_duck = asyncio.get_running_loop().create_task(self._drain())

    def reload(self) -> HeadraceError | None:
        """Read the configuration again. One that is wrong, or needs a restart, changes nothing: the error."""
        with self.service_manager.reloading():
            return self._reload()

    def _reload(self) -> HeadraceError | None:
        try:
            if self._reread is None or not self.options.config_path:
                raise UsageError("can only reload config when a file is provided using -c or --config")
            plan = plan_reload(self._running_options(), self._reread())
            if plan.auth_changed:
                self.broker.check_doorkeeper(plan.options)
            if plan.logging_changed:
                self.logger.configure(log_settings(plan.options))
        except HeadraceError as error:
            self.logger.error(f"Failed to reload server configuration: {error.explained}")
            return error
        for name in sorted(plan.changed):
            self.logger.info(f"Reloaded: {name}")
        self.options = plan.options
        self.broker.reload(
            plan.options, auth_changed=plan.auth_changed, info_changed=plan.info_changed or plan.auth_changed
        )
        if self.monitor and plan.options.https_port and plan.options.tls:
            self.monitor.load_certificates(plan.options.tls)
        if self.http_in and plan.options.http_in.tls:
            self.http_in.load_certificates(plan.options.http_in.tls)
        if self.jetstream and plan.auth_changed:
            self.jetstream.update(self.broker.accounts)
        if self.monitor and plan.auth_changed:
            self.monitor.update()
        if self.requests and plan.auth_changed:
            self.requests.update()
        self._reload_files(plan)
        self.logger.info(f"Reloaded server configuration ({plan.options.config_digest})")
        return None

    def _running_options(self) -> Options:
        """The options with the actual ports, which a reload may not change."""
        options = msgspec.structs.replace(self.options, port=self.broker.port)
        if self.monitor:
            name = "https_port" if options.https_port else "http_port"
            options = msgspec.structs.replace(options, **{name: self.monitor.port})
        if self.broker.websocket:
            websocket = msgspec.structs.replace(options.websocket, port=self.broker.websocket.port)
            options = msgspec.structs.replace(options, websocket=websocket)
        if self.http_in:
            http_in = msgspec.structs.replace(options.http_in, port=self.http_in.port)
            options = msgspec.structs.replace(options, http_in=http_in)
        return options

    async def _drain(self) -> None:
        await self.broker.drain()
        self.stop()

    async def _stop_rooms(self) -> None:
        if self._lame_duck:
            self._lame_duck.cancel()
        if self.http_in:
            await self.http_in.stop()
        self.events.stop()
        if self.requests:
            await self.requests.stop()
        if self.jetstream:
            self.logger.info("Initiating JetStream Shutdown...")
            await self.jetstream.stop()
            self.logger.info("JetStream Shutdown")
        self.broker.stop()
        if self._storage:
            self._storage.close()
        if self.monitor:
            await self.monitor.stop()
        self._files.remove()

    # -- signals and files

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number, name, action in (
            (signal.SIGTERM, "terminated", self.stop),
            (signal.SIGINT, "interrupt", self.stop),
            (signal.SIGUSR2, "user defined signal 2", self.enter_lame_duck),
            (signal.SIGUSR1, "user defined signal 1", self.logger.reopen),
            (signal.SIGHUP, "hangup", self.reload),
        ):
            loop.add_signal_handler(number, self._on_signal, name, action)

    def _on_signal(self, name: str, action: Callable[[], object]) -> None:
        self.logger.info(f'Trapped "{name}" signal')
        action()

    def _write_ports(self) -> None:
        ports: Ports = {"nats": [f"{'tls' if self.options.tls else 'nats'}://{self.address}"]}
        if self.monitor:
            ports["monitoring"] = [f"{self.monitor.scheme}://{self.monitor.address}"]
        if self.broker.websocket:
            ports["websocket"] = [self.broker.websocket.address]
        if self.http_in:
            ports["http_in"] = [self.http_in.url]
        try:
            self._files.write_ports(self.options.ports_file_dir, ports)
        except OSError as error:
            self.logger.error(f"Error writing ports file: {error}")

    def _reload_files(self, plan: ReloadPlan) -> None:
        if "pid_file" in plan.changed:
            try:
                self._files.write_pid(plan.options.pid_file)
            except UsageError as error:
                self.logger.error(str(error))
        if "ports_file_dir" in plan.changed:
            self._write_ports()


def describe_jetstream(options: Options) -> list[str]:
    """The lines of nats-server at the start, which scripts may look for."""
    return [
        "---------------- JETSTREAM ----------------",
        *(["  Strict:          true"] if options.jetstream_strict else []),
        f"  Max Memory:      {format_bytes(options.jetstream_max_memory)}",
        f"  Max Storage:     {format_bytes(options.jetstream_max_store)}",
        f'  Store Directory: "{options.jetstream_directory}"',
        *([f"  Domain:          {options.jetstream_domain}"] if options.jetstream_domain else []),
        f"  API Level:       {API_LEVEL}",
        "-------------------------------------------",
    ]


def log_settings(options: Options) -> LogSettings:
    """The options of the log."""
    return LogSettings(
        path=options.log_file,
        debug=options.debug,
        trace=options.trace,
        logtime=options.logtime,
        utc=options.logtime_utc,
        size_limit=options.log_size_limit,
        max_files=options.log_max_files,
    )

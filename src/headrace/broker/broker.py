"""The broker: accepts clients, knows them all, keeps them alive, and lets them go.

It owns the engine's Hub (all sockets) and Interest (all subscriptions), and the timers. It has never heard of
streams or of monitoring: both are built on what it shows.
"""

from __future__ import annotations

import asyncio
import socket
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from headrace.accounts.authentication import Authenticator
from headrace.broker.connection import Connection
from headrace.broker.credential_checks import CredentialChecks
from headrace.broker.descriptors import DescriptorReserve
from headrace.broker.info import ServerInfo, new_server_id
from headrace.broker.listener import Listener, join_address, reserve, start_listening
from headrace.broker.timers import EqualTimers
from headrace.broker.violations import VIOLATIONS
from headrace.config.options import ANY_FREE_PORT, GLOBAL_ACCOUNT, Options
from headrace.engine.core.hub import Hub
from headrace.engine.core.interest import Interest
from headrace.errors import UsageError
from headrace.logs import Logger

FIRST_PING_SECONDS = 2.0
WRITE_CHECKS_PER_DEADLINE = 5
LONGEST_WRITE_CHECK_SECONDS = 1.0
LONGEST_DRAIN_PAUSE_SECONDS = 1.0


class Broker:
    """Everything is owned by the event loop's thread."""

    def __init__(self, options: Options, logger: Logger) -> None:
        self.options = options
        self.logger = logger
        self.server_id = new_server_id()
        self.started_at = self.configured_at = time.time_ns()
        self.authenticator = Authenticator(options)
        self.credential_checks = CredentialChecks()
        self.interest = Interest()
        self.interests = {GLOBAL_ACCOUNT: self.interest}  # by account
        self.hub = Hub(
            max_payload=options.max_payload,
            max_pending=options.max_pending,
            max_control_line=options.max_control_line,
        )
        self.hub.never_waits = options.no_fast_producer_stall
        self.hub.on_bug = self.on_bug
        self.connections: dict[int, Connection] = {}
        self.closed: deque[tuple[Connection, str]] = deque(maxlen=max(options.max_closed_clients, 0))
        self.total_connections = 0
        self.slow_consumers = 0
        self.stale_connections = 0
        self.auth_timers: EqualTimers[Connection] = EqualTimers(
            options.auth_timeout, partial(self._on_timer, Connection.on_auth_timeout)
        )
        self.first_ping_timers: EqualTimers[Connection] = EqualTimers(
            min(FIRST_PING_SECONDS, options.ping_interval), partial(self._on_timer, Connection.on_ping_timer)
        )
        self.ping_timers: EqualTimers[Connection] = EqualTimers(
            options.ping_interval, partial(self._on_timer, Connection.on_ping_timer)
        )
        self.port = options.port  # the one in use, once it listens
        self._reserved: socket.socket | None = None
        self._listener: Listener | None = None
        self._reserve = DescriptorReserve(logger)
        self._is_lame_duck = False
        self._last_cid = 4  # nats-server has used a few for itself when the first client comes
        self._write_check: asyncio.TimerHandle | None = None

    # -- starting and stopping

    def reserve_address(self) -> None:
        """Take the address; clients cannot connect before `start`. Raises UsageError if it is taken."""
        with self._listening_errors():
            self._reserved = reserve(self.options.host, self.options.port)

    @contextmanager
    def _listening_errors(self) -> Iterator[None]:
        host, port = self.options.host, self.options.port
        try:
            yield
        except UsageError as error:
            where = join_address(host, 0 if port == ANY_FREE_PORT else port)
            raise UsageError(f'Error listening on port: {where}, "{error}"', hint=error.hint) from None

    def start(self) -> None:
        """Listen and serve. Raises UsageError if the address cannot be had."""
        loop = asyncio.get_running_loop()
        if self._reserved is None:
            self.reserve_address()
        assert self._reserved is not None
        with self._listening_errors():
            listening = start_listening(self._reserved, self.options.host)
        self._reserved = None
        self._listener = Listener(listening, self._on_accept, self.logger)
        self.port = self._listener.address[1]
        self._announce()
        loop.add_reader(self.hub.fileno(), self.hub.poll)
        self._schedule_write_check()
        self.logger.info(f"Listening for client connections on {join_address(self.options.host, self.port)}")

    @property
    def is_accepting(self) -> bool:
        """Whether clients can connect: not before the start, nor as a lame duck."""
        return self._listener is not None

    def stop_accepting(self) -> None:
        if self._listener:
            self._listener.close()
            self._listener = None

    def stop(self) -> None:
        """Close every connection; what the sockets take at once still leaves."""
        self.stop_accepting()
        if self._reserved:
            self._reserved.close()
            self._reserved = None
        if self._write_check:
            self._write_check.cancel()
        for timers in (self.auth_timers, self.first_ping_timers, self.ping_timers):
            timers.stop_all()
        self.credential_checks.stop()
        if self.hub.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self.hub.fileno())
            self.hub.close()

    async def drain(self) -> None:
        """Lame duck: take no new clients, tell the others, then close them one by one over the given time."""
        options = self.options
        self.stop_accepting()
        self._is_lame_duck = True
        self._announce()
        for connection in self.connections.values():
            connection.announce()
        self.hub.flush()
        await asyncio.sleep(options.lame_duck_grace_period if self.connections else 0)
        remaining = list(self.connections.values())
        spread = max(options.lame_duck_duration - options.lame_duck_grace_period, 1.0)
        for place, connection in enumerate(remaining):
            if place:
                await asyncio.sleep(min(spread / len(remaining), LONGEST_DRAIN_PAUSE_SECONDS))
            connection.link.close("Server Shutdown")
            self.hub.flush()

    def reload(self, options: Options, *, auth_changed: bool, info_changed: bool) -> None:
        """Take over changed options; what a reload may change has been checked before."""
        self.options = options
        self.configured_at = time.time_ns()
        self.authenticator = Authenticator(options)
        self.hub.max_payload = options.max_payload
        self.hub.max_pending = options.max_pending
        self.hub.never_waits = options.no_fast_producer_stall
        self.hub.max_control_line = options.max_control_line
        self.auth_timers.seconds = options.auth_timeout
        self.first_ping_timers.seconds = min(FIRST_PING_SECONDS, options.ping_interval)
        self.ping_timers.seconds = options.ping_interval
        self._announce()
        self._close_excess()
        for connection in self.connections.values():
            connection.link.trace(options.trace)
            if info_changed:
                connection.announce()
            if auth_changed:
                connection.check_again()
        self.hub.flush()

    def _announce(self) -> None:
        self.info = ServerInfo(
            self.options,
            self.server_id,
            self.port,
            auth_required=self.authenticator.required,
            lame_duck=self._is_lame_duck,
        )

    def _close_excess(self) -> None:
        """A lower limit holds for those who are connected, too. The latest leave; nats-server picks any."""
        excess = list(self.connections.values())[max(self.options.max_connections, 0) :]
        for connection in excess:
            connection.on_violation("connections", b"")
        if excess:
            self.logger.info(f"Closed {len(excess)} connections to fall within max_connections")

    # -- clients

    def _on_accept(self, accepted: socket.socket, host: str, port: int) -> None:
        limit = self.options.max_connections
        self._last_cid += 1
        self.total_connections += 1
        connection = Connection(self, self._last_cid, host, port)
        descriptor = accepted.detach()
        connection.start(self.hub.attach(descriptor, connection), descriptor)
        if len(self.connections) < limit and self._reserve.has_room_for(descriptor):
            self.connections[connection.cid] = connection
        else:
            connection.on_violation("connections", b"")
        self.hub.flush()

    def forget(self, connection: Connection, reason: str) -> None:
        """A connection has ended."""
        self.logger.debug(f"{connection} - Client connection closed: {reason}")
        if reason.startswith("Slow Consumer"):
            self.slow_consumers += 1
            self.logger.info(f"{connection} - Slow Consumer Detected: {self._describe_slow(reason)}")
        elif reason == VIOLATIONS["stale"].close_reason:
            self.stale_connections += 1
        if self.connections.pop(connection.cid, None):
            self.closed.append((connection, reason))

    def _describe_slow(self, reason: str) -> str:
        if "Pending" in reason:
            return f"MaxPending of {self.options.max_pending} Exceeded"
        return f"WriteDeadline of {self.options.write_deadline:g}s exceeded"

    def on_bug(self, error: Exception) -> None:
        """A mistake of ours outside of any connection."""
        text = "".join(traceback.format_exception(error))
        self.logger.error(f"Internal error: {text}")

    # -- timers

    def _on_timer(self, method: Callable[[Connection], None], connection: Connection) -> None:
        method(connection)
        self.hub.flush()

    def _schedule_write_check(self) -> None:
        pause = min(self.options.write_deadline / WRITE_CHECKS_PER_DEADLINE, LONGEST_WRITE_CHECK_SECONDS)
        self._write_check = asyncio.get_running_loop().call_later(pause, self._check_writes)

    def _check_writes(self) -> None:
        self.hub.tidy(self.options.write_deadline)
        self._schedule_write_check()

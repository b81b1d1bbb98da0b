"""The broker: accepts clients, knows them all, keeps them alive, and lets them go.

It owns the engine's Hub (all sockets), the accounts (all subscriptions), and the timers. It knows
nothing about streams or monitoring: both use what it exposes.
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
from typing import TYPE_CHECKING

from headrace.accounts.authentication import Authenticator
from headrace.accounts.directory import Accounts
from headrace.broker.admission.credential_checks import CredentialChecks
from headrace.broker.admission.doorkeepers import Doorkeeper, Waiting, make_doorkeeper
from headrace.broker.admission.expiry import ExpiryTimers
from headrace.broker.connection import ClientConnection
from headrace.broker.descriptors import DescriptorReserve
from headrace.broker.ids import hash_of_name
from headrace.broker.info import ServerInfo, ServerKeys
from headrace.broker.listener import Listener, join_address, reserve, start_listening
from headrace.broker.message_trace.trace import MessageTraces
from headrace.broker.observer import NOBODY, Observer
from headrace.broker.permissions import PermissionSets
from headrace.broker.server_info import ServerStamp
from headrace.broker.services import Services
from headrace.broker.stale_connections import Keepalive
from headrace.broker.timers import EqualTimers
from headrace.broker.tls_handshake import TlsDoor, is_pinned
from headrace.broker.user_info import UserInfo
from headrace.broker.violations import VIOLATIONS
from headrace.config.options import ANY_FREE_PORT, Options
from headrace.engine.core.hub import Hub
from headrace.engine.core.interest import Interest
from headrace.engine.core.transport import Transport
from headrace.errors import UsageError
from headrace.logs import Logger

if TYPE_CHECKING:
    from headrace.broker.admission.operator_mode import OperatorMode
    from headrace.broker.websocket.server import WebSocketServer

WRITE_CHECKS_PER_DEADLINE = 5
LONGEST_WRITE_CHECK_SECONDS = 1.0
LONGEST_DRAIN_PAUSE_SECONDS = 1.0


class Broker:
    """Everything is owned by the event loop's thread."""

    def __init__(self, options: Options, logger: Logger) -> None:
        self.options = options
        self.logger = logger
        self.keys = ServerKeys()
        self.server_id = self.keys.signing.public_key
        self.stamp = ServerStamp(options, self.server_id)
        self.started_at = self.configured_at = time.time_ns()
        self.accounts = Accounts(options)
        self.permission_sets = PermissionSets()
        self.connections: dict[int, ClientConnection] = {}
        self.observer: Observer = NOBODY
        self.operator_mode = self._make_operator_mode(options)
        self.authenticator = self.make_authenticator(options)
        self.doorkeeper: Doorkeeper | None = None
        self.waiting = Waiting(self)
        self.credential_checks = CredentialChecks()
        self.hub = Hub(
            max_payload=options.max_payload,
            max_pending=options.max_pending,
            max_control_line=options.max_control_line,
        )
        self.hub.never_waits = options.no_fast_producer_stall
        self.hub.on_bug = self.on_bug
        self.message_traces = MessageTraces(self.hub, self.accounts, self.stamp)
        self.services = Services(
            self.hub, self.accounts, options.server_name or self.server_id, hash_of_name(self.server_id)
        )
        self.user_info = UserInfo(self.hub, self.accounts, options, self.stamp)
        self.accounts.listeners += [self.services.follow, self.user_info.follow]
        self.closed: deque[tuple[ClientConnection, str]] = deque(maxlen=max(options.max_closed_clients, 0))
        self.total_connections = 0
        self.slow_consumers = 0
        self.stale_connections = 0
        self.auth_timers: EqualTimers[ClientConnection] = EqualTimers(
            options.auth_timeout, partial(self.on_timer, ClientConnection.on_auth_timeout)
        )
        self.keepalive = Keepalive(options, self.on_timer)
        self.tls = self._make_door(options)
        self.expiries: ExpiryTimers[ClientConnection] = ExpiryTimers(
            partial(self.on_timer, ClientConnection.on_expired)
        )
        self.port = options.port  # the one in use, once it listens
        self._reserved: socket.socket | None = None
        self._listener: Listener | None = None
        self._reserve = DescriptorReserve(logger)
        self._is_lame_duck = False
        self._last_cid = 4  # nats-server has used a few for itself when the first client comes
        self._write_check: asyncio.TimerHandle | None = None
        self.websocket = self._make_websocket(options)

    # -- starting and stopping

    def reserve_address(self) -> None:
        """Take the address; clients cannot connect before `start`. Raises UsageError if it is taken."""
        with self._listening_errors():
            self._reserved = reserve(self.options.host, self.options.port)
        if self.websocket:
            self.websocket.reserve_address()

    @contextmanager
    def _listening_errors(self) -> Iterator[None]:
        host, port = self.options.host, self.options.port
        try:
            yield
        except UsageError as error:
            where = join_address(host, 0 if port == ANY_FREE_PORT else port)
            raise UsageError(f'Error listening on port: {where}, "{error}"', hint=error.hint) from None

    def start(self) -> None:
        """Listen and serve. Raises UsageError if the address is not available."""
        loop = asyncio.get_running_loop()
        if self._reserved is None:
            self.reserve_address()
        assert self._reserved is not None
        self.start_operator_mode()
        self.doorkeeper = self.make_doorkeeper(self.options, self.authenticator)
        if self.websocket:
            self.websocket.start()
        with self._listening_errors():
            listening = start_listening(self._reserved, self.options.host)
        self._reserved = None
        self._listener = Listener(listening, self._on_accept, self.logger)
        self.port = self._listener.address[1]
        self._announce()
        loop.add_reader(self.hub.fileno(), self.hub.poll)
        self._schedule_write_check()
        self.logger.info(f"Listening for client connections on {join_address(self.options.host, self.port)}")
        self._describe_tls()

    def _describe_tls(self) -> None:
        tls = self.options.tls
        if tls is None:
            return
        only_first = tls.handshake_first and not tls.fallback_delay
        is_optional = self.options.allow_non_tls and not only_first
        self.logger.info(f"TLS {'available' if is_optional else 'required'} for client connections")
        if only_first:
            self.logger.warn('Clients that are not using "TLS Handshake First" option will fail to connect')

    def start_operator_mode(self) -> None:
        """If there is one, and unless it was started before. Raises UsageError."""
        if self.operator_mode and not self.operator_mode.is_started:
            self.operator_mode.start()

    @property
    def is_accepting(self) -> bool:
        """Whether clients can connect: not before the start, nor as a lame duck."""
        return self._listener is not None

    def stop_accepting(self) -> None:
        if self._listener:
            self._listener.close()
            self._listener = None
        if self.websocket:
            self.websocket.stop_accepting()

    def stop(self) -> None:
        """Close every connection; what the sockets take at once still leaves."""
        self.stop_accepting()
        if self._reserved:
            self._reserved.close()
            self._reserved = None
        if self.websocket:
            self.websocket.stop()
        if self._write_check:
            self._write_check.cancel()
        self.auth_timers.stop_all()
        self.keepalive.stop_all()
        if self.tls:
            self.tls.close()
        self.expiries.stop_all()
        self.waiting.stop()
        if self.doorkeeper:
            self.doorkeeper.close()
        if self.operator_mode:
            self.operator_mode.stop()
        self.credential_checks.stop()
        self.services.stop()
        if self.hub.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self.hub.fileno())
            self.hub.close()

    async def drain(self) -> None:
        """Lame duck: take no new clients, tell the others, then close them one by one over the given time."""
        options = self.options
        self.stop_accepting()
        self._is_lame_duck = True
        self.observer.on_lame_duck()
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
        self.options = self.stamp.options = options
        self.configured_at = time.time_ns()
        if auth_changed:
            self.accounts.update(options)
        if self.operator_mode:
            self.operator_mode.reload(options)
        self.authenticator = self.make_authenticator(options)
        self._reload_tls(options)
        if auth_changed:
            self.services.update()
            self.user_info.update(options)
            self._change_doorkeeper(options)
        self.hub.max_payload = options.max_payload
        self.hub.max_pending = options.max_pending
        self.hub.never_waits = options.no_fast_producer_stall
        self.hub.max_control_line = options.max_control_line
        self.auth_timers.seconds = options.auth_timeout
        self.keepalive.reload(options)
        if self.websocket:
            self.websocket.reload(options)
        self._announce()
        self._close_excess()
        for connection in list(self.connections.values()):
            connection.link.trace(options.trace)
            connection.link.limit_message(options.max_payload)
            if info_changed:
                connection.announce()
            if auth_changed:
                connection.check_again()
        self.hub.flush()

    def make_authenticator(self, options: Options) -> Authenticator:
        if self.operator_mode is None:
            return Authenticator(options)
        from headrace.accounts.operator_mode import OperatorAuthenticator

        return OperatorAuthenticator(options, self.operator_mode.directory)

    def _make_operator_mode(self, options: Options) -> OperatorMode | None:
        """Here and below: modules that few servers need are imported only where they are used."""
        if not options.trust.is_operator_mode:
            return None
        from headrace.broker.admission.operator_mode import OperatorMode

        return OperatorMode(options, self)

    def _make_websocket(self, options: Options) -> WebSocketServer | None:
        if not options.websocket.port:
            return None
        from headrace.broker.websocket.server import WebSocketServer

        return WebSocketServer(self)

    def _make_door(self, options: Options) -> TlsDoor | None:
        if options.tls is None:
            return None
        return TlsDoor(options.tls, allow_non_tls=options.allow_non_tls, flush=self.hub.flush)

    def _reload_tls(self, options: Options) -> None:
        """Those who are connected stay, unless their certificate is not accepted any more."""
        if options.tls is None or self.tls is None:
            # Greetings that are under way keep the door that they came through.
            self.tls = self._make_door(options)
        elif options.tls != self.tls.settings:
            self.tls.reload(options.tls, allow_non_tls=options.allow_non_tls)
        if options.tls is not None:
            for connection in self.connections.values():
                tls = connection.tls
                if tls and not is_pinned(tls.certificate, options.tls.pinned_certificates):
                    connection.link.close("TLS Handshake Failure")

    def make_doorkeeper(self, options: Options, authenticator: Authenticator) -> Doorkeeper | None:
        """Raises ConfigError."""
        return make_doorkeeper(options, authenticator, self.operator_mode, self)

    def check_doorkeeper(self, options: Options) -> None:
        """Raises ConfigError if its Python function cannot be loaded."""
        if options.python_hook:
            from headrace.accounts.python_hook import load_hook

            load_hook(options.python_hook, options.config_path)

    def _change_doorkeeper(self, options: Options) -> None:
        """One that cannot be made changes nothing; the server has looked before (`Server.reload`)."""
        before, self.doorkeeper = self.doorkeeper, self.make_doorkeeper(options, self.authenticator)
        if before:
            before.close()

    def _announce(self) -> None:
        self.info = ServerInfo(
            self.options,
            self.keys,
            self.port,
            auth_required=self.authenticator.required,
            lame_duck=self._is_lame_duck,
        )
        if self.websocket:
            self.websocket.context.announce(self.websocket.port, lame_duck=self._is_lame_duck)

    def _close_excess(self) -> None:
        """A lower limit also closes existing connections: the latest ones. nats-server picks any."""
        excess = list(self.connections.values())[max(self.options.max_connections, 0) :]
        for connection in excess:
            connection.on_violation("connections", b"")
        if excess:
            self.logger.info(f"Closed {len(excess)} connections to fall within max_connections")

    # -- clients

    def _on_accept(self, accepted: socket.socket, host: str, port: int) -> None:
        self.admit(ClientConnection(self, self.next_cid(), host, port), accepted.detach(), door=self.tls)

    def next_cid(self) -> int:
        self._last_cid += 1
        return self._last_cid

    def admit(
        self,
        connection: ClientConnection,
        descriptor: int,
        transport: Transport | None = None,
        *,
        door: TlsDoor | None = None,
    ) -> None:
        """Serve a client, if there is room for it. A door gives it its transport."""
        limit = self.options.max_connections
        self.total_connections += 1
        link = self.hub.attach(descriptor, connection, transport, greets=door is not None)
        connection.start(link, descriptor, door)
        if len(self.connections) < limit and self._reserve.has_room_for(descriptor):
            self.connections[connection.cid] = connection
        else:
            connection.on_violation("connections", b"")
        self.hub.flush()

    def forget(self, connection: ClientConnection, reason: str) -> None:
        """A connection has ended."""
        self.logger.debug(f"{connection} - Client connection closed: {reason}")
        if reason.startswith("Slow Consumer"):
            self.slow_consumers += 1
            self.logger.info(f"{connection} - Slow Consumer Detected: {self._describe_slow(reason)}")
        elif reason == VIOLATIONS["stale"].close_reason:
            self.stale_connections += 1
        self.services.forget(connection)
        if self.connections.pop(connection.cid, None):
            self.closed.append((connection, reason))
        self.observer.on_disconnect(connection, reason)

    def _describe_slow(self, reason: str) -> str:
        if "Pending" in reason:
            return f"MaxPending of {self.options.max_pending} Exceeded"
        return f"WriteDeadline of {self.options.write_deadline:g}s exceeded"

    def on_bug(self, error: Exception) -> None:
        """A bug outside of any connection."""
        text = "".join(traceback.format_exception(error))
        self.logger.error(f"Internal error: {text}")

    @property
    def interest(self) -> Interest:
        """That of the global account."""
        return self.accounts.of_everybody.interest

    # -- timers

    def on_timer(self, method: Callable[[ClientConnection], None], connection: ClientConnection) -> None:
        method(connection)
        self.hub.flush()

    def _schedule_write_check(self) -> None:
        pause = min(self.options.write_deadline / WRITE_CHECKS_PER_DEADLINE, LONGEST_WRITE_CHECK_SECONDS)
        self._write_check = asyncio.get_running_loop().call_later(pause, self._check_writes)

    def _check_writes(self) -> None:
        if self.tls and self.tls.rejected:
            self.logger.warn(f"Rejected {self.tls.rejected} connections due to TLS rate limiting")
            self.tls.rejected = 0
        self.hub.tidy(self.options.write_deadline)
        self._schedule_write_check()

"""The WebSocket port: its listener, its handshakes, and what is different for its clients."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.broker.connection import ClientConnection
from headrace.broker.connection_context import ConnectionContext
from headrace.broker.info import ServerInfo
from headrace.broker.listener import Listener, join_address, reserve, start_listening
from headrace.broker.stale_connections import Keepalive
from headrace.broker.timers import EqualTimers
from headrace.broker.websocket.handshake import Handshake, Handshakes
from headrace.broker.websocket.tls import WebSocketTls, describe_session
from headrace.broker.websocket.upgrade import Upgrade, WebSocketPeer
from headrace.config.options import Options
from headrace.engine.transports.websocket import WebSocketTransport
from headrace.errors import UsageError

if TYPE_CHECKING:
    from headrace.accounts.directory import Accounts
    from headrace.broker.admission.credential_checks import CredentialChecks
    from headrace.broker.admission.doorkeepers import Doorkeeper, Waiting
    from headrace.broker.admission.expiry import ExpiryTimers
    from headrace.broker.broker import Broker
    from headrace.broker.message_trace.trace import MessageTraces
    from headrace.broker.observer import Observer
    from headrace.broker.permissions import PermissionSets
    from headrace.engine.core.hub import Hub
    from headrace.logs import Logger


class WebSocketContext(ConnectionContext):
    """The broker, as the connections of this port see it: with the options of the `websocket` block."""

    logger: Logger
    accounts: Accounts
    credential_checks: CredentialChecks
    doorkeeper: Doorkeeper | None
    waiting: Waiting
    permission_sets: PermissionSets
    expiries: ExpiryTimers[ClientConnection]
    hub: Hub
    observer: Observer
    message_traces: MessageTraces

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        options = websocket_options(broker.options)
        self.auth_timers = EqualTimers(
            options.auth_timeout, partial(broker.on_timer, ClientConnection.on_auth_timeout)
        )
        self.keepalive = Keepalive(options, broker.on_timer)
        self.use(options)

    def use(self, options: Options) -> None:
        """`options` are those of this port."""
        self.options = options
        self.authenticator = self._broker.make_authenticator(options)

    def reload(self, options: Options) -> None:
        self.use(options)
        self.auth_timers.seconds = options.auth_timeout
        self.keepalive.reload(options)

    def announce(self, port: int, *, lame_duck: bool) -> None:
        # nats-server does not hide here that credentials are asked for if there is a no_auth_user.
        options = msgspec.structs.replace(
            self.options, host=self.options.websocket.host, client_advertise="", no_auth_user=""
        )
        self.info = ServerInfo(
            options,
            self._broker.keys,
            port,
            auth_required=self.authenticator.required,
            lame_duck=lame_duck,
            is_websocket=True,
        )

    def forget(self, connection: ClientConnection, reason: str) -> None:
        self._broker.forget(connection, reason)

    def stop(self) -> None:
        self.auth_timers.stop_all()
        self.keepalive.stop_all()

    def __getattr__(self, name: str) -> Any:
        """Everything else is the broker's."""
        return getattr(self._broker, name)


def websocket_options(options: Options) -> Options:
    """The options of the server, with what the block overrides."""
    websocket = options.websocket
    changes: dict[str, Any] = {"tls": websocket.tls, "allow_non_tls": False}
    if websocket.overrides_authorization:
        changes |= {
            "username": websocket.username,
            "password": websocket.password,
            "token": websocket.token,
            "no_auth_user": websocket.no_auth_user,
        }
    if websocket.auth_timeout:
        changes["auth_timeout"] = websocket.auth_timeout
    if websocket.ping_interval > 0:
        changes["ping_interval"] = websocket.ping_interval
    return msgspec.structs.replace(options, **changes)


class WebSocketServer:
    """Serves from `start` until `stop_accepting`; its connections are the broker's."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.context = WebSocketContext(broker)
        self.port = broker.options.websocket.port  # the one in use, once it is reserved
        self._reserved: socket.socket | None = None
        self._listener: Listener | None = None
        self.handshakes: Handshakes | None = None
        settings = broker.options.websocket.tls
        self._tls = WebSocketTls(settings) if settings else None

    @property
    def address(self) -> str:
        return (
            f"{'wss' if self._tls else 'ws'}://{join_address(self._broker.options.websocket.host, self.port)}"
        )

    def reserve_address(self) -> None:
        """Raises UsageError if it is taken."""
        options = self._broker.options.websocket
        try:
            self._reserved = reserve(options.host, options.port)
        except UsageError as error:
            raise self._cannot_listen(error) from None
        self.port = self._reserved.getsockname()[1]

    def _cannot_listen(self, error: UsageError) -> UsageError:
        hint = "choose another port in the websocket block" if error.hint else ""
        return UsageError(f"Unable to listen for websocket connections: {error}", hint=hint)

    def start(self) -> None:
        """Listen. Raises UsageError."""
        broker, options = self._broker, self._broker.options.websocket
        if self._reserved is None:
            self.reserve_address()
        assert self._reserved is not None
        try:
            listening = start_listening(self._reserved, options.host)
        except UsageError as error:
            raise self._cannot_listen(error) from None
        finally:
            self._reserved = None
        upgrade = Upgrade(options, is_tls=self._tls is not None)
        self.handshakes = Handshakes(
            upgrade, options.handshake_timeout, self._on_upgraded, broker.logger, self._tls
        )
        self._listener = Listener(listening, self.handshakes.begin, broker.logger)
        broker.logger.info(f"Listening for websocket clients on {self.address}")
        if self._tls is None:
            broker.logger.warn("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")

    def _on_upgraded(self, handshake: Handshake, peer: WebSocketPeer) -> None:
        connection = ClientConnection(
            self.context, self._broker.next_cid(), handshake.host, handshake.port, websocket=peer
        )
        transport = WebSocketTransport(
            handshake.transport,
            on_failure=connection.on_read_error,
            max_payload=self._broker.options.max_payload,
            masks=peer.masks,
            deflates=peer.compresses,
            frame_limit=peer.frame_limit,
            splits_deflated=peer.splits_compressed,
        )
        self._broker.admit(connection, handshake.descriptor, transport)
        if handshake.tls:
            connection.tls = describe_session(handshake.tls)

    def reload(self, options: Options) -> None:
        """What a reload may change; of the block itself, these are certificates."""
        if self._tls and options.websocket.tls and options.websocket.tls != self._tls.settings:
            self._tls.use(options.websocket.tls)
        self.context.reload(websocket_options(options))

    def stop_accepting(self) -> None:
        if self._listener:
            self._listener.close()
            self._listener = None
        if self.handshakes:
            self.handshakes.stop()
            self.handshakes = None

    def stop(self) -> None:
        self.stop_accepting()
        if self._reserved:
            self._reserved.close()
            self._reserved = None
        self.context.stop()

"""What a connection needs of the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.accounts.authentication import Authenticator
    from headrace.accounts.directory import Accounts
    from headrace.broker.admission.credential_checks import CredentialChecks
    from headrace.broker.admission.doorkeepers import Doorkeeper, Waiting
    from headrace.broker.admission.expiry import ExpiryTimers
    from headrace.broker.connection import ClientConnection
    from headrace.broker.info import ServerInfo
    from headrace.broker.message_trace.trace import MessageTraces
    from headrace.broker.observer import Observer
    from headrace.broker.permissions import PermissionSets
    from headrace.broker.stale_connections import Keepalive
    from headrace.broker.timers import EqualTimers
    from headrace.config.options import Options
    from headrace.engine.core.hub import Hub
    from headrace.logs import Logger


class ConnectionContext(Protocol):
    options: Options
    logger: Logger
    info: ServerInfo
    accounts: Accounts
    authenticator: Authenticator
    credential_checks: CredentialChecks
    permission_sets: PermissionSets
    hub: Hub
    observer: Observer
    message_traces: MessageTraces
    doorkeeper: Doorkeeper | None
    waiting: Waiting
    auth_timers: EqualTimers[ClientConnection]
    expiries: ExpiryTimers[ClientConnection]
    keepalive: Keepalive

    def forget(self, connection: ClientConnection, reason: str) -> None: ...

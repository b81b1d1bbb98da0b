"""What the server tells in its system account without being asked: clients come and go, and how it is.

    $SYS.ACCOUNT.<account>.CONNECT, .DISCONNECT      a client was admitted, has left
    $SYS.SERVER.ACCOUNT.<account>.CONNS              how many clients an account has: after each change, and
    $SYS.ACCOUNT.<account>.SERVER.CONNS              every 30 s; the same under an old and a new name
    $SYS.SERVER.<id>.CLIENT.AUTH.ERR                 a client was refused
    $SYS.ACCOUNT.CLIENT.AUTH.ERR                     the same, in the account that it might have been in
    $SYS.SERVER.<id>.STATSZ                          figures of the server, every 10 s; more often at first
    $SYS.SERVER.<id>.LAMEDUCK, .SHUTDOWN             it is about to stop; nothing follows

Nothing is built unless somebody listens to its subject: a storm of connects costs one lookup each. The broker
calls in the middle of a tick, where nothing may be published, so events leave at its end.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.accounts.account import Account
from headrace.broker.broker import Broker
from headrace.broker.connection import ClientConnection
from headrace.broker.ids import random_id
from headrace.broker.timers import EqualTimers
from headrace.config.identity import GLOBAL_ACCOUNT
from headrace.go_formats import NANOSECONDS, format_time
from headrace.monitor.system.account_figures import AccountFigures
from headrace.monitor.system.clients import describe_client
from headrace.monitor.system.statsz import describe_statsz
from headrace.monitor.usage import ProcessorShare

if TYPE_CHECKING:
    from headrace.streams.jetstream import JetStream

TYPE = "io.nats.server.advisory.v1."
CONNECTIONS_SECONDS = 30.0
FIRST_STATSZ_SECONDS = 0.25
STATSZ_SECONDS = 10.0


class SystemEvents:
    """Of one server, from `start` until `stop`. It is the observer of its broker."""

    def __init__(self, broker: Broker) -> None:
        self.jetstream: JetStream | None = None
        self._broker = broker
        self._processor_share = ProcessorShare()
        self._figures = AccountFigures(broker)
        self._heartbeats: EqualTimers[Account] = EqualTimers(CONNECTIONS_SECONDS, self.on_connections)
        self._pause = FIRST_STATSZ_SECONDS
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def start(self) -> None:
        self._broker.observer = self
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._on_statsz_timer)

    def stop(self) -> None:
        """The last event. The caller stops the broker, which writes it to whoever listens."""
        self._say_goodbye("SHUTDOWN")
        self._heartbeats.stop_all()
        if self._timer is not None:
            self._timer.cancel()

    # -- what the broker tells

    def on_connect(self, connection: ClientConnection) -> None:
        account = self._account_of(connection)
        subject = f"$SYS.ACCOUNT.{account.name}.CONNECT"
        if self._is_wanted(subject):
            client = describe_client(connection, account)
            self._publish(subject, {**_typed("client_connect"), **self._server(), "client": client})

    def on_disconnect(self, connection: ClientConnection, reason: str) -> None:
        account = self._account_of(connection)
        subject = f"$SYS.ACCOUNT.{account.name}.DISCONNECT"
        if self._is_wanted(subject):
            self._publish(subject, self._describe_end(connection, account, reason))

    def on_connections(self, account: Account) -> None:
        """Nobody follows the global account, as in nats-server."""
        if account.name == GLOBAL_ACCOUNT or self._is_over:
            return
        if account.connections:
            self._heartbeats.start(account)
        else:
            self._heartbeats.stop(account)
        subjects = [f"$SYS.SERVER.ACCOUNT.{account.name}.CONNS", f"$SYS.ACCOUNT.{account.name}.SERVER.CONNS"]
        wanted = [subject for subject in subjects if self._is_wanted(subject)]
        if wanted:
            event, figures = _typed("account_connections"), self._figures.describe(account)
            for subject in wanted:
                self._publish(subject, {**event, **self._server(), **figures})

    def on_bad_credentials(self, connection: ClientConnection, reason: str) -> None:
        """For the owners of an account: the one that an authorization service works in, or the global one."""
        callout = self._broker.options.callout
        account = self._broker.accounts.get(callout.account if callout else GLOBAL_ACCOUNT)
        subject = "$SYS.ACCOUNT.CLIENT.AUTH.ERR"
        if account is not None and self._is_wanted(subject, account):
            self._publish(subject, self._describe_end(connection, account, reason), account)

    def on_refused(self, connection: ClientConnection, reason: str) -> None:
        subject = f"$SYS.SERVER.{self._broker.server_id}.CLIENT.AUTH.ERR"
        if self._is_wanted(subject):
            account = self._account_of(connection)
            self._publish(subject, self._describe_end(connection, account, reason))

    def on_lame_duck(self) -> None:
        self._say_goodbye("LAMEDUCK")

    # -- figures of the server

    def publish_statsz(self) -> None:
        """For those who listen; also for somebody who asks without saying where to."""
        subject = f"$SYS.SERVER.{self._broker.server_id}.STATSZ"
        if self._is_wanted(subject):
            figures = describe_statsz(self._broker, self.jetstream, self._processor_share)
            self._publish(subject, {**self._server(), "statsz": figures})

    def _on_statsz_timer(self) -> None:
        self.publish_statsz()
        self._pause = min(2 * self._pause, STATSZ_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._on_statsz_timer)

    # -- events

    def _describe_end(self, connection: ClientConnection, account: Account, reason: str) -> dict[str, Any]:
        link = connection.link
        stopped = int(connection.stopped_at * NANOSECONDS) or time.time_ns()
        return {
            **_typed("client_disconnect", stopped),
            **self._server(),
            "client": describe_client(connection, account, stopped, tag=self._account_of(connection).title),
            "sent": {"msgs": link.in_msgs, "bytes": link.in_bytes},
            "received": {"msgs": link.out_msgs, "bytes": link.out_bytes},
            "reason": reason,
        }

    def _server(self) -> dict[str, Any]:
        return {"server": self._broker.stamp.next()}

    def _account_of(self, connection: ClientConnection) -> Account:
        """Before it is admitted, a client is in the global account, as in nats-server."""
        return connection.account or self._broker.accounts.of_everybody

    def _system_account(self) -> Account | None:
        name = self._broker.options.system_account_name
        return self._broker.accounts.get(name) if name else None

    def _is_wanted(self, subject: str, account: Account | None = None) -> bool:
        system = self._system_account()
        if system is None or self._is_over:
            return False
        return (account or system).interest.is_wanted(subject.encode())

    def _publish(self, subject: str, event: dict[str, Any], account: Account | None = None) -> None:
        hub, system = self._broker.hub, self._system_account()
        assert system is not None
        interest = (account or system).interest
        payload = msgspec.json.encode(event)
        hub.defer(lambda: hub.publish(interest, subject.encode(), payload))
        hub.flush_soon()

    def _say_goodbye(self, name: str) -> None:
        subject = f"$SYS.SERVER.{self._broker.server_id}.{name}"
        if self._is_wanted(subject):
            self._publish(subject, self._broker.stamp.next())
            self._broker.hub.flush()
        self._is_over = True


def _typed(name: str, now: int | None = None) -> dict[str, str]:
    return {
        "type": TYPE + name,
        "id": random_id(),
        "timestamp": format_time(time.time_ns() if now is None else now),
    }

"""Stale connections: clients that have been silent are pinged, and closed if they do not answer.

The first ping comes soon after the start and measures the round trip. Then a client is pinged when nothing
came from it for a `ping_interval`, and once an hour to measure again. When `ping_max` pings are unanswered
and another one is due, it is a stale connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.timers import EqualTimers

if TYPE_CHECKING:
    from headrace.broker.connection import ClientConnection
    from headrace.config.options import Options

FIRST_PING_SECONDS = 2.0
PING = b"PING\r\n"
RTT_INTERVAL_SECONDS = 3600.0


class Keepalive:
    """Of the connections of one port: clients of the WebSocket port may have another interval.

    `run` calls a method with a connection, and sends what it wrote.
    """

    def __init__(
        self, options: Options, run: Callable[[Callable[[ClientConnection], None], ClientConnection], None]
    ) -> None:
        self._options = options
        check = partial(run, self._check)
        self._first_pings: EqualTimers[ClientConnection] = EqualTimers(_first_ping_seconds(options), check)
        self._pings: EqualTimers[ClientConnection] = EqualTimers(options.ping_interval, check)

    def reload(self, options: Options) -> None:
        self._options = options
        self._first_pings.seconds = _first_ping_seconds(options)
        self._pings.seconds = options.ping_interval

    def start(self, connection: ClientConnection) -> None:
        self._first_pings.start(connection)

    def stop(self, connection: ClientConnection) -> None:
        self._first_pings.stop(connection)
        self._pings.stop(connection)

    def stop_all(self) -> None:
        self._first_pings.stop_all()
        self._pings.stop_all()

    def on_pong(self, connection: ClientConnection) -> None:
        connection.pings_out = 0
        if connection.ping_sent_at:
            connection.rtt = time.monotonic() - connection.ping_sent_at

    def _check(self, connection: ClientConnection) -> None:
        """Ping a client that has been silent; close one that has not answered the last pings."""
        options = self._options
        now = time.monotonic()
        wants_rtt = not connection.ping_sent_at or now - connection.ping_sent_at > RTT_INTERVAL_SECONDS
        if wants_rtt or connection.link.idle_seconds >= options.ping_interval:
            if connection.pings_out + 1 > options.ping_max:
                connection.on_violation("stale", b"")
                return
            connection.pings_out += 1
            connection.ping_sent_at = now
            connection.link.send(PING)
        self._pings.start(connection)


def _first_ping_seconds(options: Options) -> float:
    return min(FIRST_PING_SECONDS, options.ping_interval)

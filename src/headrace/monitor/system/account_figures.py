"""What an account has: clients, subscriptions, traffic. The fields of CONNS events and of STATZ answers."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from headrace.accounts.account import Account, Traffic
from headrace.broker.broker import Broker
from headrace.monitor.accstatz import describe_account

FEW_CONNECTIONS = 256
KEPT_SECONDS = 1.0


class AccountFigures:
    """The traffic of an account is that of its clients, which are counted one by one.

    With many clients the sum is kept for a second: ten thousand of them that connect while somebody
    listens to the events would take a hundred million steps otherwise.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._kept: dict[str, tuple[float, Traffic]] = {}

    def describe(self, account: Account) -> dict[str, Any]:
        return describe_account(account, self._traffic(account))

    def _traffic(self, account: Account) -> Traffic:
        connections = self._broker.connections
        now = time.monotonic()
        if len(connections) > FEW_CONNECTIONS:
            since, kept = self._kept.get(account.name, (0.0, None))
            if kept is not None and now - since < KEPT_SECONDS:
                return kept
        total = msgspec.structs.replace(account.past)
        for connection in connections.values():
            if connection.account is account and not connection.link.closed:
                total.add(connection.link)
        self._kept[account.name] = (now, total)
        return total

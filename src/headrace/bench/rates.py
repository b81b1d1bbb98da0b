"""The rates of a run as nats-bench computes them: per client, per side, and of both together.

A side's time runs from the first activity of any of its clients to the last; the rate of a client is that of
its own time. The deviation is that of the whole population, not an estimate from a sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.bench.generator import Client

PUBLISHING = ("publisher",)
RECEIVING = ("subscriber",)


@dataclass(frozen=True)
class Rate:
    """Messages and bytes in some time."""

    messages: int
    payload_bytes: int
    seconds: float

    @property
    def messages_per_second(self) -> float:
        return self.messages / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        return self.payload_bytes / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Spread:
    """Of the clients' rates."""

    lowest: float
    average: float
    highest: float
    deviation: float


def rate_of(client: Client) -> Rate:
    return Rate(client.messages, client.payload_bytes, client.seconds)


def rate_together(clients: Sequence[Client]) -> Rate:
    """Everything that the clients did, in the time from the first of them to the last."""
    active = [client for client in clients if client.messages]
    if not active:
        return Rate(0, 0, 0.0)
    ended = max(client.ended for client in active)
    # A client that received everything in one read has no duration: it counts from the start of the run.
    started = min(client.started if client.ended > client.started else 0.0 for client in active)
    return Rate(
        sum(client.messages for client in active),
        sum(client.payload_bytes for client in active),
        ended - started,
    )


def spread_of(rates: Sequence[float]) -> Spread:
    average = sum(rates) / len(rates)
    deviation = math.sqrt(sum((rate - average) ** 2 for rate in rates) / len(rates))
    return Spread(min(rates), average, max(rates), deviation)


def clients_of(clients: Sequence[Client], roles: Sequence[str]) -> list[Client]:
    return [client for client in clients if client.role in roles]

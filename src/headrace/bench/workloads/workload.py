"""What all workloads have in common.

A workload does not know who started the server; `server_rss` returns the server's memory if it needs that
(None if unknown), and `on_progress` is called with the share that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol, Self, runtime_checkable

from headrace.bench.distribution import Distribution, Slice
from headrace.bench.generator import Client, Progress
from headrace.bench.servers import Server
from headrace.client.addresses import Address

SUBJECT = "bench"
SHUFFLE_SEED = 20260101

ServerMemory = Callable[[], int | None]


@dataclass(frozen=True)
class Sample:
    """One measurement of one workload: the value that is compared, and other figures."""

    value: float
    seconds: float
    generator_cpu_share: float
    clients: list[Client] = field(default_factory=list, repr=False)
    extra: dict[str, float] = field(default_factory=dict)
    latency: Distribution | None = field(default=None, repr=False)
    slices: list[Slice] = field(default_factory=list, repr=False)
    send_delay: Distribution | None = field(default=None, repr=False)
    latency_of: str = "per round trip"


class Runnable(Protocol):
    """A prepared workload, ready to be measured."""

    def run(
        self, address: Address, server_rss: ServerMemory, on_progress: Progress | None = None
    ) -> Sample: ...


class Workload(Runnable, Protocol):
    """`unit` is the unit of `value`; `higher_is_better` is False for costs."""

    @property
    def unit(self) -> str: ...
    @property
    def higher_is_better(self) -> bool: ...
    @property
    def needs_streams(self) -> bool:
        """A server that is started for it needs JetStream and a directory."""
        ...

    def prepared(
        self, address: Address, on_progress: Progress | None = None
    ) -> AbstractContextManager[Runnable]:
        """Prepare what the run needs before the clock starts, and remove it afterwards."""
        ...

    def scaled(self, factor: float) -> Workload:
        """The same workload with fewer or more messages (or connections)."""
        ...


@dataclass(frozen=True)
class Conducted:
    """The result of an experiment; the costs are None if they are unknown."""

    sample: Sample
    server_cpu_seconds: float | None
    server_peak_rss_bytes: int | None


@runtime_checkable
class Experiment(Protocol):
    """A workload that starts and stops the server itself, because that is what it measures."""

    @property
    def unit(self) -> str: ...
    @property
    def higher_is_better(self) -> bool: ...
    def conduct(self, server: Server) -> Conducted: ...
    def scaled(self, factor: float) -> Experiment: ...


class Unprepared:
    """For workloads that need no preparation and no streams."""

    needs_streams = False

    @contextmanager
    def prepared(self, address: Address, on_progress: Progress | None = None) -> Iterator[Self]:
        yield self


def with_shares(clients: Sequence[Client], shares: Sequence[int], size: int) -> list[Client]:
    """The publishers come first, and have sent these shares; the compiled loop counts only what it reads."""
    sent = [
        replace(client, messages=share, payload_bytes=share * size)
        for client, share in zip(clients, shares, strict=False)
    ]
    return sent + list(clients[len(shares) :])

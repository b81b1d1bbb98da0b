"""One run of the compiled load loop, with the checks that make its figures believable.

The generator's thread is pinned to the last core while it runs, so that a server started before keeps at
least one core to itself and both never fight for one. How busy that core was is part of every sample: a
share near 1 says that the generator, not the server, may have been the limit.
"""

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace.bench.failure import BenchError
from headrace.engine.load import Load

STALL_SECONDS = 10.0


@dataclass(frozen=True)
class Client:
    """What one connection did. `messages` were received, or (by a publisher) sent."""

    role: str
    messages: int
    payload_bytes: int
    seconds: float


@dataclass
class Run:
    """One run of a load: how long it took, what every client did, how busy the generator was."""

    seconds: float
    generator_cpu_share: float
    clients: list[Client]
    latencies_ns: list[int] = field(default_factory=list)


@contextmanager
def pinned_to_own_core() -> Iterator[None]:
    """Keep the calling thread on the last core that it may use (nothing changes on a single core)."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def run_load(load: Load, sent: int, payload_size: int, on_tick: Callable[[], object] | None = None) -> Run:
    """Run a load whose publishers send `sent` messages of `payload_size` in all, and check what arrived.

    Raises BenchError if a connection broke, nothing moved any more, or a count is off by even one message.
    """
    with pinned_to_own_core():
        cpu_before, wall_before = _thread_cpu_seconds(), time.perf_counter()
        outcome = load.run(on_tick)
        cpu_share = (_thread_cpu_seconds() - cpu_before) / (time.perf_counter() - wall_before)
    if outcome != "done":
        raise BenchError(_explain(load, outcome, sent))
    _check_totals(load, sent, payload_size)
    clients = [
        Client(role, messages, payload_bytes, (ended_at - load.started_at) / 1e9)
        for role, messages, payload_bytes, _, _, ended_at in load.clients
    ]
    # Deliveries end the clock where there are any; the publishers' closing PINGs do where nobody listens.
    receivers = [client for client in clients if client.role in ("subscriber", "requester")]
    seconds = max(client.seconds for client in receivers or clients)
    return Run(seconds, cpu_share, clients)


def _thread_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_utime + usage.ru_stime


def _check_totals(load: Load, sent: int, payload_size: int) -> None:
    for index, (role, messages, payload_bytes, *_) in enumerate(load.clients):
        if role == "subscriber" and (messages, payload_bytes) != (sent, sent * payload_size):
            raise BenchError(
                f"subscriber {index} received {messages:,} messages and {payload_bytes:,} bytes,"
                f" expected {sent:,} and {sent * payload_size:,}"
            )


def _explain(load: Load, outcome: str, sent: int) -> str:
    culprit, detail = load.failure
    clients = load.clients
    received = sum(client[1] for client in clients if client[0] in ("subscriber", "requester"))
    expected = sent * sum(client[0] in ("subscriber", "requester") for client in clients)
    who = f"{clients[culprit][0]} {culprit}"
    reasons = {
        "stalled": "nothing moved any more",
        "closed": f"the server closed the connection of {who}",
        "refused": f"the server refused {who}: {detail}",
        "garbled": f"{who} read something unexpected: {detail!r}",
    }
    missing = (
        f"{expected - received:,} of {expected:,} messages are missing"
        if expected
        else "the run did not finish"
    )
    return f"{missing}: {reasons[outcome]}"

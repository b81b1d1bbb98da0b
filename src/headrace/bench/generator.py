"""One run of the compiled load loop, with the checks that make its figures valid.

The generator's thread is pinned to the last core while it runs, so that a server started before has at least
one core to itself. How busy that core was is part of every sample: a share near 1 means that the generator,
not the server, may have been the limit.
"""

import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.bench.clients.load import Load
from headrace.bench.failure import BenchError

STALL_SECONDS = 10.0
RECEIVERS = ("subscriber", "requester")

Progress = Callable[[float], object]
"""Called from time to time with the share of a run that is done."""


@dataclass(frozen=True)
class Client:
    """What one connection did. `messages` were received, or (by a publisher) sent.

    `started` and `ended` are seconds since the start of the run: the first and the last activity.
    """

    role: str
    messages: int
    payload_bytes: int
    started: float
    ended: float

    @property
    def seconds(self) -> float:
        """From first to last; since the run began if everything arrived at once."""
        return self.ended - self.started if self.ended > self.started else self.ended


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run of the compiled loop; it can be sent from one process to another."""

    status: str
    culprit: int
    detail: str
    started_at: int
    clients: list[tuple[str, int, int, int, int, int]]
    cpu_share: float


@dataclass
class Run:
    """One run of a load: how long it took, what every client did, how busy the generator was."""

    seconds: float
    generator_cpu_share: float
    clients: list[Client]


@contextmanager
def pinned_to_own_core(core: int | None = None) -> Iterator[None]:
    """Keep the calling thread on the last core that it may use (nothing changes on a single core)."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores) if core is None else core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def run_load(
    load: Load, sent: int, payload_size: int, on_progress: Progress | None = None, *, shared: bool = False
) -> Run:
    """Run a load whose publishers send `sent` messages of `payload_size` in all, and check what arrived.

    `shared`: the subscribers are a queue group. Raises BenchError if a connection broke, the run
    stalled, or a count is off by even one message.
    """
    return judge([drive(load, on_progress)], sent, payload_size, shared=shared)


def drive(load: Load, on_progress: Progress | None = None, core: int | None = None) -> Outcome:
    to_send = sum(client[3] for client in load.clients)
    tick = None if on_progress is None else lambda: on_progress(_share_done(load, to_send))
    with pinned_to_own_core(core):
        cpu_before, wall_before = _thread_cpu_seconds(), time.perf_counter()
        status = load.run(tick)
        cpu_share = (_thread_cpu_seconds() - cpu_before) / (time.perf_counter() - wall_before)
    culprit, detail = load.failure
    return Outcome(status, culprit, detail, load.started_at, load.clients, cpu_share)


def judge(outcomes: Sequence[Outcome], sent: int, payload_size: int, *, shared: bool = False) -> Run:
    """The merged outcomes of the processes of one run. Raises BenchError."""
    rows = [row for outcome in outcomes for row in outcome.clients]
    expected = _expected(rows, sent, shared)
    for outcome in outcomes:
        if outcome.status != "done":
            raise BenchError(_explain(outcome, rows, expected))
    _check_totals(rows, sent, payload_size, shared)
    began = min(outcome.started_at for outcome in outcomes)
    clients = [
        Client(role, messages, payload_bytes, max(started - began, 0) / 1e9, max(ended - began, 0) / 1e9)
        for role, messages, payload_bytes, _, started, ended in rows
    ]
    # The last delivery stops the clock; without subscribers, the publishers' closing PINGs do.
    receivers = [client for client in clients if client.role in RECEIVERS]
    seconds = max(client.ended for client in receivers or clients)
    return Run(seconds, max(outcome.cpu_share for outcome in outcomes), clients)


def _share_done(load: Load, to_send: int) -> float:
    """Of the messages to be received or, without subscribers, to be sent."""
    clients = load.clients
    expected = load.expected
    if expected:
        return sum(client[1] for client in clients if client[0] in RECEIVERS) / expected
    return 1 - sum(client[3] for client in clients) / to_send if to_send else 1.0


def _thread_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_utime + usage.ru_stime


Row = tuple[str, int, int, int, int, int]


def _expected(rows: Sequence[Row], sent: int, shared: bool) -> int:
    """Messages that all clients together should receive."""
    subscribers = sum(row[0] == "subscriber" for row in rows)
    requesters = sum(row[0] == "requester" for row in rows)
    return sent * (min(subscribers, 1) if shared else subscribers) + sent * min(requesters, 1)


def _check_totals(rows: Sequence[Row], sent: int, payload_size: int, shared: bool) -> None:
    received = [(index, row[1], row[2]) for index, row in enumerate(rows) if row[0] == "subscriber"]
    if shared and received:
        total, total_bytes = (sum(row[place] for row in received) for place in (1, 2))
        _check_counts("the queue group", total, total_bytes, sent, payload_size)
        return
    for index, messages, payload_bytes in received:
        _check_counts(f"subscriber {index}", messages, payload_bytes, sent, payload_size)


def _check_counts(who: str, messages: int, payload_bytes: int, sent: int, payload_size: int) -> None:
    if (messages, payload_bytes) != (sent, sent * payload_size):
        raise BenchError(
            f"{who} received {messages:,} messages and {payload_bytes:,} bytes,"
            f" expected {sent:,} and {sent * payload_size:,}"
        )


def _explain(outcome: Outcome, rows: Sequence[Row], expected: int) -> str:
    received = sum(row[1] for row in rows if row[0] in RECEIVERS)
    who = f"{outcome.clients[outcome.culprit][0]} {outcome.culprit}"
    reasons = {
        "stalled": "nothing moved any more",
        "closed": f"the server closed the connection of {who}",
        "refused": f"the server refused {who}: {outcome.detail}",
        "garbled": f"{who} read something unexpected: {outcome.detail!r}",
    }
    missing = (
        f"{expected - received:,} of {expected:,} messages are missing"
        if expected
        else "the run did not finish"
    )
    return f"{missing}: {reasons[outcome.status]}"

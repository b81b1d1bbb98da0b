"""What the server, its process and its JetStream have once."""

from __future__ import annotations

import os
import platform
import resource
import time
from typing import TYPE_CHECKING, NamedTuple

from headrace import __version__
from headrace.config.options import NATS_VERSION
from headrace.go_formats import NANOSECONDS
from headrace.monitor.endpoint import Context
from headrace.monitor.metrics.families import Family, Table, counter, gauge, info
from headrace.monitor.usage import resident_bytes

if TYPE_CHECKING:
    from headrace.streams.jetstream import JetStream

BUILD: Table[Context] = Table(
    labels=("version", "nats_version", "python_version"),
    values_of=lambda _: (__version__, NATS_VERSION, platform.python_version()),
    columns=(
        info("headrace_build", "Versions: of Headrace, of the nats-server that it is like, of Python."),
    ),
)


def open_descriptors() -> int:
    """Newer kernels have the number as the size of the directory; it takes long to list very many."""
    try:
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


# Names that all programs have for these.
PROCESS: Table[Context] = Table(
    labels=(),
    values_of=lambda _: (),
    columns=(
        gauge("process_resident_memory_bytes", "Memory in use.", lambda _: resident_bytes()),
        counter("process_cpu_seconds", "Processor time used.", lambda _: time.process_time()),
        gauge("process_open_fds", "Open file descriptors.", lambda _: open_descriptors() or None),
        gauge(
            "process_max_fds",
            "File descriptors that may be open.",
            lambda _: resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        ),
        gauge(
            "process_start_time_seconds",
            "When the server was started, in seconds since 1970.",
            lambda context: context.broker.started_at / NANOSECONDS,
        ),
    ),
)

SERVER: Table[Context] = Table(
    labels=(),
    values_of=lambda _: (),
    columns=(
        gauge("headrace_connections", "Clients that are connected.", lambda c: len(c.broker.connections)),
        counter(
            "headrace_connections_accepted",
            "Clients that have connected.",
            lambda c: c.broker.total_connections,
        ),
        counter("headrace_received_messages", "Messages from clients.", lambda c: c.broker.hub.in_msgs),
        counter("headrace_received_bytes", "Size of messages from clients.", lambda c: c.broker.hub.in_bytes),
        counter("headrace_sent_messages", "Messages to clients.", lambda c: c.broker.hub.out_msgs),
        counter("headrace_sent_bytes", "Size of messages to clients.", lambda c: c.broker.hub.out_bytes),
        gauge(
            "headrace_subscriptions",
            "Subscriptions of all accounts.",
            lambda c: sum(account.interest.count for account in c.broker.accounts),
        ),
        counter(
            "headrace_slow_consumers",
            "Connections that were closed because their client did not keep up.",
            lambda c: c.broker.slow_consumers,
        ),
        counter(
            "headrace_stale_connections",
            "Connections that were closed because their client did not answer.",
            lambda c: c.broker.stale_connections,
        ),
        counter(
            "headrace_publisher_stalls",
            "How often a publisher had to wait because its receivers did not keep up.",
            lambda c: c.broker.hub.stalls,
        ),
    ),
)

LOOP_STALLS = Family(
    "headrace_event_loop_stall_seconds",
    "How late the event loop ran a timer that is due ten times a second.",
    "histogram",
)

# By their names in Committer.figures().
COMMITS = {
    "group_messages": Family(
        "headrace_commit_group_messages", "Messages that were committed with one sync.", "histogram"
    ),
    "group_bytes": Family("headrace_commit_group_bytes", "Size of what was committed at once.", "histogram"),
    "sync_seconds": Family(
        "headrace_commit_sync_seconds", "How long it took to sync what was committed.", "histogram"
    ),
}


class Storage(NamedTuple):
    """One of the two kinds that streams can be in."""

    name: str
    jetstream: JetStream


def _used(storage: Storage) -> int:
    return sum(account.resources.used(storage.name) for account in storage.jetstream.accounts.values())


STORAGE: Table[Storage] = Table(
    labels=("storage",),
    values_of=lambda storage: (storage.name,),
    columns=(
        gauge("headrace_jetstream_used_bytes", "Size of all streams.", _used),
        gauge(
            "headrace_jetstream_reserved_bytes",
            "Size that streams may grow to by their limits.",
            lambda storage: storage.jetstream.resources.reserved(storage.name),
        ),
        gauge(
            "headrace_jetstream_limit_bytes",
            "Size that all streams together may have.",
            lambda storage: storage.jetstream.resources.limits[storage.name],
        ),
    ),
)


class Totals(NamedTuple):
    streams: int
    consumers: int


TOTALS: Table[Totals] = Table(
    labels=(),
    values_of=lambda _: (),
    columns=(
        gauge("headrace_streams", "Streams of all accounts.", lambda totals: totals.streams),
        gauge("headrace_consumers", "Consumers of all streams.", lambda totals: totals.consumers),
    ),
)


class Cut(NamedTuple):
    kind: str
    left_out: int


CUT: Table[Cut] = Table(
    labels=("kind",),
    values_of=lambda cut: (cut.kind,),
    columns=(
        gauge(
            "headrace_metrics_cut",
            "How many streams, consumers, origins and landings this page leaves out,"
            " to be of a limited size.",
            lambda cut: cut.left_out,
        ),
    ),
)

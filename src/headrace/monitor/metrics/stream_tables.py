"""What each stream, each of its origins, each consumer and each landing table has."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.go_formats import NANOSECONDS
from headrace.monitor.landings import LandingReport
from headrace.monitor.metrics.families import Table, counter, gauge, info

if TYPE_CHECKING:
    from headrace.streams.consumers.consumer import Consumer
    from headrace.streams.stream import Stream


def _limit(value: int) -> int | None:
    """Streams without a limit have -1 or 0."""
    return value if value > 0 else None


STREAMS: Table[Stream] = Table(
    labels=("account", "stream"),
    values_of=lambda stream: (stream.account.name, stream.name),
    columns=(
        gauge("headrace_stream_messages", "Messages in the stream.", lambda s: s.log.count),
        gauge("headrace_stream_bytes", "Size of the stream.", lambda s: s.log.byte_count),
        gauge("headrace_stream_first_sequence", "Sequence of the first message.", lambda s: s.log.first_seq),
        gauge("headrace_stream_last_sequence", "Sequence of the last message.", lambda s: s.log.last_seq),
        gauge("headrace_stream_subjects", "Subjects that messages have.", lambda s: s.log.num_subjects),
        gauge("headrace_stream_consumers", "Consumers of the stream.", lambda s: len(s.consumers)),
        gauge(
            "headrace_stream_max_messages",
            "Messages that the stream may have; missing without a limit.",
            lambda s: _limit(s.config.max_msgs),
        ),
        gauge(
            "headrace_stream_max_bytes",
            "Size that the stream may have; missing without a limit.",
            lambda s: _limit(s.config.max_bytes),
        ),
        gauge(
            "headrace_stream_write_failed",
            "1 if the stream does not accept messages because its disk failed.",
            lambda s: int(s.log.failure is not None),
        ),
    ),
)

STREAM_SETTINGS: Table[Stream] = Table(
    labels=("account", "stream", "storage", "retention", "discard"),
    values_of=lambda stream: (
        stream.account.name,
        stream.name,
        stream.config.storage,
        stream.config.retention,
        stream.config.discard,
    ),
    columns=(info("headrace_stream", "Settings of the stream."),),
)


class Origin(NamedTuple):
    """A stream that another one mirrors or sources, perhaps several times with different filters."""

    stream: Stream
    kind: str
    name: str
    lag: int | None
    """None while it is missing."""


ORIGINS: Table[Origin] = Table(
    labels=("account", "stream", "kind", "origin"),
    values_of=lambda origin: (origin.stream.account.name, origin.stream.name, origin.kind, origin.name),
    columns=(
        gauge(
            "headrace_stream_origin_lag_messages",
            "Messages of the origin that are not copied yet; missing without the origin.",
            lambda origin: origin.lag,
        ),
        gauge(
            "headrace_stream_origin_found",
            "0 while the stream that is mirrored or sourced does not exist.",
            lambda origin: int(origin.lag is not None),
        ),
    ),
)


def _ack_age(consumer: Consumer) -> float | None:
    last = consumer.core.ledger.last_ack
    return max(consumer.core.now() - last, 0) / NANOSECONDS if last else None


def _waiting_pulls(consumer: Consumer) -> int | None:
    return getattr(consumer.delivery, "num_waiting", None)


CONSUMERS: Table[Consumer] = Table(
    labels=("account", "stream", "consumer"),
    values_of=lambda consumer: (consumer.core.account, consumer.core.stream, consumer.name),
    columns=(
        gauge(
            "headrace_consumer_pending_messages",
            "Messages that are not delivered yet.",
            lambda c: c.upcoming.num_pending,
        ),
        gauge(
            "headrace_consumer_ack_pending_messages",
            "Messages that are delivered and not acknowledged.",
            lambda c: len(c.core.ledger.pending),
        ),
        gauge(
            "headrace_consumer_redelivered_messages",
            "Messages that were delivered more than once and are not acknowledged.",
            lambda c: c.core.num_redelivered,
        ),
        gauge(
            "headrace_consumer_waiting_pulls",
            "Pull requests that wait for messages; missing for push consumers.",
            _waiting_pulls,
        ),
        gauge(
            "headrace_consumer_last_ack_age_seconds",
            "Time since the last acknowledgement; missing before the first since the server was started.",
            _ack_age,
        ),
    ),
)


class Landed(NamedTuple):
    account: str
    report: LandingReport
    age: float
    lag: int | None
    """None without the stream."""


LANDINGS: Table[Landed] = Table(
    labels=("account", "stream", "table"),
    values_of=lambda landed: (landed.account, landed.report.stream, landed.report.table),
    columns=(
        gauge(
            "headrace_landing_lag_messages",
            "Messages of the stream that are not in the table yet; missing without the stream.",
            lambda landed: landed.lag,
        ),
        counter("headrace_landing_rows", "Rows landed by the query.", lambda landed: landed.report.rows),
        gauge(
            "headrace_landing_rows_per_second",
            "Rows per second of the last batch that had rows.",
            lambda landed: landed.report.rows_per_second,
        ),
        counter(
            "headrace_landing_deletions",
            "Keys deleted by the query, in a table with a key.",
            lambda landed: landed.report.deletions,
        ),
        counter(
            "headrace_landing_dead_letters",
            "Messages that did not fit into the table.",
            lambda landed: landed.report.dead_letters,
        ),
        gauge(
            "headrace_landing_report_age_seconds",
            "Time since the query has reported.",
            lambda landed: landed.age,
        ),
    ),
)

LANDING_STATE_NAMES = ("running", "stopped", "failed", "silent")


class LandingState(NamedTuple):
    landed: Landed
    state: str


LANDING_STATES: Table[LandingState] = Table(
    labels=("account", "stream", "table", "state"),
    values_of=lambda each: (*LANDINGS.values_of(each.landed), each.state),
    columns=(
        gauge(
            "headrace_landing_state",
            "1 for the state of the query, 0 for the others; silent: it runs, and has not reported for long.",
            lambda each: int(each.landed.report.state == each.state),
        ),
    ),
)

"""Reads a range of a stream: an ephemeral consumer, overlapping pulls, and a new consumer after any failure.

The plan
--------
An ephemeral consumer without acknowledgements starts at the first missing sequence. Two pulls are in flight
at any time, so the server never waits for us; each is limited in rows and bytes, so the server never buffers
more for us than it may.

A message with the last sequence, or a later one, ends the range. If the messages at the end are deleted, or
do not match the filter, there is none. So whenever a consumer reports the end, stays silent, is gone, or the
connection is lost, a new consumer is created at the next sequence. If that one counts no matching message,
and the stream itself has none before the end of the range, the range is complete. One rule covers every kind
of failure, and the end is always verified.

Rejected: trusting a count. The consumer of a replicated stream may be on a replica that is behind, and
`no_wait` pulls end with a 404 that depends on a counter, which deletes can make wrong.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.client.api import PREFIX, ConsumerAnswer, MessageAnswer, StreamInfo, decode, encode
from headrace.client.columns import Columns
from headrace.client.errors import (
    MESSAGE_NOT_FOUND,
    ApiError,
    FetchFailed,
    MessagesMissing,
    NoResponders,
    RequestTimeout,
    UsageError,
)
from headrace.client.frames import ConnectionEnded, Event
from headrace.client.ranges import Range
from headrace.client.status import CONFLICT, HEARTBEAT, TIMEOUT, parse_status
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.client.client import Client
    from headrace.client.connection import ServerConnection

PULL_ROWS = 16384
PULL_BYTES = 12 << 20  # two pulls stay below the 64 MiB that a server buffers for a slow reader
PULL_EXPIRES_NANOSECONDS = 60_000_000_000
INACTIVE_NANOSECONDS = 60_000_000_000
SERVER_ERROR = 500  # and above, as in HTTP: not our fault
SILENCE_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)  # how long to wait for a row, by attempts without one
PAUSE_SECONDS = 1.0

Batch = TypeVar("Batch")


class Patience:
    """How long to wait for the next row: longer after each attempt without one, up to a limit."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._attempts = 0
        self._since = time.monotonic()

    def note(self, *, progress: bool) -> None:
        if progress:
            self._attempts = 0
            self._since = time.monotonic()
        else:
            self._attempts += 1

    @property
    def silence(self) -> float:
        return SILENCE_SECONDS[min(self._attempts, len(SILENCE_SECONDS) - 1)]

    @property
    def is_over(self) -> bool:
        enough = self._attempts >= len(SILENCE_SECONDS)
        return enough and time.monotonic() - self._since > self._seconds


class Fetch:
    """One range. `batches` may be iterated once."""

    def __init__(
        self,
        client: Client,
        info: StreamInfo,
        wanted: Range,
    ) -> None:
        self._client = client
        self._stream = info.name
        self._created = info.created
        self._subjects = wanted.filters
        self._last = wanted.last
        self._fail_on_loss = wanted.fail_on_loss
        self._columns = wanted.columns()
        self._consumer = ""
        self._inbox = ""
        self._pull_bytes = PULL_BYTES
        self._refused_at = -1
        self.check(info)

    def check(self, info: StreamInfo) -> None:
        """Raise if this stream cannot have the range."""
        check_identity(info, self._created)
        check_end(info, self._last)
        if self._fail_on_loss and not self._columns.complete:
            check_head(info, self._columns.last_seq + 1)

    def batches(self, take: Callable[[Columns], Batch]) -> Iterator[Batch]:
        """What `take` makes of the columns whenever they are full, and at the end."""
        columns = self._columns
        with self._client.connection() as connection:
            patience = Patience(self._client.reconnect_timeout)
            try:
                while not columns.complete:
                    seen = columns.last_seq
                    try:
                        if not self._start(connection) and self._is_at_end(connection):
                            break
                        for _ in self._read(connection, patience.silence):
                            self._check_loss()
                            yield take(columns)
                    except ConnectionEnded:
                        self._consumer = ""
                        connection.reconnect()
                    except (NoResponders, RequestTimeout, ApiError) as error:
                        if not _may_pass(error) or patience.is_over:
                            raise
                        time.sleep(min(patience.silence, PAUSE_SECONDS))
                    patience.note(progress=columns.last_seq > seen)
                    if patience.is_over:
                        raise self._stalled()
                if columns.rows:
                    self._check_loss()
                    yield take(columns)
            finally:
                self._stop(connection)

    # -- the consumer ---------------------------------------------------------------------------------------

    def _start(self, connection: ServerConnection) -> bool:
        """Create a consumer at the next sequence. Returns False if no matching message is left."""
        self._stop(connection)
        self.check(self._client.stream_info_on(connection, self._stream))
        name = secrets.token_hex(8)
        config: dict[str, Any] = {
            "name": name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._columns.last_seq + 1,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": INACTIVE_NANOSECONDS,
            "mem_storage": True,
            "num_replicas": 1,
        }
        if self._subjects:
            config["filter_subjects"] = self._subjects
        answer = connection.request(
            f"{PREFIX}.CONSUMER.CREATE.{self._stream}.{name}",
            encode({"stream_name": self._stream, "config": config, "action": "create"}),
            self._client.request_timeout,
        )
        consumer = decode(answer, ConsumerAnswer, f"reading the stream {self._stream}")
        self._consumer = name
        self._inbox = f"_INBOX.{name}"
        self._columns.follow(connection.subscribe(f"{self._inbox}.*"))
        return consumer.num_pending > 0

    def _is_at_end(self, connection: ServerConnection) -> bool:
        """Ask the stream, not a consumer, whether there are no more messages before the end of the range."""
        for subject in self._subjects or [">"]:
            answer = connection.request(
                f"{PREFIX}.STREAM.MSG.GET.{self._stream}",
                encode({"seq": self._columns.last_seq + 1, "next_by_subj": subject}),
                self._client.request_timeout,
            )
            try:
                found = decode(answer, MessageAnswer, f"reading the stream {self._stream}")
            except ApiError as error:
                if error.err_code != MESSAGE_NOT_FOUND:
                    raise
            else:
                if found.message.seq <= self._last:
                    return False
        return True

    def _stop(self, connection: ServerConnection) -> None:
        if not self._consumer:
            return
        consumer, self._consumer = self._consumer, ""
        try:
            connection.unsubscribe(self._columns.sid)
            connection.request_later(f"{PREFIX}.CONSUMER.DELETE.{self._stream}.{consumer}", b"")
        except ConnectionEnded:
            pass  # the server removes it when nobody pulls for a while

    # -- the rows -------------------------------------------------------------------------------------------

    def _read(self, connection: ServerConnection, silence: float) -> Iterator[None]:
        """Yields when a batch is full; ends when this consumer has ended, for whatever reason."""
        columns = self._columns
        while not columns.complete:
            self._ask(connection)
            seen = columns.last_seq
            event = columns.read(connection.frames, silence)
            if columns.full:
                yield
            elif event and event.sid == columns.sid:
                if not self._on_status(event):
                    return
            elif event:
                connection.handle(event)
            elif columns.pending == 0 or columns.last_seq == seen:
                return

    def _ask(self, connection: ServerConnection) -> None:
        """Keep two pulls in flight, but never for more rows than the range can have."""
        columns = self._columns
        while columns.credit <= PULL_ROWS:
            rows = min(PULL_ROWS, self._last - columns.last_seq - columns.credit)
            if rows <= 0:
                columns.low_credit = -1
                return
            pull = {"batch": rows, "max_bytes": self._pull_bytes, "expires": PULL_EXPIRES_NANOSECONDS}
            connection.publish(
                f"{PREFIX}.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}",
                encode(pull),
                f"{self._inbox}.1",
            )
            columns.credit += rows
        columns.low_credit = PULL_ROWS

    def _on_status(self, event: Event) -> bool:
        """Returns False if the consumer has ended."""
        columns = self._columns
        status = parse_status(event.headers)
        unused = status.headers.get("Nats-Pending-Messages", "")
        if status.code == HEARTBEAT:
            return True
        if status.code in (TIMEOUT, CONFLICT) and unused.isdecimal():
            columns.credit -= int(unused)
            if "MaxBytes" in status.text and columns.credit <= 0:
                # Refused twice at the same sequence: a message that is larger than a pull.
                if self._refused_at == columns.last_seq:
                    self._pull_bytes *= 2
                self._refused_at = columns.last_seq
            return "Shutdown" not in status.text
        return False

    def _stalled(self) -> FetchFailed:
        return FetchFailed(
            f"the stream {self._stream} has messages after {self._columns.last_seq}, but none comes",
            hint="check the server's log",
        )

    # -- loss -----------------------------------------------------------------------------------------------

    def _check_loss(self) -> None:
        """For missing sequences: raise if the head of the stream was removed while it was read."""
        if self._fail_on_loss and self._columns.jumped_from >= 0:
            check_head(self._client.stream_info(self._stream), self._columns.jumped_from + 1)


# What a stream must be for a range of it to be read, from a server or from files (stored_fetch.py).


def check_identity(info: StreamInfo, created: int) -> None:
    """Raise unless it may be read, and is the stream that was created then."""
    if info.retention != "limits":
        raise UsageError(
            f"the stream {info.name} has the retention {info.retention}: reading removes messages",
            hint="read a stream with the retention limits, a mirror of this one for example",
        )
    if info.created != created:
        raise MessagesMissing(f"the stream {info.name} was deleted and re-created while it was read")


def check_end(info: StreamInfo, last: int) -> None:
    """Raise if it does not reach that far."""
    if info.last_seq < last:
        raise MessagesMissing(
            f"the stream {info.name} ends at {info.last_seq}, before {last}, which was asked for"
        )


def check_head(info: StreamInfo, wanted: int) -> None:
    """Raise if messages from `wanted` on are gone from its head."""
    if info.first_seq > wanted:
        raise MessagesMissing(
            f"the stream {info.name} starts at {info.first_seq} by now; messages from {wanted} are gone",
            hint="its retention or a purge removed them before they were read",
        )


def _may_pass(error: HeadraceError) -> bool:
    """Whether it is a temporary condition: a server is starting or a cluster is electing a leader."""
    return not isinstance(error, ApiError) or error.code >= SERVER_ERROR

"""Publishing columns, with acknowledgements or without.

A publisher resends what was not acknowledged: after reconnecting, after a while without any acknowledgement,
and when there were no responders for a moment. That is safe for a message with a message id, because the
stream recognizes it (within its duplicate window). Without one, a message that may have been stored is an
error: PublishFailed says that its fate is unknown.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from headrace.client.api import ErrorAnswer, PublishAnswer
from headrace.client.connection import ServerConnection, protocol_error
from headrace.client.errors import ConnectionFailed, PublishFailed, UsageError
from headrace.client.flight import Flight
from headrace.client.frames import BadFrame, ConnectionEnded, Event
from headrace.client.outgoing import BadRow, Outgoing
from headrace.client.status import NO_RESPONDERS, parse_status
from headrace.unreadable import UNREADABLE_JSON

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.client.client import Client

SILENT_ROUNDS_MAX = 3
RETRY_PAUSE_SECONDS = 0.1
PLAIN_TIMEOUT_SECONDS = 30.0

# Temporary errors: nothing was stored, and a retry may succeed.
PASSING_ERRORS = {
    10008,  # JetStream system temporarily unavailable
    10009,  # JetStream cluster has no leader
    10167,  # too many requests
}


class Report(NamedTuple):
    """The counts of one publisher so far. Duplicates, which the stream had already, are acknowledged, too."""

    acked: int
    duplicates: int


class Publisher:
    """From `Client.publisher`. Call `publish` as often as you like, then `flush`."""

    def __init__(self, client: Client, *, stream: str, max_in_flight: int, ack_timeout: float) -> None:
        self._client = client
        self._connection: ServerConnection | None = None
        self._stream = stream
        self._inbox = f"_INBOX.{secrets.token_hex(11)}."
        self._ack_timeout = ack_timeout
        self._flight = Flight(0, self._inbox.encode(), limit=max_in_flight, stream=stream.encode())
        self._failed: PublishFailed | None = None
        self._refused_since = 0.0
        self._acked_at_refusal = 0

    def publish(
        self,
        subjects: pa.Array | str,
        data: pa.Array,
        headers: pa.Array | None = None,
        msg_ids: pa.Array | None = None,
    ) -> None:
        """Send a batch: one subject for all rows, or a column of them.

        Returns when all of it is written; up to `max_in_flight` messages may then still wait for their
        acknowledgement. `data` is strings or bytes, `headers` a list of (key, value) structs or a map. A row
        that cannot be sent raises UsageError before anything is. Raises PublishFailed as soon as a failure is
        known; no message after that is sent by this publisher.
        """
        connection = self._usable()
        rows = prepare(subjects, data, headers, msg_ids, max_payload=connection.max_payload)
        self._flight.add(rows)
        self._run(settle=False)

    def publish_rows(self, rows: Outgoing) -> None:
        """As `publish`, for rows that are not Arrow columns. Raises BadRow before anything is sent."""
        rows.check(self._usable().max_payload)
        self._flight.add(rows)
        self._run(settle=False)

    def flush(self) -> Report:
        """Wait for every acknowledgement. Raises PublishFailed with the first failure."""
        if self._flight.in_flight or not self._flight.sent:
            self._usable()
            self._run(settle=True)
        if self._failed:
            raise self._failed
        if self._connection:
            connection, self._connection = self._connection, None
            connection.unsubscribe(self._flight.sid)
            self._client.give_back(connection)
        return Report(self._flight.acked, self._flight.duplicates)

    # -- sending --------------------------------------------------------------------------------------------

    def _usable(self) -> ServerConnection:
        if self._failed:
            raise self._failed
        if self._connection is None:
            self._connection = self._client.borrow()
            self._flight.follow(self._connection.subscribe(f"{self._inbox}*"))
        return self._connection

    def _run(self, *, settle: bool) -> None:
        """Run until all is sent, or settled. Raises PublishFailed."""
        connection = self._usable()
        flight = self._flight
        rounds, acked = 0, flight.acked
        while not flight.sent or (settle and flight.in_flight):
            try:
                event = flight.run(connection.frames, self._ack_timeout, settle)
                if event:
                    self._handle(connection, event)
                elif flight.failures:
                    self._decide()
                elif not flight.sent or (settle and flight.in_flight):
                    rounds = rounds + 1 if flight.acked == acked else 1
                    acked = flight.acked
                    if rounds == SILENT_ROUNDS_MAX:
                        raise self._fail(
                            f"{flight.in_flight} messages were not acknowledged in {self._ack_timeout:g} s"
                        )
                    self._start_again(connection, f"no acknowledgement in {self._ack_timeout:g} s")
            except ConnectionEnded as error:
                self._start_again(connection, str(error))
            except BadFrame as error:
                raise self._fail(str(protocol_error(error, connection.address))) from None

    def _handle(self, connection: ServerConnection, event: Event) -> None:
        try:
            connection.handle(event)
        except ConnectionFailed as failure:
            raise self._fail(str(failure), hint=failure.hint) from None

    def _start_again(self, connection: ServerConnection, reason: str) -> None:
        """Resend everything that waits, on a new connection: it may have been lost with the old one."""
        without_id = self._flight.resend()
        if without_id:
            raise self._fail(
                f"it is unknown whether {without_id} messages without a message id were stored: {reason}",
                hint="give every message an id (msg_ids): then it can be sent again, and is stored once",
            )
        try:
            connection.reconnect()
            self._flight.follow(connection.subscribe(f"{self._inbox}*"))
        except (ConnectionFailed, ConnectionEnded) as failure:
            raise self._fail(str(failure)) from None

    # -- acknowledgements -----------------------------------------------------------------------------------

    def _decide(self) -> None:
        """For messages that were refused."""
        now = time.monotonic()
        if self._refused_since == 0.0 or self._flight.acked > self._acked_at_refusal:
            self._refused_since, self._acked_at_refusal = now, self._flight.acked
        for number, headers, payload in self._flight.failures:
            failure = self._explain(number, headers, payload)
            failure.number = number
            passing = failure.err_code in PASSING_ERRORS or (
                failure.err_code == NO_RESPONDERS and self._flight.acked > 0
            )
            if not passing or now - self._refused_since > self._client.reconnect_timeout:
                raise self._fail(failure.message, failure)
            self._flight.retry(number)
        self._flight.failures.clear()
        time.sleep(RETRY_PAUSE_SECONDS)

    def _explain(self, number: int, headers: bytes, payload: bytes) -> PublishFailed:
        subject = self._flight.subject(number).decode(errors="replace")
        if parse_status(headers).code == NO_RESPONDERS:
            return PublishFailed(
                f"no stream stores the subject {subject}",
                err_code=NO_RESPONDERS,
                description="no responders",
                hint="create a stream with this subject, or check that the server has JetStream",
            )
        try:
            answer = msgspec.json.decode(payload, type=PublishAnswer)
        except UNREADABLE_JSON:
            return PublishFailed(
                f"the reply to a message to {subject} is not an acknowledgement: {payload[:60]!r}"
            )
        if not answer.error and self._stream and answer.stream != self._stream:
            return PublishFailed(
                f"messages of {subject} are stored in the stream {answer.stream}, not in {self._stream}"
            )
        error = answer.error or ErrorAnswer(description="an acknowledgement without a sequence")
        return PublishFailed(
            f"a message to {subject} was refused: {error.description}",
            err_code=error.err_code,
            description=error.description,
        )

    def _fail(self, message: str, failure: PublishFailed | None = None, *, hint: str = "") -> PublishFailed:
        """Stop this publisher; acknowledgements still in flight are ignored."""
        self._failed = failure or PublishFailed(message, hint=hint)
        if self._connection:
            self._client.drop(self._connection)
            self._connection = None
        return self._failed


def prepare(subjects: Any, data: Any, headers: Any, msg_ids: Any, *, max_payload: int) -> Outgoing:
    """Rows that can be sent. Raises UsageError, with the number of the first row that cannot."""
    from headrace.client.arrays import outgoing

    rows = outgoing(subjects, data, headers, msg_ids)
    try:
        rows.check(max_payload)
    except BadRow as fault:
        raise UsageError(f"row {fault.row} cannot be published: {fault.reason}") from None
    return rows


def publish_plain(
    connection: ServerConnection, subjects: Any, data: Any, headers: Any, *, timeout: float
) -> None:
    """Publish without acknowledgements, and wait until the server has received it."""
    flight = Flight(0, b"")
    flight.add(prepare(subjects, data, headers, None, max_payload=connection.max_payload))
    while not flight.sent:
        event = flight.run(connection.frames, PLAIN_TIMEOUT_SECONDS, False)
        if event:
            connection.handle(event)
        elif not flight.sent:
            raise ConnectionEnded(f"the server took nothing for {PLAIN_TIMEOUT_SECONDS:g} s")
    connection.flush(timeout)

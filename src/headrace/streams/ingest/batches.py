"""Atomic batches.

Messages with the same Nats-Batch-Id are stored together when the last one commits, or not at all.

Until then they are kept in memory. Each is answered with an empty message, the commit with the batch's
sequence. After a gap in Nats-Batch-Sequence, too many messages, or ten seconds of silence, the batch is
abandoned.

All messages of a batch are stored within one tick, so they are in one group of the log. If a crash tears that
group, recovery finds messages of a batch without its commit at the end of the log, and removes them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.on_disk.torn_batches import torn_batch
from headrace.streams import headers
from headrace.streams.errors import ApiError, api_error
from headrace.streams.ingest.acknowledgements import encode_batch, encode_error, encode_stored
from headrace.streams.ingest.publication import Publication
from headrace.streams.ingest.staged import Staged

if TYPE_CHECKING:
    from headrace.config.options import JetStreamLimits
    from headrace.engine.store.log import Log
    from headrace.streams.ingest.intake import Intake

DEFAULT_MESSAGES = 1000
DEFAULT_TIMEOUT_SECONDS = 10.0
MAXIMUM_STAGED_BYTES = 256 * 1024 * 1024  # of all batches; nats-server writes them to files instead
MAXIMUM_ID_LENGTH = 64
ADVISORY_SUBJECT = "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED."
ADVISORY_KIND = "stream_batch_abandoned"
_END_OF_BATCH = b"eob"  # commits the messages before it; is not one itself


class BatchLimits:
    """How many batches may be in flight, their length, and how long they may be silent.

    Taken from the configuration; `per_stream` and `in_all` are defaults.
    """

    def __init__(self, limits: JetStreamLimits, *, per_stream: int, in_all: int) -> None:
        self.per_stream = limits.max_batch_inflight_per_stream or per_stream
        self.in_all = limits.max_batch_inflight_total or in_all
        self.messages = limits.max_batch_size or DEFAULT_MESSAGES
        self.timeout = limits.max_batch_timeout or DEFAULT_TIMEOUT_SECONDS

    def check_length(self, messages: int) -> None:
        if messages > self.messages:
            raise api_error("atomic_publish_too_large_batch", size=self.messages)


class _Batch:
    def __init__(self) -> None:
        self.messages: list[Publication] = []
        self.last_seq = 0
        self.size = 0
        self.active_at = 0.0
        self.timer: asyncio.TimerHandle | None = None


class Batches:
    """The atomic batches of one stream."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._stream = intake.stream
        self._batches: dict[bytes, _Batch] = {}
        self._in_flight = intake.stream.jetstream.resources.batches
        self._limits = BatchLimits(
            intake.stream.jetstream.options.jetstream_limits, per_stream=50, in_all=1000
        )

    def stop(self) -> None:
        for batch_id in list(self._batches):
            self._drop(batch_id)

    def on_message(self, batch_id: bytes, publication: Publication) -> None:
        """Stage a message, or commit its batch, and answer."""
        sink = self._intake.sink
        try:
            body = self._accept(batch_id, publication)
        except ApiError as error:
            body = encode_error(self._stream.name, error)
        sink.answer(publication.reply, body)

    def _accept(self, batch_id: bytes, publication: Publication) -> bytes:
        config, checks, limits = self._stream.config, self._intake.checks, self._limits
        checks.check_sealed()
        self._intake.writer.check_room(publication)
        checks.check_size(publication)
        if not config.allow_atomic:
            raise api_error("atomic_publish_disabled")
        if len(batch_id) > MAXIMUM_ID_LENGTH:
            raise api_error("atomic_publish_invalid_batch_id")
        seq = _read_sequence(publication.headers)
        commit = headers.get(publication.headers, headers.BATCH_COMMIT)
        size = (seq - (commit == _END_OF_BATCH)) % 2**64
        batch = self._batches.get(batch_id)
        if batch is None:
            if seq != 1:
                limits.check_length(size)
                raise api_error("atomic_publish_incomplete_batch")
            batch = self._start(batch_id)
        if commit not in (None, b"1", _END_OF_BATCH):
            self._drop(batch_id)
            raise api_error("atomic_publish_invalid_batch_commit")
        self._check_api_level(batch_id, publication)
        batch.active_at = asyncio.get_running_loop().time()
        batch.last_seq += 1
        if batch.last_seq != seq or (seq == 1 and commit == _END_OF_BATCH):
            self._abandon(batch_id, "incomplete")
            raise api_error("atomic_publish_incomplete_batch")
        try:
            limits.check_length(size)
        except ApiError:
            self._abandon(batch_id, "large")
            raise
        if commit != _END_OF_BATCH:
            self._stage(batch_id, batch, publication)
        if commit is None:
            return b""
        self._drop(batch_id)
        if commit == _END_OF_BATCH:
            last = batch.messages[-1]
            last.headers = headers.append(last.headers, headers.BATCH_COMMIT, b"1")
        return self._commit(batch_id, batch.messages)

    def _start(self, batch_id: bytes) -> _Batch:
        if len(self._batches) >= self._limits.per_stream or self._in_flight.count >= self._limits.in_all:
            raise api_error("atomic_publish_too_many_inflight")
        self._in_flight.count += 1
        batch = self._batches[batch_id] = _Batch()
        self._watch(batch_id, batch, self._limits.timeout)
        return batch

    def _check_api_level(self, batch_id: bytes, publication: Publication) -> None:
        if headers.is_level_too_high(publication.headers):
            self._abandon(batch_id, "unsupported")
            raise api_error("required_api_level")
        publication.headers = headers.remove(publication.headers, headers.REQUIRED_API_LEVEL)

    def _stage(self, batch_id: bytes, batch: _Batch, publication: Publication) -> None:
        size = len(publication.headers) + len(publication.payload)
        if self._in_flight.size + size > MAXIMUM_STAGED_BYTES:
            self._abandon(batch_id, "incomplete")
            raise api_error("atomic_publish_incomplete_batch")
        self._in_flight.size += size
        batch.size += size
        batch.messages.append(publication)

    def _commit(self, batch_id: bytes, messages: list[Publication]) -> bytes:
        """Check all messages, then store them all. Returns the acknowledgement."""
        intake = self._intake
        staged = Staged(intake.checks)
        for message in messages:
            message.subject = intake.transformed(message.subject)
            if headers.text(message.headers, headers.EXPECTED_LAST_MSG_ID):
                name = headers.EXPECTED_LAST_MSG_ID.decode()
                raise api_error("atomic_publish_unsupported_header_batch", header=name)
            staged.check(message)
        seq = intake.accept_checked(messages)
        return encode_stored(intake.sink, seq, encode_batch(batch_id, len(messages)))

    def _watch(self, batch_id: bytes, batch: _Batch, delay: float) -> None:
        """A timer that checks when the batch was last active, so that messages need not reset it."""
        loop = asyncio.get_running_loop()

        def look() -> None:
            left = batch.active_at + self._limits.timeout - loop.time()
            if left <= 0:
                self._abandon(batch_id, "timeout")
            else:
                self._watch(batch_id, batch, left)

        batch.active_at = batch.active_at or loop.time()
        batch.timer = loop.call_later(delay, look)

    def _abandon(self, batch_id: bytes, reason: str) -> None:
        self._drop(batch_id)
        stream = self._stream
        body = {"stream": stream.name, "batch": batch_id.decode("utf-8", "replace"), "reason": reason}
        stream.later(
            lambda: stream.account.publish_advisory(ADVISORY_SUBJECT + stream.name, ADVISORY_KIND, body)
        )

    def _drop(self, batch_id: bytes) -> None:
        batch = self._batches.pop(batch_id)
        self._in_flight.count -= 1
        self._in_flight.size -= batch.size
        if batch.timer is not None:
            batch.timer.cancel()


def remove_torn_batch(log: Log) -> int:
    """Remove the messages of a batch without a commit at the end of the log. Returns how many."""
    torn = torn_batch(log.get, log.last_seq)
    return log.remove_many(torn) if torn else 0


def _read_sequence(block: bytes) -> int:
    digits = headers.text(block, headers.BATCH_SEQUENCE)
    if not digits.isdigit() or len(digits) > 40 or int(digits) >= 2**64:
        raise api_error("atomic_publish_missing_seq")
    return int(digits)

"""The checks of a published message before it is stored, in nats-server's order.

The order decides which error a publisher sees if several apply, so it is kept here in one list. Each step
is a function of the file that knows the feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.streams import headers
from headrace.streams.errors import api_error
from headrace.streams.ingest import counters, expectations
from headrace.streams.ingest.publication import Duplicate, Publication
from headrace.streams.ingest.rollup import check_rollup, read_rollup
from headrace.streams.ingest.schedules import check_schedule, read_cancelled
from headrace.streams.ingest.ttl import has_valid_ttl

if TYPE_CHECKING:
    from headrace.engine.store.log import Log
    from headrace.engine.streams.stream_sink import StreamSink
    from headrace.streams.config import StreamConfig

MAXIMUM_HEADER_LENGTH = 65535
MAXIMUM_FILE_RECORD = 32 * 1024 * 1024


class Checks:
    """The checks of one stream. `max_payload` is the server's limit for a message."""

    def __init__(self, config: StreamConfig, log: Log, sink: StreamSink, max_payload: int) -> None:
        self.config = config
        self.log = log
        self.sink = sink
        self.max_payload = max_payload

    def check(self, publication: Publication) -> None:
        """Raises ApiError or Duplicate. May change the publication: counters and schedules do."""
        self.check_record(publication)
        self.check_sealed()
        publication.headers = headers.remove(publication.headers, headers.CLIENT_INFO)
        self.check_size(publication)
        if len(publication.headers) > MAXIMUM_HEADER_LENGTH:
            raise api_error("stream_header_exceeds_maximum")
        if publication.headers:
            self._check_headers(publication)
        if self.config.allow_msg_counter:
            self._count(publication)

    def _check_headers(self, publication: Publication) -> None:
        config, log, block = self.config, self.log, publication.headers
        # Few messages have one of these headers, and looking for each by name takes most of the time.
        is_expecting = headers.EXPECTED_PREFIX in block
        if headers.INCREMENT in block:
            counters.check_increment(publication, config)
        if is_expecting:
            expectations.check_stream(block, config.name)
        if not publication.is_sourced and not config.allow_msg_ttl and has_valid_ttl(block):
            raise api_error("message_ttl_disabled")
        if is_expecting:
            expectations.check_last_subject_sequence(block, publication.subject, log)
            expectations.check_last_sequence(block, log.last_seq)
        if not publication.is_sourced:
            if headers.SCHEDULE in block:  # Nats-Schedule-…, Nats-Scheduler
                check_schedule(publication, config)
                self._check_cancelled(publication)
            self.check_no_source(publication)
        self._check_duplicate(publication)
        if is_expecting:
            expectations.check_last_msg_id(block, self.sink.last_msg_id)
        publication.rollup = read_rollup(publication.headers)
        check_rollup(publication.rollup, config, is_sourced=publication.is_sourced)

    def check_stored_late(self, publication: Publication) -> None:
        """The remaining checks for a message of a batch when it is stored.

        The others were made for the whole batch.
        """
        publication.headers = headers.remove(publication.headers, headers.CLIENT_INFO)
        publication.msg_id = headers.text(publication.headers, headers.MSG_ID)
        expectations.check_last_msg_id(publication.headers, self.sink.last_msg_id)
        publication.rollup = read_rollup(publication.headers)

    def check_record(self, publication: Publication) -> None:
        if self.config.storage == "file" and self.stored_size(publication) > MAXIMUM_FILE_RECORD:
            raise api_error("stream_store_failed", err="message too large")

    def stored_size(self, publication: Publication) -> int:
        return publication.stored_size(self.config.storage)

    def check_sealed(self) -> None:
        if self.config.sealed:
            raise api_error("stream_sealed")

    def check_size(self, publication: Publication) -> None:
        limit = self.config.max_msg_size
        if 0 <= limit < len(publication.headers) + len(publication.payload):
            raise api_error("stream_message_exceeds_maximum")

    def check_no_source(self, publication: Publication) -> None:
        if headers.text(publication.headers, headers.STREAM_SOURCE):
            raise api_error("message_source_hdr_not_allowed")

    def has_schedule(self, subject: bytes) -> bool:
        """Whether the last message of the subject is a schedule, or there is none."""
        seq = self.log.last(subject)
        message = self.log.get(seq) if seq else None
        return message is None or bool(headers.text(message.headers, headers.SCHEDULE))

    def _check_cancelled(self, publication: Publication) -> None:
        scheduler = read_cancelled(publication, self.config)
        if scheduler is not None and not self.has_schedule(scheduler):
            raise api_error("message_schedules_scheduler_invalid")

    def _check_duplicate(self, publication: Publication) -> None:
        publication.msg_id = headers.text(publication.headers, headers.MSG_ID)
        if publication.msg_id and self.config.mirror is None:
            seq = self.sink.duplicates.find(publication.msg_id)
            if seq:
                raise Duplicate(seq)

    def _count(self, publication: Publication) -> None:
        if publication.increment is None:
            raise api_error("message_incr_missing")
        counters.count(publication, counters.read_total(self.log, publication.subject))
        if len(publication.headers) + len(publication.payload) > self.max_payload:
            raise api_error("stream_message_exceeds_maximum")
        self.check_size(publication)

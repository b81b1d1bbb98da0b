"""The checks of the messages of a batch, each as if those before it were stored.

The rules are those of single messages (checks.py), but in a different order, as in nats-server, and with more
to refuse: an expectation about a subject that the batch itself has written can be neither true nor false.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.streams import headers
from headrace.streams.errors import ApiError, api_error
from headrace.streams.ingest import counters, expectations
from headrace.streams.ingest.checks import MAXIMUM_HEADER_LENGTH, Checks
from headrace.streams.ingest.rollup import ALL, SUBJECT, check_rollup, read_rollup
from headrace.streams.ingest.schedules import check_schedule, read_cancelled
from headrace.streams.ingest.ttl import read_ttl

if TYPE_CHECKING:
    from headrace.streams.ingest.publication import Publication


class DuplicateInBatch(ApiError):
    """A message of the batch has the Nats-Msg-Id of another one of it, or of a stored one (`seq`)."""

    def __init__(self, seq: int) -> None:
        error = api_error("atomic_publish_contains_duplicate_message")
        super().__init__(error.name, error.code, error.err_code, error.description)
        self.seq = seq


@dataclass(slots=True)
class _Written:
    """What the batch writes to one subject."""

    count: int = 0
    size: int = 0
    has_schedule: bool = False


class Staged:
    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._config = checks.config
        self._log = checks.log
        self._last_seq = checks.log.last_seq
        self._msg_ids: set[bytes] = set()
        self._totals: dict[bytes, counters.Total] = {}
        self._expected: dict[bytes, int] = {}
        self._written: dict[bytes, _Written] = {}

    def check(self, publication: Publication) -> None:
        """Raises ApiError. The publication is changed into what is to be stored."""
        self._checks.check_record(publication)
        if publication.headers:
            self._check_identity(publication)
        if self._config.allow_msg_counter:
            self._count(publication)
        if publication.headers:
            self._check_expectations(publication)
            check_schedule(publication, self._config)
            self._check_cancelled(publication)
            self._check_rollup(publication)
        self._note(publication)
        if self._config.discard == "new":
            self._check_room(publication)
        self._last_seq += 1

    def _check_identity(self, publication: Publication) -> None:
        block, config = publication.headers, self._config
        if len(block) > MAXIMUM_HEADER_LENGTH:
            raise api_error("stream_header_exceeds_maximum")
        counters.check_increment(publication, config)
        expectations.check_stream(block, config.name)
        if not config.allow_msg_ttl and headers.text(block, headers.TTL):
            raise api_error("message_ttl_disabled")
        read_ttl(block)
        self._check_duplicate(publication)
        self._checks.check_no_source(publication)

    def _check_duplicate(self, publication: Publication) -> None:
        publication.msg_id = headers.text(publication.headers, headers.MSG_ID)
        if not publication.msg_id:
            return
        seq = self._checks.sink.duplicates.find(publication.msg_id)
        if seq or publication.msg_id in self._msg_ids:
            raise DuplicateInBatch(seq)
        self._msg_ids.add(publication.msg_id)

    def _count(self, publication: Publication) -> None:
        if publication.increment is None:
            raise api_error("message_incr_missing")
        subject = publication.subject
        total = self._totals.get(subject) or counters.read_total(self._log, subject)
        self._totals[subject] = counters.count(publication, total)
        limit = self._checks.max_payload
        if self._config.max_msg_size >= 0:
            limit = min(limit, self._config.max_msg_size)
        if len(publication.headers) + len(publication.payload) > limit:
            raise api_error("stream_message_exceeds_maximum")

    def _check_expectations(self, publication: Publication) -> None:
        block = publication.headers
        expectations.check_last_sequence(block, self._last_seq)
        if expectations.read_last_sequence(block) is not None and self._written:
            raise api_error("stream_wrong_last_sequence_constant")
        expected = expectations.read_last_subject_sequence(block, publication.subject)
        if expected is None:
            return
        subject, seq = expected
        if subject in self._written:
            raise api_error("stream_wrong_last_sequence_constant")
        last = self._expected.get(subject)
        if last is None:
            last = self._log.last(subject)
        if last != seq:
            raise api_error("stream_wrong_last_sequence", seq=last)
        self._expected[subject] = last

    def _check_cancelled(self, publication: Publication) -> None:
        scheduler = read_cancelled(publication, self._config)
        if scheduler is None:
            return
        written = self._written.get(scheduler)
        is_schedule = written.has_schedule if written else self._checks.has_schedule(scheduler)
        if not is_schedule:
            raise api_error("message_schedules_scheduler_invalid")

    def _check_rollup(self, publication: Publication) -> None:
        publication.rollup = read_rollup(publication.headers)
        check_rollup(publication.rollup, self._config, is_sourced=False)
        if publication.rollup == SUBJECT and publication.subject in self._written:
            raise api_error("stream_rollup_failed", err="batch rollup sub invalid")
        if publication.rollup == ALL and self._written:
            raise api_error("stream_rollup_failed", err="batch rollup all invalid")

    def _note(self, publication: Publication) -> None:
        written = self._written.setdefault(publication.subject, _Written())
        written.count += 1
        written.size += self._checks.stored_size(publication)
        written.has_schedule = publication.has_schedule

    def _check_room(self, publication: Publication) -> None:
        """A stream that discards new messages must have room for the whole batch."""
        config, log = self._config, self._log
        count = log.count + sum(written.count for written in self._written.values())
        size = log.byte_count + sum(written.size for written in self._written.values())
        if 0 < config.max_msgs < count:
            raise api_error("stream_store_failed", err="maximum messages exceeded")
        if 0 < config.max_bytes < size:
            raise api_error("stream_store_failed", err="maximum bytes exceeded")
        if not config.discard_new_per_subject or config.max_msgs_per_subject <= 0 or publication.rollup:
            return
        state = log.subject_state(publication.subject)
        stored = state[0] if state else 0
        if stored + self._written[publication.subject].count > config.max_msgs_per_subject:
            raise api_error("stream_store_failed", err="maximum messages per subject exceeded")

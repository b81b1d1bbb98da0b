"""Requests for single messages: which message is meant, and which requests are invalid."""

from __future__ import annotations

from collections.abc import Generator

import msgspec

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from headrace.engine.store.readings import Stored
from headrace.streams.config import Wire
from headrace.streams.slices import STEP_RECORDS
from headrace.streams.wire_types import Int, Time, Uint64, always
from headrace.subjects.grammar import FULL_WILDCARD, encode


class MessageGetRequest(Wire):
    go_name = "JSApiMsgGetRequest"

    seq: Uint64 = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: Int = 0
    max_bytes: Int = 0
    start_time: Time | None = None
    multi_last: list[str] = msgspec.field(default_factory=list)
    up_to_seq: Uint64 = 0
    up_to_time: Time | None = None
    no_hdr: bool = False

    @property
    def asks_for_nothing(self) -> bool:
        return not (
            self.seq
            or self.last_by_subj
            or self.next_by_subj
            or self.multi_last
            or self.start_time is not None
        )

    @property
    def contradicts_itself(self) -> bool:
        """A sequence, a time and a last message are three ways to select; only one is allowed."""
        return bool(
            self.has_two_places
            or (self.last_by_subj and (self.batch > 0 or self.multi_last))
            or (self.next_by_subj and self.multi_last)
            or (self.up_to_seq and self.up_to_time is not None)
        )

    @property
    def has_two_places(self) -> bool:
        has_time = self.start_time is not None
        return bool(
            (self.seq and self.last_by_subj)
            or (self.seq and has_time)
            or (has_time and self.last_by_subj)
            or (self.last_by_subj and self.next_by_subj)
        )


def find_last(log: Log, pattern: str) -> Generator[None, None, Stored | None]:
    """The last message of a subject, or of all subjects that match; a search in slices.

    For `>` it is the message with the last sequence: as in nats-server, there is none if that one was
    deleted.
    """
    if pattern == FULL_WILDCARD:
        return log.get(log.last_seq)
    filter_ = Filter((encode(pattern),))
    while True:
        seq, place = log.look_for_last(filter_, 0, 0, STEP_RECORDS)
        while place < log.places(filter_):
            yield
            seq, place = log.look_for_last(filter_, place, seq, STEP_RECORDS)
        if not seq or log.has(seq):
            return log.get(seq)
        yield  # it was removed in the meantime: there may be another


class MessageDeleteRequest(Wire):
    go_name = "JSApiMsgDeleteRequest"

    seq: Uint64 = always(0)
    no_erase: bool = False

"""What the trace of a message says about a stream that refused it: the words that nats-server uses inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.go_formats import quote
from headrace.streams import headers
from headrace.streams.errors import ApiError
from headrace.streams.ingest import expectations
from headrace.streams.ingest.publication import Duplicate, Publication

if TYPE_CHECKING:
    from headrace.engine.store.log import Log

TEXTS = {
    "stream_message_exceeds_maximum": "maximum payload exceeded",
    "stream_header_exceeds_maximum": "maximum payload exceeded",
    "stream_not_match": "expected stream does not match",
    "message_ttl_disabled": "message TTL disabled",
}
WITHOUT_NUMBER = frozenset({"stream_rollup_failed", "stream_store_failed"})


def describe_refusal(
    refusal: ApiError | Duplicate, publication: Publication, log: Log, last_id: bytes
) -> str:
    """`log` and `last_id` are as they were when it was refused."""
    if isinstance(refusal, Duplicate):
        return "msgid is duplicate"
    if refusal.name == "stream_wrong_last_sequence":
        return _describe_sequences(publication, log)
    if refusal.name == "stream_wrong_last_msg_id":
        expected = headers.text(publication.headers, headers.EXPECTED_LAST_MSG_ID)
        return f"last msgid mismatch: {quote(expected)} vs {quote(last_id)}"
    if refusal.name in WITHOUT_NUMBER:
        return refusal.description
    return TEXTS.get(refusal.name, f"{refusal.description} ({refusal.err_code})")


def _describe_sequences(publication: Publication, log: Log) -> str:
    of_subject = expectations.read_last_subject_sequence(publication.headers, publication.subject)
    if of_subject is not None and (last := log.last(of_subject[0])) != of_subject[1]:
        return f"last sequence by subject mismatch: {of_subject[1]} vs {last}"
    expected = expectations.read_last_sequence(publication.headers)
    return f"last sequence mismatch: {expected} vs {log.last_seq}"

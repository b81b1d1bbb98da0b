"""What a publisher expects of the stream (Nats-Expected-…): a message is stored only if that is true.

Each check raises the ApiError for the publisher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.streams import headers
from headrace.streams.errors import api_error

if TYPE_CHECKING:
    from headrace.engine.store.log import Log


def check_stream(block: bytes, name: str) -> None:
    expected = headers.text(block, headers.EXPECTED_STREAM)
    if expected and expected != name.encode():
        raise api_error("stream_not_match")


def read_last_sequence(block: bytes) -> int | None:
    """The sequence that Nats-Expected-Last-Sequence names; None if there is no such header."""
    digits = headers.text(block, headers.EXPECTED_LAST_SEQUENCE)
    return headers.parse_sequence(digits) if digits else None


def check_last_sequence(block: bytes, last_seq: int) -> None:
    expected = read_last_sequence(block)
    if expected is not None and expected != last_seq:
        raise api_error("stream_wrong_last_sequence", seq=last_seq)


def read_last_subject_sequence(block: bytes, subject: bytes) -> tuple[bytes, int] | None:
    """The subject to check, which the publisher may name, and its expected last sequence; or None."""
    other = headers.text(block, headers.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT)
    digits = headers.text(block, headers.EXPECTED_LAST_SUBJECT_SEQUENCE)
    if digits:
        return other or subject, headers.parse_sequence(digits)
    if other:
        raise api_error("stream_expected_last_seq_per_subject_invalid")
    return None


def check_last_subject_sequence(block: bytes, subject: bytes, log: Log) -> None:
    expected = read_last_subject_sequence(block, subject)
    if expected is None:
        return
    subject, seq = expected
    last = log.last(subject)
    if last != seq:
        raise api_error("stream_wrong_last_sequence", seq=last)


def check_last_msg_id(block: bytes, last_msg_id: bytes) -> None:
    expected = headers.text(block, headers.EXPECTED_LAST_MSG_ID)
    if expected and expected != last_msg_id:
        raise api_error("stream_wrong_last_msg_id", id=last_msg_id.decode("utf-8", "replace"))


def expects_anything(block: bytes) -> bool:
    """Whether the publisher expects something, which counters do not allow."""
    return any(
        headers.text(block, name)
        for name in (
            headers.EXPECTED_STREAM,
            headers.EXPECTED_LAST_MSG_ID,
            headers.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
            headers.EXPECTED_LAST_SEQUENCE,
            headers.EXPECTED_LAST_SUBJECT_SEQUENCE,
        )
    )

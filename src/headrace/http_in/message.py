"""A message as it is published: checked, so that nothing in it can end a line of the protocol.

It comes from a request (request.py) or from a line of NDJSON (lines.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from headrace.streams.headers import (
    BATCH_PREFIX,
    CLIENT_INFO,
    EXPECTED_LAST_MSG_ID,
    EXPECTED_LAST_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
    EXPECTED_STREAM,
    INCREMENT,
    LINE_END,
    MSG_ID,
    ROLLUP,
    SCHEDULE,
    SCHEDULE_ROLLUP,
    SCHEDULE_SOURCE,
    SCHEDULE_TARGET,
    SCHEDULE_TIME_ZONE,
    SCHEDULE_TTL,
    TTL,
    VERSION,
)
from headrace.subjects.grammar import decode, is_valid_publish_subject

NATS_PREFIX = "nats-"
_NAME = re.compile(rb"[!-9;-~]+")  # visible ASCII without the colon
_BAD_VALUE = re.compile(rb"[\r\n\0]")
_BAD_SUBJECT = re.compile(rb"[\x00-\x20\x7f]")
MAX_SUBJECT_BYTES = 2048
"""The line of an operation has to hold it, and by default it may have 4096 bytes."""

SPELLINGS: dict[str, bytes] = {
    name.decode().lower(): name
    for name in (
        MSG_ID,
        EXPECTED_STREAM,
        EXPECTED_LAST_SEQUENCE,
        EXPECTED_LAST_SUBJECT_SEQUENCE,
        EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
        EXPECTED_LAST_MSG_ID,
        ROLLUP,
        TTL,
        INCREMENT,
        SCHEDULE,
        SCHEDULE_TIME_ZONE,
        SCHEDULE_TTL,
        SCHEDULE_ROLLUP,
        SCHEDULE_TARGET,
        SCHEDULE_SOURCE,
    )
}
"""HTTP does not tell upper from lower case, but streams do."""
REFUSED = (BATCH_PREFIX.lower(), CLIENT_INFO.lower(), b"nats-trace-only")
"""A batch is acknowledged as a whole, which one answer per message cannot say. Client info is the server's. A
message that is only traced reaches nobody, so nothing would answer it."""
REQUESTS = (b"$JS.API.", b"$SYS.REQ.")
"""Requests to the server itself: no stream can have these subjects and acknowledge their messages."""


class BadMessage(Exception):
    """What is wrong with it, for whoever sent it."""


class Message(msgspec.Struct, frozen=True):
    subject: bytes
    payload: bytes
    headers: bytes = b""  # as they are sent, or nothing

    @property
    def size(self) -> int:
        return len(self.headers) + len(self.payload)

    def encode(self, reply: bytes) -> list[bytes]:
        """The operation, in pieces."""
        target = self.subject + b" " + reply if reply else self.subject
        if not self.headers:
            return [b"PUB %b %d\r\n" % (target, len(self.payload)), self.payload, LINE_END]
        sizes = b"HPUB %b %d %d\r\n" % (target, len(self.headers), self.size)
        return [sizes, self.headers, self.payload, LINE_END]


def check_subject(subject: bytes) -> bytes:
    """Raises BadMessage unless a message can be published to it."""
    if not subject:
        raise BadMessage("there is no subject")
    if len(subject) > MAX_SUBJECT_BYTES:
        raise BadMessage(f"the subject is longer than {MAX_SUBJECT_BYTES} bytes")
    if _BAD_SUBJECT.search(subject) or not is_valid_publish_subject(decode(subject)):
        raise BadMessage(
            "the subject is not valid: it has an empty token, a wildcard, a space or a control character"
        )
    return subject


def encode_headers(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The block of a message, or nothing. Raises BadMessage if a name or a value cannot be in one."""
    lines = [VERSION]
    for name, value in headers:
        if not _NAME.fullmatch(name):
            raise BadMessage(f"{decode(name[:80])!r} is not the name of a header")
        if _BAD_VALUE.search(value):
            raise BadMessage(f"the header {decode(name)} has a line break in its value")
        if name.lower().startswith(REFUSED):
            raise BadMessage(f"the header {decode(name)} cannot be used over HTTP")
        lines.append(name + b": " + value)
    return LINE_END.join([*lines, b"", b""]) if len(lines) > 1 else b""


def spell(name: str) -> bytes:
    """The header of a stream that HTTP has in lower case."""
    return SPELLINGS.get(name) or "-".join(part.capitalize() for part in name.split("-")).encode()

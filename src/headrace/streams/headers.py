r"""A message's raw header block: `NATS/1.0\r\nName: value\r\n…\r\n\r\n`, read and changed as bytes.

nats-server does not parse headers into a map: it looks for a name at the start of a line, in its exact case,
and uses the first. It stores everything else as it was sent. So do we. An empty block is b"".
"""

from __future__ import annotations

from headrace.config.options import API_LEVEL

VERSION = b"NATS/1.0"
LINE_END = b"\r\n"
_FIRST_LINE = VERSION + LINE_END
_EMPTY_LENGTH = len(_FIRST_LINE) + len(LINE_END)

MSG_ID = b"Nats-Msg-Id"
EXPECTED_STREAM = b"Nats-Expected-Stream"
EXPECTED_LAST_SEQUENCE = b"Nats-Expected-Last-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE = b"Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT = b"Nats-Expected-Last-Subject-Sequence-Subject"
EXPECTED_LAST_MSG_ID = b"Nats-Expected-Last-Msg-Id"
EXPECTED_PREFIX = b"Nats-Expected-"
STREAM_SOURCE = b"Nats-Stream-Source"
ROLLUP = b"Nats-Rollup"
TTL = b"Nats-TTL"
MARKER_REASON = b"Nats-Marker-Reason"
INCREMENT = b"Nats-Incr"
COUNTER_SOURCES = b"Nats-Counter-Sources"
BATCH_ID = b"Nats-Batch-Id"
BATCH_SEQUENCE = b"Nats-Batch-Sequence"
BATCH_COMMIT = b"Nats-Batch-Commit"
BATCH_PREFIX = b"Nats-Batch-"
SCHEDULE = b"Nats-Schedule"
SCHEDULE_TIME_ZONE = b"Nats-Schedule-Time-Zone"
SCHEDULE_TTL = b"Nats-Schedule-TTL"
SCHEDULE_ROLLUP = b"Nats-Schedule-Rollup"
SCHEDULE_TARGET = b"Nats-Schedule-Target"
SCHEDULE_SOURCE = b"Nats-Schedule-Source"
SCHEDULE_NEXT = b"Nats-Schedule-Next"
SCHEDULER = b"Nats-Scheduler"
REQUIRED_API_LEVEL = b"Nats-Required-Api-Level"
CLIENT_INFO = b"Nats-Request-Info"
KEY_VALUE_OPERATION = b"KV-Operation"


def get(headers: bytes, name: bytes) -> bytes | None:
    """The first value of that name, without leading spaces; None if there is no such header."""
    if name not in headers or (at := _find(headers, name)) < 0:
        return None
    start = at + len(name) + 1
    end = headers.find(LINE_END, start)
    return headers[start : end if end >= 0 else len(headers)].lstrip(b" ")


def text(headers: bytes, name: bytes) -> bytes:
    """The value, or b"" if it is missing or empty: for headers where both mean the same."""
    return (get(headers, name) or b"") if name in headers else b""


def append(headers: bytes, name: bytes, value: bytes) -> bytes:
    """The block with one more header at its end. Line ends in the value become spaces."""
    value = value.replace(b"\r", b" ").replace(b"\n", b" ").strip(b" \t")
    start = headers[: -len(LINE_END)] if len(headers) > len(LINE_END) else _FIRST_LINE
    return start + name + b": " + value + LINE_END + LINE_END


def replace(headers: bytes, name: bytes, value: bytes) -> bytes:
    """The block with the first header of that name changed in place, or added at the end."""
    at = _find(headers, name)
    if at < 0:
        return append(headers, name, value)
    start = at + len(name) + 1
    start += headers[start : start + 1] == b" "
    end = headers.find(b"\r", start)
    return headers if end < 0 else headers[:start] + value + headers[end:]


def remove(headers: bytes, name: bytes) -> bytes:
    """The block without any header of that name; b"" if none is left."""
    while (at := _find(headers, name)) >= 0:
        shorter = _without_line(headers, at)
        if shorter == headers:  # the line has no end
            break
        headers = shorter
    return headers


def remove_prefixed(headers: bytes, prefix: bytes) -> bytes:
    """The block without the headers whose name has this prefix; b"" if none is left."""
    start = 0
    while (at := headers.find(b"\n" + prefix, start)) >= 0:
        shorter = _without_line(headers, at + 1)
        if shorter == headers:
            break
        headers, start = shorter, at
    return headers


def strip_status(headers: bytes) -> bytes:
    """The block without the status of its first line, as in `NATS/1.0 503`, which is not stored."""
    end = headers.find(b"\r")
    if not headers.startswith(VERSION) or end <= len(VERSION):
        return headers
    headers = VERSION + headers[end:]
    return b"" if len(headers) == _EMPTY_LENGTH else headers


def parse_sequence(digits: bytes) -> int:
    """Digits as an unsigned 64-bit number. Anything else becomes the largest one, which no message has."""
    if not digits.isdigit():
        return 2**64 - 1
    return int(digits) % 2**64 if len(digits) <= 40 else 2**64 - 1


def is_level_too_high(headers: bytes) -> bool:
    """Whether the message asks for a newer JetStream API than this one, or for no number at all."""
    level = text(headers, REQUIRED_API_LEVEL)
    if not level:
        return False
    digits = level[1:] if level[:1] in (b"+", b"-") else level
    if level.startswith(b"-") and digits.isdigit():
        return False
    return not digits.isdigit() or len(digits) > 9 or int(digits) > API_LEVEL


def _without_line(headers: bytes, at: int) -> bytes:
    end = headers.find(LINE_END, at)
    if end < 0:
        return headers
    headers = headers[:at] + headers[end + len(LINE_END) :]
    return b"" if len(headers) <= _EMPTY_LENGTH else headers


def _find(headers: bytes, name: bytes) -> int:
    at = headers.find(LINE_END + name + b":")
    return at + len(LINE_END) if at >= 0 else -1

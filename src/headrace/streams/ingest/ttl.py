"""Nats-TTL: how long a message lives, whatever the stream's max_age says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.config.durations import parse_duration
from headrace.go_formats import NANOSECONDS
from headrace.streams import headers
from headrace.streams.errors import ApiError, api_error

if TYPE_CHECKING:
    from headrace.streams.config import StreamConfig

NEVER = -1
_UNIT = 2**64


def parse_ttl(value: bytes) -> int:
    """Seconds; NEVER for `never`.

    A number without a unit is seconds. Raises ApiError if it is less than one.
    """
    text = value.decode("utf-8", "replace")
    if text.lower() == "never":
        return NEVER
    try:
        seconds = parse_duration(text)
    except ValueError:
        return _parse_seconds(value)
    if seconds < 1:
        raise api_error("message_ttl_invalid")
    return int(seconds)


def _parse_seconds(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > 40:
        raise api_error("message_ttl_invalid")
    seconds = int(digits) % _UNIT
    if seconds >= _UNIT // 2:  # negative in 64 bits
        raise api_error("message_ttl_invalid")
    return seconds


def read_ttl(block: bytes) -> int:
    """The message's own lifetime in seconds, NEVER, or 0 if it has none. Raises ApiError if it is invalid."""
    value = headers.text(block, headers.TTL)
    return parse_ttl(value) if value else 0


def has_valid_ttl(block: bytes) -> bool:
    """Whether there is a TTL at all; an invalid one does not count: it is reported later."""
    try:
        return read_ttl(block) != 0
    except ApiError:
        return False


def raise_to_marker(block: bytes, ttl: int, config: StreamConfig) -> tuple[bytes, int]:
    """The headers and the TTL, no shorter than that of delete markers.

    A message that expired before an earlier marker would leave no marker of its own. If a subject has at most
    one message there is no earlier marker.
    """
    lowest = config.subject_delete_marker_ttl // NANOSECONDS
    if not 0 < ttl < lowest or config.max_msgs_per_subject == 1:
        return block, ttl
    return headers.append(headers.remove(block, headers.TTL), headers.TTL, b"%d" % lowest), lowest

"""Counters: a stream whose messages are increments (Nats-Incr), and whose payloads are the sums so far.

The payload `{"val":"123"}` of a subject's last message is its total, a number of any length. A message that
comes from another counter stream has that stream's total: the difference from its previous total is added,
and Nats-Counter-Sources remembers the total by stream and subject.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from headrace.streams import headers
from headrace.streams.errors import api_error
from headrace.streams.ingest.expectations import expects_anything
from headrace.streams.ingest.rollup import read_rollup
from headrace.unreadable import UNREADABLE_JSON

if TYPE_CHECKING:
    from headrace.engine.store.log import Log
    from headrace.streams.config import StreamConfig
    from headrace.streams.ingest.publication import Publication

Sources = dict[str, dict[str, str]]


_INTEGER = re.compile(rb"[+-]?[0-9]+")
_DIGITS = 4000
_CHUNK = 10**_DIGITS  # Python itself refuses more than some thousand digits at once


class Value(msgspec.Struct):
    val: str = ""


_VALUE = msgspec.json.Decoder(Value)
_SOURCES = msgspec.json.Decoder(Sources)


@dataclass(slots=True)
class Total:
    """A subject's counter: its sum, and what came from where."""

    sum: int = 0
    sources: Sources = field(default_factory=dict)


def check_increment(publication: Publication, config: StreamConfig) -> None:
    """Read Nats-Incr into the publication. Raises ApiError if it is not a number, or not allowed here."""
    block = publication.headers
    text = headers.text(block, headers.INCREMENT)
    if not text:
        return
    publication.increment = parse_number(text)
    if publication.increment is None:
        raise api_error("message_incr_invalid")
    if publication.is_sourced:
        return
    if not config.allow_msg_counter:
        raise api_error("message_incr_disabled")
    if publication.payload:
        raise api_error("message_incr_payload")
    if read_rollup(block) or expects_anything(block):
        raise api_error("message_incr_invalid")


def read_total(log: Log, subject: bytes) -> Total:
    """The counter in the subject's last message. Raises ApiError if that is not a counter."""
    seq = log.last(subject)
    message = log.get(seq) if seq else None
    if message is None:
        return Total()
    total = Total(_value(message.payload))
    sources = headers.text(message.headers, headers.COUNTER_SOURCES)
    if sources:
        try:
            total.sources = _SOURCES.decode(sources)
        except UNREADABLE_JSON:
            raise api_error("message_counter_broken") from None
    return total


def count(publication: Publication, total: Total) -> Total:
    """The new total; the publication's payload and headers become those to store."""
    increment = publication.increment or 0
    sources = {stream: dict(subjects) for stream, subjects in total.sources.items()}
    origin = headers.text(publication.headers, headers.STREAM_SOURCE)
    if origin:
        increment = _difference(publication, origin.decode("utf-8", "replace"), sources)
        publication.headers = headers.replace(
            publication.headers, headers.INCREMENT, format_number(increment)
        )
    total = Total(total.sum + increment, sources)
    publication.payload = b'{"val":"%b"}' % format_number(total.sum)
    if sources:
        ordered = {stream: dict(sorted(sources[stream].items())) for stream in sorted(sources)}
        block = msgspec.json.encode(ordered)
        publication.headers = headers.replace(publication.headers, headers.COUNTER_SOURCES, block)
    return total


def read_value(payload: bytes) -> str:
    """The sum as the acknowledgement shows it."""
    try:
        return _VALUE.decode(payload).val
    except UNREADABLE_JSON:
        return ""


def _difference(publication: Publication, origin: str, sources: Sources) -> int:
    fields = origin.split(" ")
    subject = fields[4] if len(fields) >= 5 else publication.subject.decode("utf-8", "replace")
    now = _value(publication.payload)
    seen = sources.setdefault(fields[0], {})
    before = parse_number(seen.get(subject, "").encode()) or 0
    seen[subject] = format_number(now).decode()
    return now - before


def _value(payload: bytes) -> int:
    try:
        text = _VALUE.decode(payload).val
    except UNREADABLE_JSON:
        raise api_error("message_counter_broken") from None
    return parse_number(text.encode()) or 0


def parse_number(text: bytes) -> int | None:
    """None if it is not a decimal number."""
    if _INTEGER.fullmatch(text) is None:
        return None
    digits = text.lstrip(b"+-")
    value = 0
    for start in range(0, len(digits), _DIGITS):
        part = digits[start : start + _DIGITS]
        value = value * 10 ** len(part) + int(part)
    return -value if text.startswith(b"-") else value


def format_number(value: int) -> bytes:
    sign, rest = (b"-", -value) if value < 0 else (b"", value)
    chunks = []
    while rest >= _CHUNK:
        rest, chunk = divmod(rest, _CHUNK)
        chunks.append(b"%0*d" % (_DIGITS, chunk))
    return sign + b"%d" % rest + b"".join(reversed(chunks))

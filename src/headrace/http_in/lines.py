"""Many messages in one body: one JSON object per line.

{"subject": "orders.eu", "json": {"id": 7}, "id": "order-7"}
{"data": "text", "headers": {"Trace-Id": "1"}}
{"data_base64": "AAEC"}
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterator

import msgspec

from headrace.http_in.message import BadMessage, Message, check_subject, encode_headers
from headrace.streams.headers import MSG_ID
from headrace.unreadable import UNREADABLE_JSON

MAX_LINES = 10_000
CONTENT_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """All fields are optional; of the three kinds of payload, at most one."""

    subject: str | None = None
    data: str | None = None
    data_base64: str | None = None
    json: msgspec.Raw = msgspec.Raw()
    headers: dict[str, str | list[str]] = {}
    id: str | None = None


_DECODER = msgspec.json.Decoder(Line)


def split_lines(body: bytes) -> Iterator[bytes]:
    """Those that are not empty."""
    begin = 0
    while begin < len(body):
        end = body.find(b"\n", begin)
        end = len(body) if end < 0 else end
        if line := body[begin:end].strip():
            yield line
        begin = end + 1


def read_line(line: bytes, subject: bytes) -> Message:
    """`subject` is for lines that have none. Raises BadMessage."""
    try:
        read = _DECODER.decode(line)
    except UNREADABLE_JSON as error:
        reason = str(error) if isinstance(error, msgspec.MsgspecError) else "it cannot be read"
        raise BadMessage(f"the line is not a message in JSON: {reason}") from None
    try:
        headers = [(name.encode(), value) for name, values in read.headers.items() for value in _each(values)]
        if read.id is not None:
            headers.append((MSG_ID, read.id.encode()))
        chosen = check_subject(subject if read.subject is None else read.subject.encode())
        return Message(chosen, _payload(read), encode_headers(headers))
    except UnicodeEncodeError:
        raise BadMessage("the line has text that is not valid Unicode") from None


def _each(values: str | list[str]) -> list[bytes]:
    return [value.encode() for value in ([values] if isinstance(values, str) else values)]


def _payload(read: Line) -> bytes:
    given = [read.data is not None, read.data_base64 is not None, bool(read.json)]
    if sum(given) > 1:
        raise BadMessage("a line has one of data, data_base64 and json")
    if read.data is not None:
        return read.data.encode()
    if read.data_base64 is not None:
        try:
            return b64decode(read.data_base64, validate=True)
        except (binascii.Error, ValueError):
            raise BadMessage("data_base64 is not base64") from None
    return bytes(read.json)

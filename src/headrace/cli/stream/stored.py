"""Stored messages one by one: what `view` and `get` read, and how they are shown.

They ask for messages with `STREAM.MSG.GET`, without a consumer: so they can look into work queues, too, and
nothing is acknowledged or removed. A time is found by bisection, because messages are stored in the order of
their times.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.cli.human import ago, moment
from headrace.cli.output import one_line, plural, printable
from headrace.cli.stream.api import Api
from headrace.client import ApiError
from headrace.client.api import parse_time
from headrace.client.errors import MESSAGE_NOT_FOUND

INDENT = "  "
SHOWN_BINARY_BYTES = 256
LINE_BYTES = 16
ALL = ">"

Headers = list[tuple[str, str]]


@dataclass(frozen=True)
class StoredMessage:
    document: dict[str, Any]
    """As in the API: `seq`, `time`, `subject`, and `hdrs` and `data` in base64."""

    @property
    def seq(self) -> int:
        return int(self.document["seq"])

    @property
    def subject(self) -> str:
        return str(self.document["subject"])

    @property
    def time(self) -> str:
        return str(self.document["time"])

    @property
    def time_ns(self) -> int:
        return parse_time(self.time)

    @property
    def data(self) -> bytes:
        return base64.b64decode(self.document.get("data") or "")

    @property
    def headers(self) -> Headers:
        return parse_headers(base64.b64decode(self.document.get("hdrs") or ""))


def parse_headers(block: bytes) -> Headers:
    """Pairs in their order; a name may come twice. The first line is the version."""
    lines = block.decode(errors="replace").split("\n")[1:]
    pairs = (line.removesuffix("\r").partition(":") for line in lines if ":" in line)
    return [(name, value.strip(" \t")) for name, _, value in pairs]


def get_message(api: Api, stream: str, **request: Any) -> StoredMessage | None:
    """The message that a request names, or None if there is none."""
    try:
        answer = api.call(f"STREAM.MSG.GET.{stream}", request, what=f"stream {stream}")
    except ApiError as error:
        if error.err_code == MESSAGE_NOT_FOUND:
            return None
        raise
    return StoredMessage(answer["message"])


def next_message(api: Api, stream: str, seq: int, subject: str = ALL) -> StoredMessage | None:
    """The first one at this sequence or later that matches the subject."""
    return get_message(api, stream, seq=seq, next_by_subj=subject)


def messages(api: Api, stream: str, first: int, last: int, subject: str = ALL) -> Iterator[StoredMessage]:
    """Those with first <= seq <= last, in order."""
    seq = max(first, 1)
    while seq <= last:
        message = next_message(api, stream, seq, subject)
        if message is None or message.seq > last:
            return
        yield message
        seq = message.seq + 1


def seq_since(api: Api, stream: str, state: dict[str, Any], time_ns: int) -> int:
    """The first sequence stored at this time or later; one after the last if there is none."""
    low, high = int(state["first_seq"]), int(state["last_seq"]) + 1
    while low < high:
        middle = (low + high) // 2
        found = next_message(api, stream, middle)
        if found is None or found.seq >= high or found.time_ns >= time_ns:
            high = middle
        else:
            low = found.seq + 1
    return low


def last_messages(
    api: Api, stream: str, state: dict[str, Any], count: int, subject: str = ALL
) -> list[StoredMessage]:
    """The last `count` that match: blocks from the end, each twice as long, until there are enough."""
    found: list[StoredMessage] = []
    end, block = int(state["last_seq"]), count
    while len(found) < count and end >= int(state["first_seq"]):
        start = max(end - block + 1, int(state["first_seq"]))
        found = [*messages(api, stream, start, end, subject), *found]
        end, block = start - 1, 2 * block
    return found[-count:]


# -- for people ---------------------------------------------------------------------------------------------


def message_lines(message: StoredMessage) -> Iterator[str]:
    yield f"[{message.seq}] {one_line(message.subject)}  {moment(message.time)} ({ago(message.time)})"
    for name, value in message.headers:
        yield f"{INDENT}{one_line(name)}: {one_line(value)}"
    data = message.data
    if message.headers and data:
        yield ""
    for line in data_lines(data):
        yield f"{INDENT}{line}"
    yield ""


def data_lines(data: bytes) -> Iterator[str]:
    """Text as it is, without control characters; anything else in hexadecimal."""
    try:
        yield from printable(data.decode()).splitlines()
    except UnicodeDecodeError:
        shown = data[:SHOWN_BINARY_BYTES]
        for start in range(0, len(shown), LINE_BYTES):
            part = shown[start : start + LINE_BYTES]
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
            yield f"{start:08x}  {part.hex(' '):<47}  {text}"
        if len(data) > len(shown):
            yield f"… {plural(len(data) - len(shown), 'more byte')}"

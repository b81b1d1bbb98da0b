"""Answers of JetStream without what must differ between two servers: ids and times.

A message keeps its subject, reply, headers and payload. JSON payloads are compared as values, each key on a
line of its own, so that a difference names the field. In them, and in acknowledgement subjects and headers,
times, durations since some time, ids of servers, clients and advisories, and names that the server made up
become placeholders. A name is made up if it occurs nowhere in what the session sends. An archive is shown as
what is in it.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from tests.interop.normalise import split_frames
from tests.streams.backup.archives import entries, expand

ZERO_TIME = "0001-01-01T00:00:00Z"
TIMES = frozenset(
    {
        "created",
        "ts",
        "first_ts",
        "last_ts",
        "pinned_ts",
        "time",
        "timestamp",
        "last_active",
        "start",
        "stop",
        "end",
    }
)
# Since when something has been idle, or how long something will last. -1 is "never".
DURATIONS = frozenset({"active", "pause_remaining", "rtt", "ack_time"})
IDS = frozenset({"id", "server", "server_id", "leader", "pinned_client_id", "pinned_id"})
NAMES = frozenset({"name", "consumer", "durable_name"})

UNORDERED = frozenset({"sources"})  # nats-server keeps them in a map
WRAPPED = frozenset({"request", "response"})  # JSON within a string of JSON

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
_SNAPSHOT = re.compile(rb"\$JS\.SNAPSHOT\.(ACK|RESTORE)\.([^.\s]+)\.\w+")
_RESTORE_SUBJECT = re.compile(rb'"deliver_subject": ?"(\$JS\.SNAPSHOT\.RESTORE\.[^"]+)"')
_ARCHIVE = b"\xff\x06\x00\x00"
_ACK = re.compile(rb"\$JS\.ACK\.([^.\s]+)\.([^.\s]+)\.(\d+)\.(\d+)\.(\d+)\.(\d+)\.(\d+)")
# An empty reply leaves two spaces: nats-server answers a few requests that way.
_MESSAGE = re.compile(rb"MSG (\S+) (\S+) (?:(\S+) | )?(\d+)\r\n")
_MESSAGE_WITH_HEADERS = re.compile(rb"HMSG (\S+) (\S+) (?:(\S+) | )?(\d+) (\d+)\r\n")
_HEADERS = (
    (re.compile(rb"(?im)^(Nats-Time-Stamp: ).*?\r$"), rb"\1<time>\r"),
    (re.compile(rb"(?im)^(Nats-Pin-Id: ).*?\r$"), rb"\1<id>\r"),
    # Where a sourced message comes from ends with a mark of that stream's creation.
    (re.compile(rb"(?im)^(Nats-Stream-Source: .* )\w{8}\r$"), rb"\1<id>\r"),
)


class StreamsNormaliser:
    def __init__(self, sent: bytes) -> None:
        self._sent = sent

    def normalise(self, answer: bytes, *, any_order: bool = False) -> bytes:
        frames = [frame for frame in split_frames(answer) if frame not in (b"PONG\r\n", b"PING\r\n")]
        shown = [self._frame(frame) for frame in frames if not frame.startswith(b"INFO ")]
        return b"".join(sorted(shown, key=_order) if any_order else shown)

    def _frame(self, frame: bytes) -> bytes:
        plain, with_headers = _MESSAGE.match(frame), _MESSAGE_WITH_HEADERS.match(frame)
        head = with_headers or plain
        if head is None:
            return frame
        subject, sid, reply = head.group(1, 2, 3)
        body = frame[head.end() : -2]
        size = int(head.group(4)) if with_headers else 0
        headers, payload = body[:size], body[size:]
        headers = _hide_headers(headers)
        line = b" ".join(
            [b"MESSAGE", self._subject(subject), sid, *([self._subject(reply)] if reply else [])]
        )
        return line + b"\r\n" + headers + self._payload(payload) + b"\r\n"

    def _subject(self, subject: bytes) -> bytes:
        def hide(match: re.Match[bytes]) -> bytes:
            stream, consumer, *numbers = match.groups()
            deliveries, stream_seq, consumer_seq, _, pending = numbers
            shown = [stream, self._name(consumer.decode()).encode(), deliveries, stream_seq, consumer_seq]
            return b".".join([b"$JS.ACK", *shown, b"<time>", pending])

        subject = _SNAPSHOT.sub(rb"$JS.SNAPSHOT.\1.\2.<id>", _ACK.sub(hide, subject))
        if subject.startswith(b"$JS.EVENT."):
            tokens = subject.split(b".")
            return b".".join(token if self._is_known(token) else b"<generated>" for token in tokens)
        return subject

    def _is_known(self, token: bytes) -> bool:
        return token in self._sent or token.isupper() or not token.isalnum()

    def _payload(self, payload: bytes) -> bytes:
        if payload.startswith(_ARCHIVE):
            shown = [
                (name, seq, head, self._payload(body)) for name, seq, head, body in entries(expand(payload))
            ]
            return b"".join(b"%b %d %b\n%b\n" % one for one in shown)
        if not payload.startswith((b"{", b"[")):
            return payload
        try:
            value = json.loads(payload)
        except ValueError:
            return payload
        return json.dumps(self._value("", value), sort_keys=True, indent=1).encode()

    def _value(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._value(name, item) for name, item in value.items()}
        if isinstance(value, list):
            items = [self._value(key, item) for item in value]
            return sorted(items, key=json.dumps) if key in UNORDERED else items
        if key in TIMES and isinstance(value, str) and value != ZERO_TIME and _TIME.fullmatch(value):
            return "<time>"
        if key in DURATIONS and isinstance(value, str | int) and value not in (-1, 0):
            return "<duration>"
        if key in IDS and isinstance(value, str | int):
            return f"<{key}>"
        if key in WRAPPED and isinstance(value, str) and value.startswith("{"):
            return self._value(key, json.loads(value))
        if key == "hdrs" and isinstance(value, str):
            return _hide_headers(base64.b64decode(value)).decode(errors="replace")
        if key == "Timestamp":  # of a delivery, in an archive
            return "<time>"
        if key == "deliver_subject" and isinstance(value, str):
            return self._subject(value.encode()).decode()
        if key in NAMES and isinstance(value, str):
            return self._name(value)
        return value

    def _name(self, name: str) -> str:
        return name if name.encode() in self._sent else "<generated>"


def find_restore_subject(received: bytes) -> bytes:
    """Where the chunks of a restore go; empty if there is no such answer."""
    found = _RESTORE_SUBJECT.search(received)
    return found[1] if found else b""


def _hide_headers(headers: bytes) -> bytes:
    for pattern, replacement in _HEADERS:
        headers = pattern.sub(replacement, headers)
    return headers


def _order(frame: bytes) -> tuple[bytes, bytes]:
    """Messages for one subscription keep their order, but for advisories, which have none."""
    words = frame.partition(b"\r\n")[0].split(b" ")
    sid = words[2] if len(words) > 2 else b""
    return sid, frame if frame.startswith(b"MESSAGE $JS.EVENT.") else b""

"""Messages as rows of a file: what `export` writes and `import` reads, in NDJSON or Parquet.

    {"stream": "ORDERS", "seq": 7, "time": "2026-11-16T20:30:00.123456Z", "subject": "orders.eu",
     "headers": [["Region", "eu"]], "data": "hello"}          # one line; data_base64 where it is not UTF-8

Every imported message carries an id that is made of where it came from, so that a stream stores it once,
however often the file is imported: as its Nats-Msg-Id, or, if it has one of its own, as Headrace-Import.
`export` leaves those out, so what was imported is exported as it was. A message so large that the id has no
room next to it goes without; it is recognized by its content.
"""

from __future__ import annotations

import hashlib
from array import array
from itertools import accumulate
from typing import NamedTuple

from headrace.client.columns import Columns
from headrace.client.outgoing import Offsets, Outgoing, TextColumn

MESSAGE_ID = "Nats-Msg-Id"
IMPORT_HEADER = "Headrace-Import"
IMPORT_PREFIX = "headrace-import:"
# Conditions of a publish and what a stream noted of its sources, not properties of a message: elsewhere they
# would fail.
LEFT_OUT = ("Nats-Expected-", "Nats-Batch-", "Nats-Stream-Source", "Nats-Counter-Sources")
VERSION_BYTES = len("NATS/1.0\r\n\r\n")
SEPARATOR_BYTES = len(": \r\n")
LONGEST_ID_BYTES = 512

Headers = list[tuple[str, str]]


class Row(NamedTuple):
    """A message in a file. `number` is its line, or its row, from 1."""

    number: int
    stream: str
    seq: int
    time_us: int
    subject: str
    headers: Headers
    data: bytes

    @property
    def import_id(self) -> str:
        """The same whenever, and from whichever format, this row is imported."""
        if self.stream and self.seq:
            return f"{IMPORT_PREFIX}{self.stream}:{self.seq}:{self.time_us}"
        content = repr((self.number, self.subject, self.headers)).encode(errors="replace") + self.data
        return f"{IMPORT_PREFIX}:{hashlib.blake2b(content, digest_size=16).hexdigest()}"


def rows_of_columns(stream: str, columns: Columns) -> list[Row]:
    """The rows that the client has read; the columns are empty afterwards."""
    count, header_count, buffers = columns.take()
    views: list[memoryview] = [memoryview(buffer) for buffer in buffers]
    subjects = _texts(views[0], views[1], count)
    payloads = _slices(views[2], views[3], count)
    header_ends = views[4].cast("i").tolist()
    keys, values = _texts(views[5], views[6], header_count), _texts(views[7], views[8], header_count)
    pairs = list(zip(keys, values, strict=True))
    seqs, times = views[9].cast("q").tolist(), views[10].cast("q").tolist()
    return [
        Row(
            seqs[place],
            stream,
            seqs[place],
            times[place],
            subjects[place],
            exported_headers(pairs[header_ends[place] : header_ends[place + 1]]),
            payloads[place],
        )
        for place in range(count)
    ]


def exported_headers(headers: Headers) -> Headers:
    """Without what only an import has added."""
    return [pair for pair in headers if not is_import_id(*pair)]


def is_import_id(name: str, value: str) -> bool:
    return name in (MESSAGE_ID, IMPORT_HEADER) and value.startswith(IMPORT_PREFIX)


def imported_headers(row: Row, max_payload: int) -> Headers:
    """A message with an id of its own keeps it."""
    if has_room(row, max_payload):
        return [(MESSAGE_ID, row.import_id)]
    kept = [(name, value) for name, value in row.headers if not name.startswith(LEFT_OUT)]
    has_own = any(name == MESSAGE_ID and value for name, value in kept)
    marked = [*kept, (IMPORT_HEADER if has_own else MESSAGE_ID, row.import_id)]
    return marked if size_of_headers(marked) + len(row.data) <= max_payload else kept


def size_of_headers(headers: Headers) -> int:
    """In bytes, as they are sent."""
    sizes = (len(name.encode()) + len(value.encode()) + SEPARATOR_BYTES for name, value in headers)
    return VERSION_BYTES + sum(sizes) if headers else 0


def has_room(row: Row, max_payload: int) -> bool:
    """Whether its id fits for certain, so that nobody has to look closer."""
    return not row.headers and len(row.data) + LONGEST_ID_BYTES <= max_payload


def marks_of(subject: str, headers: Headers, data: bytes, max_payload: int) -> set[str]:
    """By which an imported message is recognized: its id, or its content if that leaves no room for one."""
    ids = {value for name, value in headers if is_import_id(name, value)}
    if not ids and len(data) + LONGEST_ID_BYTES > max_payload:
        return {hashlib.blake2b(f"{subject} ".encode(errors="replace") + data, digest_size=16).hexdigest()}
    return ids


def marks_of_row(row: Row, max_payload: int) -> set[str]:
    if has_room(row, max_payload):
        return {row.import_id}
    return marks_of(row.subject, imported_headers(row, max_payload), row.data, max_payload)


def outgoing(rows: list[Row], max_payload: int) -> Outgoing:
    """The rows as the client sends them."""
    headers = [imported_headers(row, max_payload) for row in rows]
    pairs = [pair for some in headers for pair in some]
    return Outgoing(
        len(rows),
        _column([row.subject.encode() for row in rows]),
        _column([row.data for row in rows]),
        header_lists=Offsets(len(rows), 0, None, _offsets(headers)),
        keys=_column([name.encode() for name, _ in pairs]),
        values=_column([value.encode() for _, value in pairs]),
    )


def _column(texts: list[bytes]) -> TextColumn:
    return TextColumn(len(texts), 0, None, _offsets(texts), b"".join(texts))


def _offsets(items: list[bytes] | list[Headers]) -> array[int]:
    return array("i", accumulate(map(len, items), initial=0))


def _slices(offsets: memoryview, data: memoryview, count: int) -> list[bytes]:
    ends, whole = offsets.cast("i").tolist(), bytes(data)
    return [whole[ends[place] : ends[place + 1]] for place in range(count)]


def _texts(offsets: memoryview, data: memoryview, count: int) -> list[str]:
    return [text.decode() for text in _slices(offsets, data, count)]

"""What a server sends to our client: rows of a stream into columns, acknowledgements; and columns into
frames.

    byte 0    bits 0 and 1: which of the three; the others: options
    byte 1    how the rest is cut
    rest      what the server sends, or the buffers of an Arrow array

Right is: only BadFrame is raised; offsets rise and end where the data ends, and text is UTF-8, so that Arrow
may have it; what is encoded can be read again. One input in four is read in one piece and cut: rows, other
frames and errors are the same.
"""

from __future__ import annotations

import socket
import struct
from itertools import pairwise
from typing import Any
from zlib import crc32

from headrace.client.columns import Columns
from headrace.client.flight import Flight
from headrace.client.frames import BadFrame, Event, Frames
from headrace.client.outgoing import BadRow, Offsets, Outgoing, TextColumn
from tests.fuzz.cuts import cut

SID = 7
COMPARED_EVERY = 4
BAD = ("bad frame",)
OURS, THEIRS = socket.socketpair()
RECEIVED = memoryview(bytearray(1 << 16))
THEIRS.setblocking(False)
OURS.setblocking(False)
TEXT_PARTS = (0, 5, 7)  # subjects, keys, values
DATA_PARTS = (2, *TEXT_PARTS)


def seen(event: Event) -> tuple[Any, ...]:
    return event.kind, event.sid, event.subject, event.reply, event.headers, event.payload


# -- rows


def read_rows(pieces: list[bytes], options: int) -> list[tuple[Any, ...]]:
    frames = Frames(payload_max=4096)
    columns = Columns(
        SID,
        first=1,
        last=1 << 40,
        batch_rows=1 + (options & 3),
        batch_bytes=1 << 12,
        headers=bool(options & 4),
    )
    columns.credit = 1 << 40
    found: list[tuple[Any, ...]] = []
    for piece in pieces:
        frames.feed(piece)
        while True:
            seen_before = columns.last_seq
            try:
                event = columns.read(frames, 0.0)
            except BadFrame:
                return [*found, batch(columns), BAD]
            if columns.full or columns.complete:
                found.append(batch(columns))
                if columns.complete:
                    return found
            elif event is not None:
                found.append(seen(event))
            elif columns.last_seq == seen_before:
                break
    return [*found, batch(columns)]


def batch(columns: Columns) -> tuple[Any, ...]:
    rows, header_count, buffers = columns.take()
    parts = [bytes(buffer) for buffer in buffers]
    for part in DATA_PARTS:
        count = header_count if part > 4 else rows
        offsets = struct.unpack(f"{count + 1}i", parts[part])
        assert list(offsets) == sorted(offsets)
        assert (offsets[0], offsets[-1]) == (0, len(parts[part + 1]))
        if part in TEXT_PARTS:
            for start, end in pairwise(offsets):
                parts[part + 1][start:end].decode()
    assert len(parts[9]) == len(parts[10]) == 8 * rows
    return rows, header_count, *parts


def check_rows(pieces: list[bytes], options: int, whole: bytes | None) -> None:
    rows = read_rows(pieces, options)
    assert whole is None or read_rows([whole], options) == rows


# -- acknowledgements


def text(values: list[bytes]) -> TextColumn:
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value))
    return TextColumn(len(values), 0, None, struct.pack(f"{len(ends)}i", *ends), b"".join(values))


IDS = [b"%d" % row for row in range(6)]
ROWS = Outgoing(len(IDS), b"s.a", text(IDS), msg_ids=text(IDS))


def settle(pieces: list[bytes], options: int) -> tuple[Any, ...]:
    frames = Frames(payload_max=4096)
    frames.attach(OURS.fileno())
    flight = Flight(SID, b"in.", limit=4, stream=b"S" if options & 1 else b"")
    flight.add(ROWS)
    events: list[tuple[Any, ...]] = []
    try:
        flight.run(frames, 0.0, False)
        for piece in pieces:
            frames.feed(piece)
            while (event := flight.run(frames, 0.0, True)) is not None:
                events.append(seen(event))
    except BadFrame:
        events.append(BAD)
    assert 0 <= flight.in_flight <= 4
    assert flight.duplicates <= flight.acked <= len(IDS)
    sent = receive()
    assert sent.count(b"HPUB s.a in.") == sent.count(b"\r\n\r\n")
    return events, flight.acked, flight.duplicates, flight.in_flight, flight.failures


def receive() -> bytes:
    pieces = []
    try:
        while True:
            pieces.append(bytes(RECEIVED[: THEIRS.recv_into(RECEIVED)]))
            if len(pieces[-1]) < len(RECEIVED):
                break
    except BlockingIOError:
        pass
    return b"".join(pieces)


def check_acknowledgements(pieces: list[bytes], options: int, whole: bytes | None) -> None:
    events = settle(pieces, options)[0]
    assert whole is None or settle([whole], options)[0] == events


# -- columns into frames


def check_encoding(data: bytes, options: int) -> None:
    """The data is the buffers of an array that somebody put together by hand."""
    rows = options & 7
    first = options >> 3 & 3
    size = 4 * (rows + first + 1)
    offsets, rest = data[:size], data[size:]
    validity = rest[:2] if options & 32 else None
    try:
        column = TextColumn(rows, first, validity, offsets, rest[2:])
        lists = Offsets(rows, first, validity, offsets)
        outgoing = Outgoing(
            rows, b"s", column, header_lists=lists, keys=column, values=column, msg_ids=column
        )
        outgoing.check(1 << 20)
    except (BadRow, ValueError):
        return
    frames = Frames()
    frames.attach(OURS.fileno())
    flight = Flight(SID, b"in.", limit=16)
    flight.add(outgoing)
    flight.run(frames, 0.0, False)
    sent = receive()
    for row in range(rows):
        head, _, sent = sent.partition(b"\r\n")
        words = head.split(b" ")
        assert words[:3] == [b"HPUB" if len(words) == 5 else b"PUB", b"s", b"in.%d" % row]
        length = int(words[-1])
        headers = sent[: int(words[3])] if len(words) == 5 else b"NATS/1.0\r\n\r\n"
        assert headers.startswith(b"NATS/1.0\r\n")
        assert headers.endswith(b"\r\n\r\n")
        assert sent[length : length + 2] == b"\r\n"
        sent = sent[length + 2 :]
    assert sent == b""


def check(data: bytes) -> None:
    if len(data) < 2:
        return
    kind, options, rest = data[0] & 3, data[0] >> 2, data[2:]
    if kind > 1:
        check_encoding(rest, options)
        return
    way = crc32(data) % COMPARED_EVERY
    whole = rest if way == 0 else None
    pieces = [rest] if way == 1 else cut(rest, data[1])
    (check_rows if kind == 0 else check_acknowledgements)(pieces, options, whole)

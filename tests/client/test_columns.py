"""The decoder on canned bytes: whole, byte by byte, in random pieces; and bytes that no server may send."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pytest

from headrace.client.columns import Columns
from headrace.client.frames import BadFrame, Event, Frames

SID = 7


class Row(NamedTuple):
    seq: int
    subject: str = "a.b"
    data: bytes = b""
    headers: Sequence[tuple[str, str]] = ()
    time: int = 1_700_000_000_123_456_789


def delivery(
    row: Row, pending: int = 5, prefix: str = "$JS.ACK.S.c", suffix: str = "", sid: int = SID
) -> bytes:
    reply = f"{prefix}.1.{row.seq}.{row.seq}.{row.time}.{pending}{suffix}"
    if not row.headers:
        return f"MSG {row.subject} {sid} {reply} {len(row.data)}\r\n".encode() + row.data + b"\r\n"
    block = "".join(["NATS/1.0\r\n", *(f"{key}: {value}\r\n" for key, value in row.headers), "\r\n"]).encode()
    line = f"HMSG {row.subject} {sid} {reply} {len(block)} {len(block) + len(row.data)}\r\n"
    return line.encode() + block + row.data + b"\r\n"


def decode(pieces: Iterable[bytes], **options: int) -> tuple[list[list[Row]], list[Event]]:
    """The batches, and the other frames."""
    frames = Frames()
    columns = Columns(SID, first=1, last=options.pop("last", 10**9), **options)
    columns.credit = 10**9
    batches, events = [], []
    for piece in pieces:
        frames.feed(piece)
        while True:
            event = columns.read(frames, 0.0)
            if columns.full:
                batches.append(rows_of(columns))
            elif event:
                events.append(event)
            else:
                break
    batches.append(rows_of(columns))
    return batches, events


def rows_of(columns: Columns) -> list[Row]:
    count, header_count, buffers = columns.take()
    views = [memoryview(buffer) for buffer in buffers]
    offsets = {index: views[index].cast("i").tolist() for index in (0, 2, 4, 5, 7)}
    seqs, times = views[9].cast("q").tolist(), views[10].cast("q").tolist()
    assert len(offsets[0]) == len(offsets[2]) == len(offsets[4]) == count + 1
    assert len(offsets[5]) == len(offsets[7]) == header_count + 1 == offsets[4][-1] + 1
    assert len(seqs) == len(times) == count

    def text(which: int, at: int) -> bytes:
        return bytes(views[which + 1][offsets[which][at] : offsets[which][at + 1]])

    return [
        Row(
            seqs[row],
            text(0, row).decode(),
            text(2, row),
            [
                (text(5, at).decode(), text(7, at).decode())
                for at in range(offsets[4][row], offsets[4][row + 1])
            ],
            times[row] * 1000 + 789,
        )
        for row in range(count)
    ]


ROWS = [
    Row(1, data=b"hello"),
    Row(2, subject="x", data=b"\r\nMSG a 7 0\r\n\r\n", headers=[("k", "v")]),
    Row(5, data=b"", headers=[("a", ""), ("b", "1:2"), ("a", "again")]),
    Row(6, subject="日本.ä", data=bytes(range(256)), headers=[("ключ", "значение")]),
    Row(7, data=b"y" * 10_000),
]
ROWS = [row._replace(headers=list(row.headers)) for row in ROWS]
WIRE = b"".join(
    [b"PING\r\n", *map(delivery, ROWS), delivery(Row(9), sid=8), b"INFO {}\r\n", b"+OK\r\n", b"-ERR 'x'\r\n"]
)
OTHERS = ["PING", "MSG", "INFO", "+OK", "-ERR"]


@pytest.mark.parametrize("size", [1, 2, 3, 17, 1000, len(WIRE)])
def test_rows_are_the_same_in_whatever_pieces_they_come(size: int) -> None:
    batches, events = decode(WIRE[at : at + size] for at in range(0, len(WIRE), size))
    assert batches == [ROWS]
    assert [event.kind for event in events] == OTHERS
    assert (events[1].sid, events[1].subject, events[4].payload) == (8, b"a.b", b"'x'")


@pytest.mark.parametrize("seed", range(30))
def test_rows_are_the_same_in_random_pieces_and_batches(seed: int) -> None:
    chance = random.Random(seed)
    cuts = sorted(chance.sample(range(1, len(WIRE)), chance.randint(1, 60)))
    pieces = [WIRE[start:end] for start, end in zip([0, *cuts], [*cuts, len(WIRE)], strict=True)]
    batch_rows = chance.randint(1, 6)
    batches, events = decode(pieces, batch_rows=batch_rows)
    assert [row for batch in batches for row in batch] == ROWS
    assert all(len(batch) == batch_rows for batch in batches[:-1])
    assert [event.kind for event in events] == OTHERS


def test_a_batch_is_bounded_in_bytes() -> None:
    rows = [Row(seq, data=b"x" * 400, headers=[("key", "v" * 97)]) for seq in range(1, 20)]
    batches, _ = decode([b"".join(map(delivery, rows))], batch_bytes=1000)
    assert [len(batch) for batch in batches] == [2] * 9 + [1]


def test_a_large_frame_in_small_pieces() -> None:
    row = Row(1, data=random.Random(1).randbytes(3 << 20), headers=[])
    wire = delivery(row)
    batches, _ = decode(wire[at : at + 70_000] for at in range(0, len(wire), 70_000))
    assert batches == [[row]]


@pytest.mark.parametrize(
    ("prefix", "suffix"),
    [
        ("$JS.ACK.S.c", ""),
        ("$JS.ACK.domain.hash.S.c", ""),
        ("$JS.ACK._.hash.S.c", ".random"),
    ],
)
def test_all_forms_of_a_reply_subject(prefix: str, suffix: str) -> None:
    frames, columns = Frames(), Columns(SID, first=1, last=100)
    frames.feed(delivery(Row(17, time=1_000_000_000_000_789), 42, prefix, suffix))
    columns.credit = 2
    assert columns.read(frames, 0.0) is None
    assert (columns.last_seq, columns.pending, columns.credit) == (17, 42, 1)
    assert rows_of(columns) == [Row(17, time=1_000_000_000_000_789, headers=[])]


def test_the_end_of_a_range() -> None:
    frames, columns = Frames(), Columns(SID, first=3, last=5)
    columns.credit = 10
    frames.feed(b"".join(delivery(Row(seq)) for seq in (3, 5, 6)))
    columns.read(frames, 0.0)
    assert columns.complete
    assert [row.seq for row in rows_of(columns)] == [3, 5]
    assert columns.read(frames, 0.0) is None

    beyond = Columns(SID, first=3, last=5)
    beyond.credit = 10
    beyond.read(frames, 0.0)
    assert beyond.complete
    assert rows_of(beyond) == []


def test_reading_stops_where_credit_is_low_and_where_nothing_follows() -> None:
    frames, columns = Frames(), Columns(SID, first=1, last=100)
    columns.credit, columns.low_credit = 4, 2
    frames.feed(b"".join(delivery(Row(seq)) for seq in range(1, 5)) + delivery(Row(5), pending=0))
    columns.read(frames, 0.0)
    assert (columns.rows, columns.credit) == (2, 2)
    columns.credit = 10
    columns.read(frames, 0.0)
    assert (columns.rows, columns.pending) == (5, 0)


def test_a_jump_is_noticed_once_per_batch() -> None:
    frames, columns = Frames(), Columns(SID, first=1, last=100)
    columns.credit = 100
    frames.feed(b"".join(delivery(Row(seq)) for seq in (1, 2, 5, 6, 9)))
    columns.read(frames, 0.0)
    assert columns.jumped_from == 2
    columns.take()
    assert columns.jumped_from == -1
    frames.feed(delivery(Row(12)))
    columns.read(frames, 0.0)
    assert columns.jumped_from == 9


def test_a_status_is_an_event_and_a_stored_one_is_a_row() -> None:
    status = b"NATS/1.0 409 Consumer Deleted\r\n\r\n"
    frames, columns = Frames(), Columns(SID, first=1, last=100)
    columns.credit = 100
    frames.feed(b"HMSG inbox.1 7 %d %d\r\n%b\r\n" % (len(status), len(status), status))
    event = columns.read(frames, 0.0)
    assert event is not None
    assert (event.sid, event.headers) == (SID, status)
    frames.feed(b"HMSG a 7 $JS.ACK.S.c.1.1.1.1000789.5 %d %d\r\n%b\r\n" % (len(status), len(status), status))
    assert columns.read(frames, 0.0) is None
    assert rows_of(columns) == [Row(1, subject="a", headers=[], time=1_000_789)]


def test_another_subscription_is_followed_and_the_old_one_is_not() -> None:
    frames, columns = Frames(), Columns(SID, first=1, last=100)
    columns.follow(9)
    columns.credit = 10
    frames.feed(delivery(Row(1)) + delivery(Row(2), sid=9))
    event = columns.read(frames, 0.0)
    assert event is not None
    assert event.sid == SID
    columns.read(frames, 0.0)
    assert columns.last_seq == 2


def test_sequences_of_every_length_with_different_prefixes() -> None:
    """The names before the numbers are remembered; another consumer has others, which may begin alike."""
    prefixes = ["$JS.ACK.S.c", "$JS.ACK.S.c", "$JS.ACK.S.cc", "$JS.ACK.hub.acc.S.c", "$JS.ACK.S.c"]
    seqs = sorted({10**digits + extra for digits in range(19) for extra in (-1, 0, 7)} - {0})
    rows = [Row(seq, time=max(1000, 9 * seq)) for seq in seqs if 9 * seq < 1 << 63]
    wire = b"".join(
        delivery(row, pending=row.seq, prefix=prefixes[number % len(prefixes)])
        for number, row in enumerate(rows)
    )
    [batch], events = decode([wire], last=1 << 62)
    assert not events
    assert [(row.seq, row.time) for row in batch] == [
        (row.seq, row.time // 1000 * 1000 + 789) for row in rows
    ]


@pytest.mark.parametrize("place", range(19))
@pytest.mark.parametrize("byte", [b"/", b":", b"\xb5", b"A"])
def test_a_time_with_something_else_than_digits_is_refused(place: int, byte: bytes) -> None:
    good = delivery(Row(1))
    bad = delivery(Row(2)).replace(b"1700000000123456789"[place:], byte + b"1700000000123456789"[place + 1 :])
    with pytest.raises(BadFrame, match="wrong number"):
        decode([good + bad])


ACK = b"$JS.ACK.S.c.1.1.1.1000.5"


@pytest.mark.parametrize(
    ("wire", "complaint"),
    [
        (b"MSG a 7\r\n", "too few or too many"),
        (b"MSG a 7 b c 0\r\n\r\n", "too few or too many"),
        (b"MSG a b c d e f g h i\r\n", "too few or too many"),
        (b"HMSG a 7 0\r\n\r\n", "too few or too many"),
        (b"MSG a x 0\r\n\r\n", "numbers"),
        (b"MSG a -1 0\r\n\r\n", "numbers"),
        (b"MSG a 7 -1\r\n\r\n", "numbers"),
        (b"MSG a 7 1x\r\n\r\n", "numbers"),
        (b"MSG a 7 99999999999999999999999\r\n\r\n", "numbers"),
        (b"MSG a 7 9223372036854775808\r\n\r\n", "numbers"),
        (b"HMSG a 7 5 4\r\nabcd\r\n", "numbers"),
        (b"MSG a 7 134217729\r\n", "larger than the protocol allows"),
        (b"MSG a 7 9223372036854775807\r\n", "larger than the protocol allows"),
        (b"MSG a 8 2\r\nabc\r\n", "does not end where its size says"),
        (b"NONSENSE\r\n", "unknown operation"),
        (b"PONGS\r\n", "unknown operation"),
        (b"PING\n", "CR LF"),
        (b"\r\n", "CR LF"),
        (b"x" * (1 << 20), "a line without an end"),
        (b"MSG a 7 0\r\n\r\n", "without its place in the stream"),
        (b"MSG a 7 inbox 0\r\n\r\n", "without its place in the stream"),
        (b"MSG a 7 $JS.ACK.S.c.1.1.1.1000 0\r\n\r\n", "tokens"),
        (b"MSG a 7 $JS.ACK.S.c.1.1.1.1000.0.x 0\r\n\r\n", "tokens"),
        (b"MSG a 7 $JS.ACK." + b"x." * 40 + b"y 0\r\n\r\n", "tokens"),
        (b"MSG a 7 $JS.ACK.S.c.1.x.1.1000.0 0\r\n\r\n", "wrong number"),
        (b"MSG a 7 $JS.ACK.S.c.1.0.1.1000.0 0\r\n\r\n", "wrong number"),
        (b"MSG a 7 $JS.ACK.S.c.1..1.1000.0 0\r\n\r\n", "wrong number"),
        (b"MSG a 7 $JS.ACK.S.c.1.1.1.99999999999999999999.0 0\r\n\r\n", "wrong number"),
        (b"MSG a 7 %b 0\r\n\r\nMSG a 7 %b 0\r\n\r\n" % (ACK, ACK), "older than the one before"),
    ],
)
def test_bad_frames_are_named(wire: bytes, complaint: str) -> None:
    with pytest.raises(BadFrame, match=complaint):
        decode([wire])
    with pytest.raises(BadFrame, match=complaint):
        decode(wire[at : at + 1] for at in range(len(wire))) if len(wire) < 1000 else decode([wire, b"y"])


@pytest.mark.parametrize("seed", range(200))
def test_damaged_bytes_raise_or_give_rows_but_never_crash(seed: int) -> None:
    chance = random.Random(seed)
    wire = bytearray(WIRE)
    for _ in range(chance.randint(1, 20)):
        wire[chance.randrange(len(wire))] = chance.choice(b" \r\n.:0123456789MSGHxyz\x00\xff")
    try:
        batches, _ = decode([bytes(wire)], batch_rows=chance.randint(1, 5))
    except BadFrame:
        return
    assert all(row.seq > 0 for batch in batches for row in batch)


@pytest.mark.parametrize(
    "options", [{"first": 5, "last": 4}, {"first": -1, "last": 4}, {"first": 1, "last": 1, "batch_rows": 0}]
)
def test_ranges_that_make_no_sense(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"range|batch"):
        Columns(SID, **options)


def test_buffers_outlive_the_columns() -> None:
    frames = Frames()
    columns = Columns(SID, first=1, last=9)
    columns.credit = 9
    frames.feed(delivery(Row(1, data=b"kept")))
    columns.read(frames, 0.0)
    buffers = columns.take()[2]
    del columns, frames
    assert bytes(memoryview(buffers[3])) == b"kept"
    with pytest.raises(TypeError, match="read-only"):
        memoryview(buffers[3])[0] = 1

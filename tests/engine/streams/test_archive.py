"""Archives of a log: what is written can be read again, in pieces of any size; everything else is refused."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from headrace.engine.streams.archive import MAGIC, ArchiveReader, Extract, encode_document
from headrace.engine.streams.s2 import Corrupt

ALL = Filter(())
END = encode_document(b"", 0, b"")
LARGEST = 1 << 20
Message = tuple[int, int, bytes, bytes, bytes]


def filled(messages: list[Message], directory: Path | None = None) -> Log:
    log = Log(str(directory) if directory else None, segment_bytes=4096)
    log.recover()
    for seq, time, subject, headers, payload in messages:
        log.append(subject, headers, payload, time, seq)
    log.commit()
    return log


def contents(log: Log) -> list[Message]:
    found = []
    seq = 1
    while (message := log.next(seq, ALL)) is not None:
        found.append((message.seq, message.time, message.subject, message.headers, message.payload))
        seq = message.seq + 1
    return found


def extract_all(log: Log, last: int, room: int = 500) -> bytes:
    extract = Extract(log, last)
    parts = []
    while not extract.is_done:
        parts.append(extract.next(room, 7))
    assert extract.file is None
    return b"".join(parts)


def read(archive: bytes, piece: int = 0) -> tuple[ArchiveReader, Log]:
    reader, log = ArchiveReader(), filled([])
    for start in range(0, len(archive), piece or len(archive) or 1):
        reader.feed(archive[start : start + (piece or len(archive))])
        while reader.store(log, LARGEST, 3) and not reader.is_complete:
            pass
    log.commit()
    return reader, log


SOME: list[Message] = [
    (
        seq,
        min(seq * 1000 - 5000 or 7, 1 << 60),
        b"s.%d" % (seq % 3),
        b"NATS/1.0\r\n\r\n" if seq % 2 else b"",
        b"x" * (seq * 37 % 500),
    )
    for seq in (1, 2, 3, 5, 8, 13, 21, 100, 1 << 31, 1 << 33, (1 << 64) - 2)
]


@pytest.mark.parametrize("piece", [0, 1, 13, 1000])
def test_messages_come_back_as_they_were(piece: int) -> None:
    log = filled(SOME)
    archive = MAGIC + extract_all(log, log.last_seq) + END
    reader, restored = read(archive, piece)
    assert reader.is_complete
    assert (reader.count, reader.last_seq) == (len(SOME), SOME[-1][0])
    assert contents(restored) == SOME


def test_an_extract_ends_at_its_last_sequence_and_passes_over_what_is_gone(tmp_path: Path) -> None:
    messages = [(seq, seq, b"s", b"", random.Random(seq).randbytes(200)) for seq in range(1, 101)]
    log = filled(messages, tmp_path)
    extract = Extract(log, 90)
    assert extract.file is not None
    assert Path(extract.file).exists()
    archive = MAGIC + extract.next(2000, 1000)
    log.append(b"s", b"", b"later", 1, 101)
    log.remove(50)
    log.compact(30)
    log.remove(90)
    log.commit()
    while not extract.is_done:
        archive += extract.next(2000, 1000)
    seqs = [message[0] for message in contents(read(archive + END)[1])]
    assert seqs[: seqs.index(30)] == list(range(1, seqs.index(30) + 1))
    assert seqs[seqs.index(30) :] == [seq for seq in range(30, 90) if seq != 50]
    log.close()


def test_an_extract_of_a_log_that_is_purged_ends() -> None:
    log = filled(SOME[:6])
    extract = Extract(log, 13)
    log.purge()
    log.commit()
    assert extract.next(1000, 1000) == b""
    assert extract.is_done


def test_a_damaged_message_is_no_part_of_an_archive(tmp_path: Path) -> None:
    log = filled([(1, 1, b"s", b"", b"a" * 300), (2, 1, b"s", b"", b"b" * 300)], tmp_path)
    (file,) = tmp_path.glob("*.log")
    log.close()
    file.write_bytes(file.read_bytes().replace(b"b" * 300, b"c" * 300))
    log = Log(str(tmp_path), segment_bytes=4096)
    log.recover()
    extract = Extract(log, 2)
    with pytest.raises(Corrupt, match="message 2 is damaged"):
        extract.next(10_000, 1000)
    log.close()


def test_documents_come_back_as_they_were() -> None:
    archive = (
        MAGIC
        + encode_document(b"state.json", -5, b"{}")
        + encode_document(b"consumers/C", 1 << 62, b"x" * 999)
    )
    reader = ArchiveReader()
    found = []
    for byte in archive:
        reader.feed(bytes([byte]))
        if (document := reader.document(1000)) is not None:
            found.append(document)
    assert found == [(b"state.json", b"{}"), (b"consumers/C", b"x" * 999)]


@pytest.mark.parametrize(
    "archive",
    [
        b"NATSARC2" + END,
        MAGIC + END + b"x",
        MAGIC + b"\xff" * 9 + b"\x02",
        MAGIC + encode_document(b"no sequence", 0, b""),
        MAGIC + b"\x01\x02\x01\x00\x81\x80\x80\x80\x10s",
        MAGIC + b"\x80\x80\x04\x02\x01\x00\x00",
        MAGIC + b"\x00\x02\x01\x00\x00",
        MAGIC + b"\x01\x02\x01\x00\x00 ",
        MAGIC + b"\x01\x02\x01\x00\x00\n",
        MAGIC + b"\x01\x02\x01\x00\x00\r",
        MAGIC + b"\x01\x02\x01\x00\x00\x00",
        MAGIC + b"\x01\x02\x01\x00\x00s" * 2,
        MAGIC + b"\x01\x02" + b"\xff" * 9 + b"\x01\x00\x00s",
    ],
)
def test_what_is_no_archive_is_refused(archive: bytes) -> None:
    with pytest.raises(Corrupt):
        read(archive)
    with pytest.raises(Corrupt):
        read(archive, 1)


def test_a_document_is_no_message_and_has_a_limit() -> None:
    reader = ArchiveReader()
    reader.feed(MAGIC + encode_document(b"large", 0, bytes(100)))
    with pytest.raises(Corrupt):
        reader.document(99)


def test_nothing_follows_the_end() -> None:
    reader, _ = read(MAGIC + END)
    reader.feed(b"")
    with pytest.raises(Corrupt):
        reader.feed(b"x")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 40))
def test_no_input_does_more_than_raise(data: bytes, piece: int) -> None:
    try:
        read(MAGIC + data, piece)
    except Corrupt:
        return


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 1000), st.integers(1, 1 << 60), st.binary(max_size=300), st.binary(max_size=50)
        ),
        max_size=30,
        unique_by=lambda one: one[0],
    ),
    st.integers(1, 3000),
)
def test_any_log_comes_back(entries: list[Any], room: int) -> None:
    messages = [(seq, time, b"s.x", headers, payload) for seq, time, payload, headers in sorted(entries)]
    log = filled(messages)
    restored = read(MAGIC + extract_all(log, log.last_seq, room) + END, room)[1]
    assert contents(restored) == messages

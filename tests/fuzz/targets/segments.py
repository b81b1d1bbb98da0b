"""Opening a log of files that somebody else wrote: segments, compressed segments and indexes of any bytes.

    byte 0      bits: right checksums; the index is made to fit and sealed; the first segment is compressed;
                something is appended; the log has a second segment
    bytes 1-4   lengths of the first segment and of its index, two bytes each
    rest        first segment, its index, second segment

Right is: whatever the files say, the log opens, sequences rise and lie between the first and the last,
reading ends. Without an index also: it counts what it has; and, asked of one input in four: opened again it
has the same, and what is appended comes behind it.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import tempfile
from zlib import crc32

from headrace.engine.basics.filters import Filter
from headrace.engine.segments.codec import compress
from headrace.engine.store.committer import Committer
from headrace.engine.store.log import Log
from tests.engine.store.logs import messages, settle
from tests.fuzz.libraries import library

SEALED, INDEXED, COMPRESSED, APPENDED, TWO = 1, 2, 4, 8, 16
SEGMENT_HEAD, BLOCK = 128, 32768
EVERYTHING = Filter(())
SOME = Filter((b"a.*", b"b"))
SEAL = ctypes.CDLL(str(library("seal")))
DIRECTORY = tempfile.mkdtemp(
    prefix="headrace-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
)
COMMITTER = Committer(1)
COMMITTER.close()  # so that logs write in this thread: to wait for another takes longer than all the rest
REOPENED_EVERY = 4
Messages = dict[int, tuple[bytes, bytes, bytes]]


def path_of(number: int, ending: str) -> str:
    return os.path.join(DIRECTORY, f"{number:012}.{ending}")


def write(path: str, data: bytes | bytearray) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(descriptor, data)
    os.close(descriptor)


def pointer(data: bytearray) -> ctypes.Array[ctypes.c_char]:
    return (ctypes.c_char * len(data)).from_buffer(data)


def sealed_segment(data: bytes, number: int) -> bytearray:
    made = bytearray(data)
    SEAL.seal_segment(pointer(made), ctypes.c_size_t(len(made)), ctypes.c_uint64(number), ctypes.c_uint64(0))
    return made


def compressed(plain: bytearray) -> bytearray:
    """The same segment in its other form."""
    blocks = []
    for at in range(SEGMENT_HEAD, len(plain), BLOCK):
        block = bytes(plain[at : at + BLOCK])
        blocks.append(compress(block) or block)
    head = plain[:SEGMENT_HEAD]
    table = b"".join(len(block).to_bytes(4, "little") for block in blocks) + bytes(4)
    made = bytearray(head + table + b"".join(blocks) + table)
    size, count = ctypes.c_size_t(len(made)), ctypes.c_uint32(len(blocks))
    SEAL.seal_segment(pointer(made), size, ctypes.c_uint64(1), ctypes.c_uint64(len(plain)))
    for place in (SEGMENT_HEAD, len(made) - len(table)):
        SEAL.seal_table(pointer(made), ctypes.c_size_t(place), count)
    return made


def write_files(data: bytes) -> bool:
    """Whether there is an index."""
    for name in os.listdir(DIRECTORY):
        os.unlink(os.path.join(DIRECTORY, name))
    options, first, second = data[0], int.from_bytes(data[1:3], "little"), int.from_bytes(data[3:5], "little")
    segment, index, other = (
        data[5 : 5 + first],
        data[5 + first : 5 + first + second],
        data[5 + first + second :],
    )
    stored = sealed_segment(segment, 1) if options & SEALED else bytearray(segment)
    plain_size = len(stored)
    if options & INDEXED and len(stored) >= SEGMENT_HEAD:
        made = bytearray(index)
        size = ctypes.c_size_t(len(made))
        SEAL.seal_index(pointer(made), size, pointer(stored), ctypes.c_uint64(plain_size))
        write(path_of(1, "idx"), made)
    elif index:
        write(path_of(1, "idx"), index)
    if options & COMPRESSED and plain_size > SEGMENT_HEAD:
        stored = compressed(stored)
    write(path_of(1, "log"), stored)
    if options & TWO:
        write(path_of(2, "log"), sealed_segment(other, 2) if options & SEALED else other)
    return bool(index) or bool(options & INDEXED)


def opened() -> tuple[Log, list[str]]:
    log = Log(DIRECTORY, committer=COMMITTER, segment_bytes=4096)
    return log, log.recover()


def ask_everything(log: Log) -> None:
    """Every question that has an answer which grows with the log, bounded as the server bounds it."""
    log.subjects(SOME)
    log.last(b"a.b")
    log.last_sequences(SOME, log.last_seq, 0, 2**64 - 1)
    log.count_from(log.first_seq, SOME)
    log.deleted(0, 100)
    log.seek_time(log.last_time)
    log.seq_from_end(3)
    assert log.num_deleted >= 0


def check_messages(log: Log) -> Messages:
    found = messages(log)
    assert all(one < other for one, other in itertools.pairwise(found))
    assert all(log.first_seq <= seq <= log.last_seq for seq in found)
    return found


def check_again(found: Messages, append: bool, contradictory: bool) -> None:
    """Opening the files again changes nothing, and nothing that is appended is lost.

    Forged heads of two segments may contradict each other. Once one of them is gone, the other is believed,
    and more messages may be found; none of those that were there may be missing.
    """
    log, _ = opened()
    again = messages(log)
    assert again == found or (contradictory and found.items() <= again.items())
    if append and log.last_seq < 2**63:
        seq = log.append(b"new", b"", b"payload")
        assert settle(log, COMMITTER) is None
        log.close()
        log, _ = opened()
        assert messages(log) == {**found, seq: (b"new", b"", b"payload")}
    log.close()


def check(data: bytes) -> None:
    if len(data) < 5:
        return
    is_indexed = write_files(data)
    log, reports = opened()
    found = check_messages(log)
    ask_everything(log)
    if not is_indexed:
        assert log.damages == reports, log.damages
        # Forged heads may give two segments the same sequences. Damage does not do that: they have checksums.
        assert log.count == len(found) or data[0] & TWO
    if crc32(data) % REOPENED_EVERY:
        log.abandon()
        return
    log.close()
    if not is_indexed:
        is_forged_pair = data[0] & (SEALED | TWO) == SEALED | TWO
        check_again(found, data[0] & (APPENDED | TWO) == APPENDED, is_forged_pair)

"""Files that were changed on purpose, with checksums that are right: a log stays usable, whatever they say.

Damage by accident does not pass a checksum, so such files are an attacker's, or those of a bug of ours.
What a log makes of them is of no interest. It must not crash (only a build with AddressSanitizer shows that
for sure), not hang, and raise nothing but what its methods say.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log, Refused
from tests.engine.store.logs import EVERYTHING, files, watch

HEAD = 128  # of a segment; it holds two copies
INDEX = struct.Struct("<8sIIQQQQQQQQqqIIIIIIII")
TEXT_SIZE, COUNT, SUBJECTS, REMOVALS, DENSE, PLACES_CRC, DETAILS_CRC = 6, 13, 14, 15, 16, 17, 18
RECORD_FIELDS = [(0, "<I"), (8, "<Q"), (16, "<Q"), (24, "<Q"), (32, "<I"), (36, "<H"), (38, "<B"), (40, "<Q")]
NUMBERS = [0, 1, 2, 39, 40, 128, 4095, 65535, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
LARGEST_FILE = 1 << 20
FILTERS = [EVERYTHING, Filter((b"s1.>",)), Filter((b"s1.x", b"s2.x")), Filter((b"*.x",))]


def crc_table() -> list[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ 0x82F63B78 if number & 1 else number >> 1
        table.append(number)
    return table


TABLE = crc_table()


def crc32c(salt: int, data: bytes | bytearray) -> int:
    crc = salt ^ 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def write_log(choose: random.Random, directory: Path) -> None:
    log = Log(str(directory), segment_bytes=4096)
    log.recover()
    for _ in range(60):
        subject, headers = b"s%d.x" % choose.randrange(4), choose.choice([b"", b"NATS/1.0\r\na: b\r\n\r\n"])
        gap = choose.choice([1] * 9 + [5000])
        log.append(subject, headers, b"p" * choose.randrange(150), seq=log.last_seq + gap)
        if choose.random() < 0.15:
            log.remove(choose.randrange(1, log.last_seq + 1), erase=choose.random() < 0.3)
        if choose.random() < 0.1:
            log.commit()
    log.commit()
    log.close()


def starts_of_records(data: bytearray) -> list[int]:
    starts, at = [], HEAD
    while at + 40 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        if length < 40 or at + length > len(data):
            break
        starts.append(at)
        at += length
    return starts


def put_number(choose: random.Random, data: bytearray, at: int, layout: str) -> None:
    if at + struct.calcsize(layout) <= len(data):
        (old,) = struct.unpack_from(layout, data, at)
        number = choose.choice([*NUMBERS, old + 1, old - 1, old // 2, choose.randrange(8)])
        struct.pack_into(layout, data, at, number & (1 << 8 * struct.calcsize(layout)) - 1)


def forge_segment(choose: random.Random, data: bytearray) -> None:
    if choose.random() < 0.2:
        put_number(choose, data, choose.choice([24, 32, 40]), "<Q")  # base_seq, first_seq, last_time
        struct.pack_into("<I", data, 60, crc32c(0, data[:60]))
        data[64:HEAD] = data[:64]
    else:
        for start in choose.choices(starts_of_records(data), k=2):
            place, layout = choose.choice(RECORD_FIELDS)
            put_number(choose, data, start + place, layout)
    (salt,) = struct.unpack_from("<I", data, 12)
    for start in starts_of_records(data):
        (length,) = struct.unpack_from("<I", data, start)
        struct.pack_into("<I", data, start + 4, crc32c(salt, data[start + 8 : start + length]))


def forge_index(choose: random.Random, data: bytearray) -> None:
    fields = list(INDEX.unpack_from(data))
    if choose.random() < 0.5:
        which = choose.randrange(4, PLACES_CRC)
        number = choose.choice([*NUMBERS, fields[which] + 1, fields[which] // 2])
        fields[which] = number & (2**32 - 1 if which >= COUNT else 2**63 - 1)
    else:
        data[choose.randrange(INDEX.size, len(data))] = choose.choice([0, 1, 255])
    front = INDEX.size + fields[TEXT_SIZE] + 24 * fields[SUBJECTS] + 16 * fields[REMOVALS]
    places = front + (4 if fields[DENSE] else 8) * fields[COUNT]
    size = places + 8 * fields[COUNT]
    if size < LARGEST_FILE:
        data[:] = (data + bytes(size))[:size]
        fields[PLACES_CRC] = crc32c(0, data[front:places])
        fields[DETAILS_CRC] = crc32c(0, data[places:])
    INDEX.pack_into(data, 0, *fields)
    crc = crc32c(crc32c(0, data[: INDEX.size - 4]), data[INDEX.size : front])
    struct.pack_into("<I", data, INDEX.size - 4, crc)


def ask(choose: random.Random, log: Log) -> None:
    wanted = choose.choice(FILTERS)
    seq = choose.choice([0, 1, choose.randrange(100), log.first_seq, log.last_seq, 2**64 - 1])
    actions: list[Callable[[], object]] = [
        lambda: log.get(seq),
        lambda: log.next(seq, wanted),
        lambda: log.last_up_to(wanted, seq),
        lambda: log.count_from(seq, wanted),
        lambda: log.subjects(wanted),
        lambda: log.last(b"s1.>"),
        lambda: log.seek_time(1),
        lambda: log.remove(seq, erase=True),
        lambda: log.append(b"s1.x", b"", b"new"),
        lambda: log.commit(),
        lambda: log.configure(max_msgs_per_subject=2, max_msgs=choose.choice([-1, 10])),
        lambda: log.compact(min(log.first_seq + 3, 2**64 - 1)),
    ]
    choose.choice(actions)()


def use(choose: random.Random, directory: Path) -> None:
    log = Log(str(directory), segment_bytes=4096)
    log.recover()
    watch(log, choose.choice([0, 5]), b"s1.>")
    for _ in range(25):
        with contextlib.suppress(Refused, MemoryError):
            ask(choose, log)
    log.commit()
    log.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_forged_file_does_no_harm(quick_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    write_log(choose, quick_path / "log")
    for _ in range(60):
        copy = quick_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(quick_path / "log", copy)
        path = choose.choice(files(copy, "log") + files(copy, "idx"))
        data = bytearray(path.read_bytes())
        (forge_segment if path.suffix == ".log" else forge_index)(choose, data)
        path.write_bytes(data)
        use(choose, copy)

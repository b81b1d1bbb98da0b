"""Finding the next good record behind a damaged one: exact, and linear in the size of the file.

A client can publish text in which every few bytes look like the head of a record that reaches to the end of
the file. None of them has the right checksum, and reading each to its end would take hours for 64 MB.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from headrace.engine.segments.contents import scan_work
from headrace.engine.store.log import Log
from tests.engine.store.logs import files, messages

HEAD = 128  # of a segment
RECORD = 40  # bytes of a record before its text
FORGED = struct.Struct("<IIQqQIHBB")
MOST_WORK = 20  # bytes that are checksummed per byte of the file


def forged_heads(size: int) -> bytes:
    """Heads without end, each of a message that may follow and that reaches to almost the end of the text."""
    heads = [FORGED.pack(size - at, 7, 1000, 1, 0, 0, 0, 1, 0) for at in range(0, size - RECORD, RECORD)]
    return b"".join(heads).ljust(size + 20)


def write_log(directory: Path, payloads: list[bytes]) -> tuple[Path, dict[int, tuple[bytes, bytes, bytes]]]:
    """The segment, without its index, and what it holds."""
    log = Log(str(directory))
    log.recover()
    for payload in payloads:
        log.append(b"subject", b"", payload)
    log.commit()
    written = messages(log)
    log.close()
    files(directory, "idx")[0].unlink()
    return files(directory, "log")[0], written


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0xFF]))


@pytest.mark.parametrize("size", [100_000, 400_000, 1_600_000])
def test_forged_heads_before_a_torn_tail_cost_linear_work(quick_path: Path, size: int) -> None:
    segment, written = write_log(quick_path, [b"first", forged_heads(size), b"last"])
    os.truncate(segment, segment.stat().st_size - 60)  # the last but one is torn now
    found, checked = scan_work(str(segment))
    print(f"{segment.stat().st_size} bytes: checksums of {checked} bytes")
    assert found == 1
    assert checked < MOST_WORK * segment.stat().st_size
    log = Log(str(quick_path))
    (report,) = log.recover()
    assert "torn" in report
    assert messages(log) == {1: written[1]}
    log.close()


def test_nothing_intact_is_lost_behind_forged_heads(quick_path: Path) -> None:
    payloads = [b"%d" % k if k % 10 else forged_heads(20_000) for k in range(200)]
    segment, written = write_log(quick_path, payloads)
    at = HEAD
    flipped = set()
    for seq, message in written.items():
        if len(message[2]) > 10_000:  # the forged heads are searched then
            flip(segment, at + 20)
            flipped.add(seq)
        at += RECORD + sum(map(len, message))
    assert len(flipped) == 20
    found, checked = scan_work(str(segment))
    assert found == 180
    assert checked < MOST_WORK * segment.stat().st_size
    log = Log(str(quick_path))
    (report,) = log.recover()
    assert "20 places are damaged" in report
    assert messages(log) == {seq: message for seq, message in written.items() if seq not in flipped}
    log.close()


def test_one_damaged_record_costs_none_of_the_others(quick_path: Path) -> None:
    """Of all lengths: up to and beyond the grain of the checksums, and of each byte of a length."""
    sizes = [0, 1, 7, 206, 207, 208, 209, 210, 463, 464, 465, 4096, 65_535, 65_536, 300_000, 17 << 20, 3]
    segment, written = write_log(quick_path, [b"x", *(os.urandom(size) for size in sizes), b"y"])
    flip(segment, HEAD + 30)
    log = Log(str(quick_path))
    assert len(log.recover()) == 1
    del written[1]
    assert messages(log) == written
    log.close()


def test_every_record_may_be_damaged_in_turn(quick_path: Path) -> None:
    segment, written = write_log(quick_path, [b"payload %d" % k * (k % 50) for k in range(100)])
    at = HEAD
    for seq, message in written.items():
        length = RECORD + sum(map(len, message))
        for place in (at, at + 5, at + 38, at + length - 1):
            flip(segment, place)
            found, checked = scan_work(str(segment))
            assert found == 99, (seq, place)
            assert checked < MOST_WORK * segment.stat().st_size
            flip(segment, place)
        at += length
    assert scan_work(str(segment))[0] == 100

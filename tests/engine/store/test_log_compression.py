"""Compressed segments: the same messages, promises and positions in less space."""

from __future__ import annotations

import os
import random
import shutil
import struct
from pathlib import Path

import pytest

from headrace.engine.segments.codec import expand
from headrace.engine.store.committer import Committer
from headrace.engine.store.log import Log
from tests.engine.store.logs import EVERYTHING, content, erase, files, messages, settle

HEAD = 128
BLOCK = 32768
SEGMENT = 200_000  # some blocks


def open_log(
    directory: Path, committer: Committer | None = None, compression: str = "s2", size: int = SEGMENT
) -> Log:
    log = Log(str(directory), committer=committer, segment_bytes=size, compression=compression)
    assert log.recover() == []
    return log


def event(seq: int) -> bytes:
    return b'{"order": %d, "amount": %d, "status": "%s"}' % (
        seq,
        seq * 7919 % 1_000_003,
        (b"created", b"paid", b"sent")[seq * 31 % 11 % 3],
    )


def append(log: Log, committer: Committer | None, count: int) -> None:
    for _ in range(count):
        seq = log.last_seq + 1
        log.append(b"orders.%d" % (seq % 7), b"NATS/1.0\r\nk: v\r\n\r\n" if seq % 3 == 0 else b"", event(seq))
    assert settle(log, committer) is None


def rested(log: Log, committer: Committer | None, compression: str = "s2") -> Log:
    """Close and open until nothing is left to do: opening starts a chore, and closing waits for it."""
    directory, size = Path(log.directory or ""), log.segment_bytes
    before = None
    log.close()
    while (now := state_of(directory)) != before:
        before = now
        open_log(directory, committer, compression, size).close()
    return open_log(directory, committer, compression, size)


def state_of(directory: Path) -> list[tuple[str, int]]:
    """Changes with every chore. (The last index is written anew whenever a log is closed.)"""
    paths = files(directory, "log") + files(directory, "idx")[:-1]
    return [(path.name, path.stat().st_ino) for path in paths]


def is_packed(path: Path) -> bool:
    return struct.unpack("<I", path.read_bytes()[8:12]) == (2,)


def plain_bytes(path: Path) -> bytes:
    """What a compressed segment holds, read as docs/streams.md describes it; without the head."""
    data = path.read_bytes()
    (plain_size,) = struct.unpack("<Q", data[48:56])
    count = -(-(plain_size - HEAD) // BLOCK)
    lengths = struct.unpack(f"<{count}I", data[HEAD : HEAD + 4 * count])
    assert data[HEAD : HEAD + 4 * count + 4] == data[-4 * count - 4 :]
    at, plain = HEAD + 4 * count + 4, b""
    for k, length in enumerate(lengths):
        size = min(BLOCK, plain_size - HEAD - k * BLOCK)
        block = data[at : at + length]
        plain += block if length == size else expand(block, size)
        at += length
    assert at == len(data) - 4 * count - 4
    assert len(plain) == plain_size - HEAD
    return plain


def make_packed(directory: Path, count: int = 6000) -> dict[int, tuple[bytes, bytes, bytes]]:
    """Some compressed segments and a plain one behind them, closed."""
    log = open_log(directory)
    append(log, None, count)
    log = rested(log, None)
    written = messages(log)
    assert len(written) == count
    log.close()
    paths = files(directory, "log")
    assert [is_packed(path) for path in paths] == [True] * (len(paths) - 1) + [False]
    assert len(paths) > 2
    return written


def copy_of(directory: Path, copy: Path) -> Path:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(directory, copy)
    return copy


def test_sealed_segments_become_smaller_and_hold_the_same(
    quick_path: Path, committer: Committer | None
) -> None:
    packed = open_log(quick_path / "packed", committer)
    plain = open_log(quick_path / "plain", committer, "none")
    for log in (packed, plain):
        append(log, committer, 6000)
    packed = rested(packed, committer)
    assert messages(packed) == messages(plain)
    assert packed.byte_count == plain.byte_count  # limits and figures are those of the messages
    sizes = [
        sum(path.stat().st_size for path in files(quick_path / name, "log")[:-1])
        for name in ("packed", "plain")
    ]
    assert sizes[0] < sizes[1] / 2
    for seq in random.Random(1).sample(range(1, 6001), 300):
        one, other = packed.get(seq), plain.get(seq)
        assert one is not None
        assert other is not None
        assert content(one) == content(other)
        assert packed.subject_state(b"orders.3") == plain.subject_state(b"orders.3")
    packed.close()
    plain.close()


def test_the_format_is_the_documented_one(quick_path: Path) -> None:
    log = open_log(quick_path, compression="none")
    append(log, None, 3000)
    before = {path: path.read_bytes() for path in files(quick_path, "log")[:-1]}
    indexes = {path: path.read_bytes() for path in files(quick_path, "idx")}
    log.configure(compression="s2")
    log = rested(log, None)
    for path, data in before.items():
        assert is_packed(path)
        assert plain_bytes(path) == data[HEAD:]
        assert path.read_bytes()[12:48] == data[12:48]  # salt, number and so on
        assert path.with_suffix(".idx").read_bytes() == indexes[path.with_suffix(".idx")]  # as good as before
    log.close()


def test_it_can_be_switched_on_and_off(quick_path: Path, committer: Committer | None) -> None:
    log = open_log(quick_path, committer, "none")
    append(log, committer, 4000)
    assert not any(map(is_packed, files(quick_path, "log")))
    written = messages(log)
    log.configure(compression="s2")
    log = rested(log, committer)
    old = files(quick_path, "log")[:-1]
    assert all(map(is_packed, old))  # those from before, too
    assert messages(log) == written
    log.configure(compression="none")
    append(log, committer, 4000)
    log = rested(log, committer, "none")
    assert [is_packed(path) for path in files(quick_path, "log")][: len(old) + 2] == [True] * len(old) + [
        False
    ] * 2
    assert messages(log).items() >= written.items()
    assert log.count == 8000
    log.close()
    with pytest.raises(ValueError, match="unknown compression"):
        Log(str(quick_path), compression="zip")


def test_a_memory_log_ignores_it() -> None:
    log = Log(compression="s2")
    append(log, None, 100)
    log.configure(compression="s2")
    assert len(messages(log)) == 100


def test_what_does_not_become_smaller_stays_as_it_is(quick_path: Path) -> None:
    log = open_log(quick_path)
    noise = random.Random(1)
    for _ in range(300):
        log.append(b"noise", b"", noise.randbytes(4000))
    log.commit()
    log = rested(log, None)
    assert not any(map(is_packed, files(quick_path, "log")))
    assert len(messages(log)) == 300
    log.close()


def test_large_messages_lie_across_many_blocks(quick_path: Path) -> None:
    log = open_log(quick_path)
    sizes = [10, BLOCK - 1, 700_000, 5, 3 * BLOCK, 90_000, 1, 400_000, 20]
    for k, size in enumerate(sizes):
        log.append(b"s", b"", (b"%d " % k * size)[:size])
    log.commit()
    log = rested(log, None)
    assert any(map(is_packed, files(quick_path, "log")))
    for path in files(quick_path, "idx"):
        path.unlink()
    log.close()
    log = open_log(quick_path)
    for seq in [5, 3, 9, 1, 8, 2, 3, 6]:
        message = log.get(seq)
        assert message is not None
        assert message.payload == (b"%d " % (seq - 1) * sizes[seq - 1])[: sizes[seq - 1]]
    assert len(messages(log)) == len(sizes)
    log.close()


@pytest.mark.parametrize("index", ["missing", "damaged", "stale"])
def test_an_index_that_cannot_be_used_is_made_anew(quick_path: Path, index: str) -> None:
    written = make_packed(quick_path)
    paths = files(quick_path, "idx")
    for path, other in zip(paths, paths[1:] + paths[:1], strict=True):
        if index == "missing":
            path.unlink()
        elif index == "damaged":
            path.write_bytes(path.read_bytes()[:-1] + b"\xff")
        else:
            path.write_bytes(other.read_bytes())
    log = open_log(quick_path)
    assert messages(log) == written
    log.close()
    again = open_log(quick_path)
    assert messages(again) == written
    again.close()


@pytest.mark.parametrize("with_index", [False, True])
def test_a_flipped_byte_is_reported_and_never_served(quick_path: Path, with_index: bool) -> None:
    written = make_packed(quick_path / "log", 4000)
    path = files(quick_path / "log", "log")[1]
    if not with_index:
        path.with_suffix(".idx").unlink()
    data = path.read_bytes()
    count = -(-(struct.unpack("<Q", data[48:56])[0] - HEAD) // BLOCK)
    table = 4 * count + 4
    made = random.Random(3)
    places = [*range(0, HEAD + table + 8, 3), *made.sample(range(HEAD + table, len(data)), 40), len(data) - 1]
    harmed = 0
    for place in places:
        path.write_bytes(data[:place] + bytes([data[place] ^ made.randrange(1, 256)]) + data[place + 1 :])
        log = Log(str(copy_of(quick_path / "log", quick_path / "copy")), segment_bytes=SEGMENT)
        reports = log.recover()
        found = messages(log)
        assert found.items() <= written.items(), place
        lost = len(written) - len(found)
        in_block = HEAD + table <= place < len(data) - table
        assert in_block or lost == 0, place
        assert bool(log.damages) == (lost > 0), place
        assert bool(reports) == (lost > 0 and not with_index), (place, reports)
        assert lost < 400, "more than what is in a block"
        assert log.count == len(found) + (lost if with_index else 0)
        assert log.last_seq == 4000
        harmed += lost > 0
        log.close()
    assert harmed > 20


def test_a_table_that_is_damaged_in_both_copies(quick_path: Path) -> None:
    written = make_packed(quick_path)
    path = files(quick_path, "log")[1]
    data = bytearray(path.read_bytes())
    data[HEAD + 1] ^= 1
    data[-6] ^= 1
    path.write_bytes(data)
    log = Log(str(quick_path), segment_bytes=SEGMENT, compression="s2")
    (report,) = log.recover()
    assert "table of blocks is damaged" in report
    found = messages(log)
    assert found.items() <= written.items()
    assert 0 < len(found) < len(written)
    assert path.with_suffix(".log.damaged").read_bytes() == bytes(data)
    log.close()


@pytest.mark.parametrize("left", [0.1, 0.5, 0.99])
def test_a_compressed_segment_that_was_cut(quick_path: Path, left: float) -> None:
    written = make_packed(quick_path)
    path = files(quick_path, "log")[1]
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * left)])
    path.with_suffix(".idx").unlink()
    log = Log(str(quick_path), segment_bytes=SEGMENT, compression="s2")
    (report,) = log.recover()
    assert "damaged" in report
    found = messages(log)
    assert found.items() <= written.items()
    assert 0 < len(written) - len(found) < 2000
    assert log.last_seq == 6000
    log.close()


def test_a_log_whose_last_segment_is_compressed_goes_on_in_a_new_one(quick_path: Path) -> None:
    make_packed(quick_path)
    for path in files(quick_path, "*")[-2:]:
        path.unlink()
    log = open_log(quick_path)
    last = log.last_seq
    assert log.remove(last - 1)
    append(log, None, 10)
    assert sorted(messages(log))[-11:] == list(range(last, last + 11))
    log = rested(log, None)
    assert log.count == last + 9
    log.close()


def test_removing_whole_segments_and_rewriting_others(quick_path: Path, committer: Committer | None) -> None:
    log = open_log(quick_path, committer)
    append(log, committer, 12_000)
    log = rested(log, committer)
    before = len(files(quick_path, "log"))
    assert log.compact(5000) == 4999
    log.remove_many(seq for seq in range(5000, 9000) if seq % 25)
    log.remove_many(range(9000, 12_000, 50))
    assert settle(log, committer) is None
    left = messages(log)
    assert sorted(left) == [
        *range(5000, 9000, 25),
        *(seq for seq in range(9000, 12_001) if seq % 50 or seq == 12_000),
    ]
    for _ in range(3):
        log = rested(log, committer)
        assert messages(log) == left
        assert log.damages == []
    assert len(files(quick_path, "log")) <= before - 2
    assert sum(map(is_packed, files(quick_path, "log"))) > 2
    log.close()


def test_erasing_takes_the_text_out_of_compressed_segments(
    quick_path: Path, committer: Committer | None
) -> None:
    log = open_log(quick_path, committer, "none")
    secrets = [b"secret number %d " % seq * 30 for seq in range(3)]
    append(log, committer, 300)
    for secret in secrets:
        log.append(b"secrets", b"", secret)
        append(log, committer, 100)
    append(log, committer, 3000)
    log.configure(compression="s2")
    log = rested(log, committer)
    path = files(quick_path, "log")[0]
    assert all(secret in plain_bytes(path) for secret in secrets)
    written = messages(log)
    for seq in (301, 402, 503):
        assert log.remove(seq, erase=True)
        if seq == 402:
            assert settle(log, committer) is None
        del written[seq]
        assert log.get(300) is not None  # while it is being replaced, too
    assert settle(log, committer) is None
    assert erase(log, committer) is None
    assert is_packed(path)
    assert not any(secret in plain_bytes(path) for secret in secrets)
    assert messages(log) == written
    for way in ("with its index", "without"):
        log.close()
        if way == "without":
            for index in files(quick_path, "idx"):
                index.unlink()
        log = open_log(quick_path, committer)
        assert messages(log) == written
    log.close()


def test_reading_goes_on_while_segments_are_compressed(quick_path: Path) -> None:
    committer = Committer(2)
    log = open_log(quick_path, committer, size=50_000)
    for _ in range(30):
        append(log, committer, 200)
        committer.poll()
        found = messages(log)
        assert len(found) == log.count == log.last_seq
        assert all(message[2] == event(seq) for seq, message in found.items())
    assert log.damages == []
    assert log.count_from(1, EVERYTHING) == 6000
    log.close()
    committer.close()


def test_files_are_not_all_kept_open(quick_path: Path) -> None:
    log = open_log(quick_path, size=4096)
    append(log, None, 4000)
    log = rested(log, None)
    assert log.segment_files > 100
    assert len(messages(log)) == 4000
    held = [
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{fd}")
    ]
    assert sum(str(quick_path) in name for name in held) < 70
    log.close()

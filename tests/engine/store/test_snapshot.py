"""Snapshots: what the files of a log hold, read by somebody who changes nothing, whatever the owner does."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.engine.store.log import Log
from headrace.engine.store.snapshot import Snapshot
from tests.engine.store.logs import content, files, messages, settle
from tests.engine.store.test_log_model import OPERATIONS, Pair

Message = tuple[bytes, bytes, bytes]


def read(snapshot: Snapshot) -> dict[int, Message]:
    found: dict[int, Message] = {}
    seq = snapshot.next_live(0)
    while seq <= snapshot.last_seq:
        message = snapshot.get(seq)
        if message is not None:
            found[seq] = content(message)
        seq = snapshot.next_live(seq + 1)
    return found


def state(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}


def make_log(directory: Path, count: int = 100, compression: str = "none") -> Log:
    log = Log(str(directory), segment_bytes=4096, compression=compression)
    log.recover()
    for number in range(count):
        log.append(b"a.%d" % (number % 3), b"", b"message %d " % number * 10)
        log.commit()
    return log


@pytest.mark.parametrize("compression", ["none", "s2"])
@given(operations=st.lists(OPERATIONS, max_size=25))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_snapshot_is_what_the_log_has(compression: str, operations: list[tuple[str, ...]]) -> None:
    home = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=home) as directory:
        pair = Pair(directory, None, compression)
        for name, *arguments in operations:
            pair.apply(name, *arguments)
            if name in ("settle", "reopen"):
                check_same(Path(directory), pair.log)
        assert settle(pair.log, None) is None
        check_same(Path(directory), pair.log)
        pair.log.close()
        check_same(Path(directory), pair.log, pair.model.live)


def check_same(directory: Path, log: Log, live: dict[int, Message] | None = None) -> None:
    before = state(directory)
    snapshot = Snapshot(str(directory))
    snapshot.sync()
    assert snapshot.damages == []
    assert read(snapshot) == (messages(log) if live is None else live)
    assert state(directory) == before
    if live is None:
        assert (snapshot.last_seq, snapshot.count) == (log.last_seq, log.count)
        assert snapshot.byte_count == log.byte_count
        assert not log.count or snapshot.first_seq == log.first_seq
        assert snapshot.deleted() == log.deleted()


def test_a_range_loads_only_its_segments_and_all_removals(quick_path: Path) -> None:
    log = make_log(quick_path)
    log.remove(50)  # the record is in the last segment
    settle(log, None)
    snapshot = Snapshot(str(quick_path), 45, 55)
    found = read(snapshot)
    assert set(range(45, 56)) - {50} <= found.keys()
    assert 50 not in found
    assert len(found) < 90
    assert snapshot.last_seq == 100
    assert Snapshot(str(quick_path), 101, 200).count < 50
    log.close()


def test_nothing_is_removed_cut_or_renamed(quick_path: Path) -> None:
    make_log(quick_path).close()
    first, *_, last = files(quick_path, "log")
    (quick_path / "000000000001.log.tmp").write_bytes(b"left over")
    first.write_bytes(b"no head" * 100)
    (quick_path / "000000000099.log").write_bytes(bytes(4096))
    with last.open("ab") as file:
        file.write(b"torn")
    before = state(quick_path)
    snapshot = Snapshot(str(quick_path))
    assert [line.rpartition("/")[2] for line in snapshot.damages] == [
        "000000000004.log: the last 4 bytes are damaged: what they held is lost, the rest is kept",
        "000000000001.log: its head is damaged in both copies",
    ]
    assert max(read(snapshot)) == 100
    assert state(quick_path) == before


def test_a_torn_tail_is_the_end(quick_path: Path) -> None:
    make_log(quick_path).close()
    last = files(quick_path, "log")[-1]
    whole = last.read_bytes()
    for cut in range(1, 200, 7):
        last.write_bytes(whole[:-cut])
        snapshot = Snapshot(str(quick_path))
        found = read(snapshot)
        assert list(found) == list(range(1, snapshot.last_seq + 1))
        assert snapshot.last_seq < 100
        assert snapshot.damages == []


def test_a_directory_without_write_permission_will_do(quick_path: Path) -> None:
    make_log(quick_path / "log").close()
    for path in (quick_path / "log").iterdir():
        path.chmod(0o440)
    (quick_path / "log").chmod(0o550)
    assert len(read(Snapshot(str(quick_path / "log")))) == 100


def test_a_missing_directory_is_an_error(quick_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Snapshot(str(quick_path / "none"))
    (quick_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        Snapshot(str(quick_path / "file"))


# -- the owner is at work while the snapshot is read


def test_a_segment_that_is_gone_or_rewritten_is_noticed(quick_path: Path) -> None:
    log = make_log(quick_path)
    snapshot = Snapshot(str(quick_path))
    log.remove_many(range(1, 95))  # the first segments go, and those that are left are rewritten
    for _ in range(20):
        log.append(b"b", b"", b"later")
        settle(log, None)
    with pytest.raises(OSError, match="cannot open segment 1") as caught:
        snapshot.get(1)
    assert caught.value.errno in (errno.ENOENT, errno.ESTALE)
    assert read(Snapshot(str(quick_path))) == messages(log)
    log.close()


def test_a_segment_that_is_compressed_meanwhile_is_still_read(quick_path: Path) -> None:
    log = make_log(quick_path)
    snapshot = Snapshot(str(quick_path))
    before = [path.stat().st_ino for path in files(quick_path, "log")]
    log.configure(compression="s2")
    for _ in range(20):
        log.append(b"b", b"", b"later")
        settle(log, None)
    assert [path.stat().st_ino for path in files(quick_path, "log")][:3] != before[:3]
    assert list(read(snapshot)) == list(range(1, 101))
    log.close()


def test_a_compressed_segment_that_is_erased_from_meanwhile_is_still_read(quick_path: Path) -> None:
    log = make_log(quick_path, compression="s2")
    log.close()
    log = Log(str(quick_path), segment_bytes=4096, compression="s2")
    log.recover()
    snapshot = Snapshot(str(quick_path))
    log.remove(2, erase=True)
    settle(log, None)
    done: list[str | None] = []
    log.when_erased(done.append)
    assert done == [None]
    assert list(read(snapshot)) == [1, *range(3, 101)]
    log.close()


def test_another_log_of_the_same_name_is_not_taken_for_it(quick_path: Path) -> None:
    make_log(quick_path / "log").close()
    snapshot = Snapshot(str(quick_path / "log"))
    shutil.rmtree(quick_path / "log")
    make_log(quick_path / "log").close()
    with pytest.raises(OSError, match="cannot open segment 1") as caught:
        snapshot.get(1)
    assert caught.value.errno == errno.ESTALE


def test_a_removal_is_seen_even_if_it_is_dropped_while_the_files_are_opened(
    quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner rewrites the segment of a removed message and that of its removal, between two files."""
    original = os.fsdecode
    for moment in range(8):
        directory = quick_path / str(moment)
        log = make_log(directory, 40)
        log.remove(3)
        settle(log, None)
        for number in range(80):
            log.append(b"b", b"", b"behind %d " % number * 10)
            settle(log, None)
        count = len(files(directory, "log"))
        for path in files(directory, "idx"):
            path.unlink()  # what a stale index says would be noticed
        calls = 0

        def decode(name: bytes, log: Log = log, moment: int = moment) -> str:
            nonlocal calls
            if calls == moment:
                log.remove_many([*range(4, 25), *range(28, 53)])
                for _ in range(10):
                    settle(log, None)
            calls += 1
            return original(name)

        monkeypatch.setattr(os, "fsdecode", decode)
        snapshot = Snapshot(str(directory))
        monkeypatch.setattr(os, "fsdecode", original)
        assert calls >= min(count, moment)
        assert snapshot.next_live(3) > 3, "a removed message is back"
        log.close()

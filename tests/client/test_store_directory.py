"""Streams from the files of a storage directory: the rows, offsets and errors of a server, and no server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.client import SCHEMA, FetchFailed, MessagesMissing, StreamNotFound
from headrace.client import stored_fetch as stored_fetch_module
from headrace.client.errors import StoreUnreadable
from headrace.client.store_directory import StoreDirectory
from headrace.engine.store.log import Log
from headrace.errors import UsageError
from headrace.on_disk.checked_file import with_checksum
from tests.client.stream_at_work import payload
from tests.engine.store.logs import files, messages, settle
from tests.engine.store.test_log_model import HEADERS, OPERATIONS, Pair

STREAM = "ORDERS"
AT_WORK_SECONDS, MANY_READS = 3.0, 10
CREATED = 1_763_250_000_000_000_000
Row = tuple[bytes, bytes, bytes]


def write_meta(directory: Path, name: str, created: int, **config: Any) -> None:
    body = msgspec.json.encode({"config": {"name": name, "subjects": ["a.>"], **config}, "created": created})
    (directory / "meta.json").write_bytes(with_checksum(body))


def make_place(root: Path, name: str = STREAM, account: str = "$G", **config: Any) -> Path:
    """The directory of a stream without messages. Returns that of its messages."""
    directory = root / "jetstream" / account / "streams" / name
    (directory / "msgs").mkdir(parents=True)
    write_meta(directory, name, config.pop("created", CREATED), **config)
    return directory / "msgs"


def make_stream(root: Path, count: int = 100, **config: Any) -> Log:
    log = Log(str(make_place(root, **config)), segment_bytes=4096)
    log.recover()
    for number in range(1, count + 1):
        headers = HEADERS if number % 5 == 0 else b""
        log.append(b"a.%d" % (number % 3), headers, b"message %d " % number * 10, CREATED + 1000 * number)
        log.commit()
    return log


def read(root: Path, first: int = 1, last: int = 0, **options: Any) -> pa.Table:
    """The range as a table, to the end of the stream unless `last` says otherwise. Batches are validated."""
    directory = StoreDirectory(str(root))
    last = last or directory.stream_info(STREAM).last_seq
    batches = list(directory.fetch_range(STREAM, first, last, **options))
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches, SCHEMA)


def contents(table: pa.Table) -> dict[int, Row]:
    """By sequence, as a log has them."""
    columns = (table[name].to_pylist() for name in ("seq", "subject", "headers", "data"))
    return {
        seq: (subject.encode(), header_block(headers), data)
        for seq, subject, headers, data in zip(*columns, strict=True)
    }


def header_block(headers: list[dict[str, str]]) -> bytes:
    lines = b"".join(b"%s: %s\r\n" % (one["key"].encode(), one["value"].encode()) for one in headers)
    return b"NATS/1.0\r\n" + lines + b"\r\n" if headers else b""


@contextmanager
def quick_directory() -> Iterator[Path]:
    home = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=home) as directory:
        yield Path(directory)


# -- the same rows


@pytest.mark.parametrize("compression", ["none", "s2"])
@given(operations=st.lists(OPERATIONS, max_size=20), batch_rows=st.sampled_from([1, 7, 1000]))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_rows_are_those_of_the_log(
    compression: str, operations: list[tuple[str, ...]], batch_rows: int
) -> None:
    with quick_directory() as root:
        pair = Pair(str(make_place(root)), None, compression)
        for name, *arguments in operations:
            pair.apply(name, *arguments)
        assert settle(pair.log, None) is None
        for _ in "running", "stopped":
            if pair.log.last_seq:
                assert contents(read(root, batch_rows=batch_rows)) == pair.model.live
            info = StoreDirectory(str(root)).stream_info(STREAM)
            assert (info.last_seq, info.messages) == (pair.model.last_seq, len(pair.model.live))
            pair.log.close()


@given(
    before=st.lists(OPERATIONS, max_size=10),
    meanwhile=st.lists(st.lists(OPERATIONS, max_size=3), max_size=12),
    batch_rows=st.sampled_from([1, 5, 20]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_stream_that_changes_while_it_is_read_has_no_wrong_row(
    before: list[tuple[str, ...]], meanwhile: list[list[tuple[str, ...]]], batch_rows: int
) -> None:
    """Each row is one that was published; those that were not removed are there, those removed before not."""
    with quick_directory() as root:
        pair = Pair(str(make_place(root)), None, "s2")
        pair.on_append(b"a.x", True, 100, 200)
        for name, *arguments in before:
            pair.apply(name, *arguments)
        settle(pair.log, None)
        start, last = messages(pair.log), pair.log.last_seq
        batches = StoreDirectory(str(root)).fetch_range(STREAM, 1, last, batch_rows=batch_rows)
        rows: list[pa.RecordBatch] = []
        for operations in meanwhile:
            for name, *arguments in operations:
                if name not in ("reopen", "configure"):
                    pair.apply(name, *arguments)
            settle(pair.log, None)
            rows += [batch for batch in [next(batches, None)] if batch is not None]
        found = contents(pa.Table.from_batches([*rows, *batches], SCHEMA))
        left = messages(pair.log)
        assert found.items() <= start.items()
        assert {seq for seq in start if seq in left} <= found.keys()
        pair.log.close()


@pytest.mark.parametrize("first", [1, 2, 40, 100])
@pytest.mark.parametrize("last", [1, 39, 99, 100])
def test_a_range(quick_path: Path, first: int, last: int) -> None:
    log = make_stream(quick_path)
    expected = [seq for seq in range(1, 101) if first <= seq <= last]
    assert read(quick_path, first, last)["seq"].to_pylist() == expected
    log.close()
    assert read(quick_path, first, last)["seq"].to_pylist() == expected


def test_columns_are_those_of_the_client(quick_path: Path) -> None:
    make_stream(quick_path).close()
    table = read(quick_path)
    assert table.schema.equals(SCHEMA)
    assert set(table["stream"].to_pylist()) == {STREAM}
    assert table["headers"].to_pylist()[4] == [{"key": "key", "value": "value"}]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [CREATED // 1000 + n for n in range(1, 101)]
    assert read(quick_path, headers=False)["headers"].to_pylist() == [[]] * 100


def test_subject_filters(quick_path: Path) -> None:
    make_stream(quick_path).close()
    assert read(quick_path, subjects="a.1")["seq"].to_pylist() == list(range(1, 101, 3))
    assert read(quick_path, subjects=["a.1", "a.2"])["seq"].to_pylist() == [n for n in range(1, 101) if n % 3]
    assert read(quick_path, subjects="*.1", batch_rows=1).num_rows == 34
    assert read(quick_path, subjects="none").num_rows == 0


def test_a_batch_has_at_most_the_rows_that_were_asked_for(quick_path: Path) -> None:
    make_stream(quick_path).close()
    batches = StoreDirectory(str(quick_path)).fetch_range(STREAM, 1, 100, batch_rows=30)
    assert [batch.num_rows for batch in batches] == [30, 30, 30, 10]


def test_times_are_found(quick_path: Path) -> None:
    make_stream(quick_path).close()
    directory = StoreDirectory(str(quick_path))
    for number, seq in (-5, 1), (1, 1), (50, 50), (100, 100), (101, 101):
        assert directory.seq_at_time(STREAM, CREATED + 1000 * number) == seq
    assert directory.seq_at_time(STREAM, CREATED + 1000 * 50 + 1) == 51


def test_an_empty_stream(quick_path: Path) -> None:
    make_place(quick_path)
    directory = StoreDirectory(str(quick_path))
    info = directory.stream_info(STREAM)
    assert (info.first_seq, info.last_seq, info.messages, info.created) == (0, 0, 0, CREATED)
    assert list(directory.fetch_range(STREAM, 1, 0)) == []
    assert directory.seq_at_time(STREAM, 5) == 1


def test_a_batch_of_messages_without_its_commit_is_not_shown(quick_path: Path) -> None:
    """A server removes it when it starts: it was never acknowledged."""
    log = make_stream(quick_path, 10)
    for number in range(1, 4):
        block = b"NATS/1.0\r\nNats-Batch-Id: one\r\nNats-Batch-Sequence: %d\r\n\r\n" % number
        log.append(b"a.x", block, b"torn")
    log.close()
    assert read(quick_path)["seq"].to_pylist() == list(range(1, 11))
    with pytest.raises(MessagesMissing, match="ends at 10, before 13"):
        read(quick_path, 1, 13)


# -- what is missing


def test_the_end_is_checked(quick_path: Path) -> None:
    make_stream(quick_path).close()
    with pytest.raises(MessagesMissing, match="ORDERS ends at 100, before 101, which was asked for"):
        read(quick_path, 1, 101)


def test_a_head_that_is_gone_is_loss_and_a_gap_is_not(quick_path: Path) -> None:
    log = make_stream(quick_path)
    log.remove_many([40, 41])
    log.close()
    assert read(quick_path, 40, 50, fail_on_loss=True)["seq"].to_pylist() == list(range(42, 51))
    log = Log(str(quick_path / "jetstream/$G/streams/ORDERS/msgs"), segment_bytes=4096)
    log.recover()
    log.compact(60)
    log.close()
    assert read(quick_path, 40, 70)["seq"].to_pylist() == list(range(60, 71))
    with pytest.raises(MessagesMissing, match="starts at 60 by now; messages from 40 are gone"):
        read(quick_path, 40, 70, fail_on_loss=True)


def test_a_stream_that_is_created_again_is_another_one(quick_path: Path) -> None:
    make_stream(quick_path).close()
    batches = StoreDirectory(str(quick_path)).fetch_range(STREAM, 1, 100, batch_rows=10)
    assert next(batches)["seq"].to_pylist() == list(range(1, 11))
    shutil.rmtree(quick_path / "jetstream")
    make_stream(quick_path, created=CREATED + 1).close()
    with pytest.raises(MessagesMissing, match="was deleted and re-created while it was read"):
        list(batches)


def test_a_stream_that_is_deleted_meanwhile_is_not_found(quick_path: Path) -> None:
    make_stream(quick_path).close()
    batches = StoreDirectory(str(quick_path)).fetch_range(STREAM, 1, 100, batch_rows=10)
    next(batches)
    shutil.rmtree(quick_path / "jetstream/$G/streams/ORDERS")
    with pytest.raises(StreamNotFound):
        list(batches)


def test_files_that_change_for_ever(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stale:
        next_seq = 1
        damaged = False

        def __init__(self, *_: object) -> None: ...

        def fill(self, *_: object) -> None:
            raise FileNotFoundError(2, "gone again")

    make_stream(quick_path).close()
    monkeypatch.setattr(stored_fetch_module, "StoredRows", Stale)
    with pytest.raises(FetchFailed, match="replaced faster than they can be read"):
        read(quick_path, 1, 10)


# -- damage


def damage(root: Path, number: int, text: bytes, by: bytes) -> None:
    path = files(root / "jetstream/$G/streams/ORDERS/msgs", "log")[number]
    data = path.read_bytes()
    assert text in data
    path.write_bytes(data.replace(text, by, 1))


def test_damaged_messages_are_passed_over_and_reported(quick_path: Path) -> None:
    make_stream(quick_path).close()
    damage(quick_path, 0, b"message 5 message", b"massage 5 message")
    damage(quick_path, 0, b"message 9 message", b"massage 9 message")
    lines: list[str] = []
    directory = StoreDirectory(str(quick_path), lines.append)
    table = pa.Table.from_batches(directory.fetch_range(STREAM, 1, 100, fail_on_loss=True))
    assert table["seq"].to_pylist() == [seq for seq in range(1, 101) if seq not in (5, 9)]
    assert lines == [
        "2 messages of the stream ORDERS, the first is 5, are damaged: they are not among the rows"
    ]


def test_every_byte_of_a_segment_is_checked(quick_path: Path) -> None:
    log = make_stream(quick_path, 30)
    expected = messages(log)
    log.close()
    path = files(quick_path / "jetstream/$G/streams/ORDERS/msgs", "log")[0]
    whole = path.read_bytes()
    for at in range(0, len(whole), 37):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        found = contents(read(quick_path, 1, 30))
        assert found.items() <= expected.items()
        assert len(found) >= len(expected) - 1


# -- finding the directory


def test_the_directory_of_an_account_or_of_all_of_them(quick_path: Path) -> None:
    make_stream(quick_path, account="ACME").close()
    for path in quick_path / "jetstream" / "ACME", quick_path / "jetstream" / "ACME" / "":
        assert StoreDirectory(str(path)).stream_names() == [STREAM]
    with pytest.raises(UsageError, match="has streams of the accounts ACME") as caught:
        StoreDirectory(str(quick_path)).stream_names()
    assert str(quick_path / "jetstream" / "ACME") in caught.value.hint
    make_stream(quick_path, 3).close()
    for path in quick_path, quick_path / "jetstream":
        assert StoreDirectory(str(path)).stream_info(STREAM).last_seq == 3


def test_an_unknown_stream_names_those_that_exist(quick_path: Path) -> None:
    make_stream(quick_path).close()
    make_place(quick_path, "PAYMENTS")
    with pytest.raises(StreamNotFound, match="stream NONE: there is no such stream in") as caught:
        StoreDirectory(str(quick_path)).stream_info("NONE")
    assert caught.value.hint.startswith("it has ORDERS, PAYMENTS; streams in memory have no files")
    with pytest.raises(UsageError, match="not a valid stream name"):
        StoreDirectory(str(quick_path)).stream_info("../ORDERS")


def test_directories_that_are_none(quick_path: Path) -> None:
    with pytest.raises(UsageError, match="is not the storage directory of a headrace server"):
        StoreDirectory(str(quick_path)).stream_info(STREAM)
    with pytest.raises(StoreUnreadable, match="no such file or directory"):
        StoreDirectory(str(quick_path / "none")).stream_info(STREAM)
    place = make_place(quick_path).parent
    (place / "meta.json").write_bytes(b"headrace 1 00000000\n{}")
    with pytest.raises(StoreUnreadable, match=r"meta\.json: damaged, its checksum does not match"):
        StoreDirectory(str(quick_path)).stream_info(STREAM)
    (place / "meta.json").rename(place / "meta.inf")
    with pytest.raises(UsageError, match="was written by nats-server, whose files cannot be read"):
        StoreDirectory(str(quick_path)).stream_info(STREAM)


def test_a_work_queue_is_refused_as_by_a_server(quick_path: Path) -> None:
    make_stream(quick_path, retention="workqueue").close()
    with pytest.raises(UsageError, match="the stream ORDERS has the retention workqueue"):
        read(quick_path)


# -- at the same time


class Journal:
    """What is certain about the log of `stream_at_work`."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._path, self._place, self._rest = path, 0, b""
        self.facts: dict[str, set[int]] = {"added": set(), "removing": set(), "removed": set()}

    def read(self) -> dict[str, set[int]]:
        with self._path.open("rb") as file:
            file.seek(self._place)
            written = file.read()
        self._place += len(written)
        *lines, self._rest = (self._rest + written).split(b"\n")
        for line in lines:
            what, *seqs = line.split()
            self.facts[what.decode()].update(map(int, seqs))
        return {what: set(seqs) for what, seqs in self.facts.items()}

    def forget_old(self) -> None:
        """The log has but a few hundred messages."""
        oldest = max(self.facts["added"], default=0) - 5000
        for seqs in self.facts.values():
            seqs -= {seq for seq in seqs if seq < oldest}


def test_a_log_that_another_process_changes_without_a_pause(quick_path: Path) -> None:
    """Segments are sealed, rewritten, compressed and unlinked all the time while they are read."""
    journal = Journal(quick_path / "journal")
    place, facts = make_place(quick_path), str(quick_path / "journal")
    command = [sys.executable, "-m", "tests.client.stream_at_work", str(place), facts, "7"]
    directory, reads = StoreDirectory(str(quick_path)), 0
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        end = time.monotonic() + AT_WORK_SECONDS
        while reads < MANY_READS or time.monotonic() < end:
            assert process.poll() is None
            before = journal.read()
            last = max(before["added"], default=0)
            if not last:
                continue
            batches = directory.fetch_range(STREAM, 1, last, batch_rows=20)
            found = contents(pa.Table.from_batches(batches, SCHEMA))
            after = journal.read()
            assert not found.keys() & before["removed"], "removed messages are back"
            missing = before["added"] - after["removing"] - found.keys()
            assert not missing, f"messages are missing: {sorted(missing)[:5]}"
            assert all(data == payload(seq) for seq, (_, _, data) in found.items())
            reads += 1
            journal.forget_old()
        process.stdin.close()
    assert process.returncode == 0

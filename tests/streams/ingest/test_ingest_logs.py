"""What ingest reads from a log, and removes from it, with the engine's own log in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from headrace.streams import headers
from headrace.streams.errors import ApiError
from headrace.streams.ingest.batches import remove_torn_batch
from headrace.streams.ingest.counters import read_total
from headrace.streams.ingest.rollup import messages_of
from headrace.streams.origins.source_positions import STEP_MESSAGES, Position, Positions
from headrace.streams.slices import at_once


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log(None, committer=None)
    log.recover()
    yield log
    log.close()


def with_headers(**values: str) -> bytes:
    block = b""
    for name, value in values.items():
        block = headers.append(block, name.replace("_", "-").encode(), value.encode())
    return block


def left(log: Log) -> list[int]:
    found = []
    seq = 1
    while (message := log.next(seq, Filter(()))) is not None:
        found.append(message.seq)
        seq = message.seq + 1
    return found


def append_batch(log: Log, batch_id: str, seqs: range, *, commits: bool) -> None:
    for seq in seqs:
        values = {"Nats_Batch_Id": batch_id, "Nats_Batch_Sequence": str(seq)}
        if commits and seq == seqs[-1]:
            values["Nats_Batch_Commit"] = "1"
        log.append(b"s", with_headers(**values), b"")
    log.commit()


def test_a_torn_batch_is_removed_and_what_is_before_it_stays(log: Log) -> None:
    log.append(b"s", b"", b"plain")
    append_batch(log, "whole", range(1, 4), commits=True)
    append_batch(log, "torn", range(1, 3), commits=False)
    assert remove_torn_batch(log) == 2
    assert left(log) == [1, 2, 3, 4]
    assert log.last_seq == 6


def test_a_batch_of_the_same_id_before_a_torn_one_stays(log: Log) -> None:
    append_batch(log, "b", range(1, 3), commits=True)
    append_batch(log, "b", range(1, 3), commits=False)
    assert remove_torn_batch(log) == 2
    assert left(log) == [1, 2]


@pytest.mark.parametrize("commits", [True, False])
def test_a_log_without_a_torn_batch_is_left_alone(log: Log, commits: bool) -> None:
    assert remove_torn_batch(log) == 0
    append_batch(log, "b", range(1, 4), commits=commits)
    log.append(b"s", b"", b"after it")
    log.commit()
    assert remove_torn_batch(log) == 0
    assert log.count == 4


def test_a_rollup_sees_what_is_not_committed_yet(log: Log) -> None:
    for subject in (b"a", b"b", b"a"):
        log.append(subject, b"", b"")
    log.commit()
    for subject in (b"b", b"a"):
        log.append(subject, b"", b"")
    assert messages_of(log, b"a") == [1, 3, 5]
    assert messages_of(log, b"none") == []


def test_the_total_of_a_counter_is_in_the_last_message(log: Log) -> None:
    assert read_total(log, b"c").sum == 0
    log.append(b"c", b"", b'{"val":"5"}')
    log.append(b"c", with_headers(Nats_Counter_Sources='{"A":{"x":"2"}}'), b'{"val":"-7"}')
    log.append(b"d", b"", b"no counter")
    log.append(b"e", with_headers(Nats_Counter_Sources="x"), b'{"val":"1"}')
    total = read_total(log, b"c")
    assert (total.sum, total.sources) == (-7, {"A": {"x": "2"}})
    for subject in (b"d", b"e"):
        with pytest.raises(ApiError, match="message counter is broken"):
            read_total(log, subject)


def sourced(log: Log, name: str, seq: int) -> None:
    log.append(b"s", with_headers(Nats_Stream_Source=f"{name} {seq} > > o ID"), b"")


def test_positions_are_found_in_the_headers(log: Log) -> None:
    for name, seq in (("A", 1), ("B", 1), ("A", 2), ("A", 5)):
        sourced(log, name, seq)
    log.append(b"s", b"", b"own")
    log.commit()
    positions = Positions(log, None)
    at_once(positions.recover({"A > >", "B > >", "C > >"}))
    assert positions.get("A > >") == Position(5, "ID")
    assert positions.get("B > >") == Position(1, "ID")
    assert positions.get("C > >") is None


@pytest.mark.timeout(60)
def test_positions_are_found_before_a_wide_gap(log: Log) -> None:
    sourced(log, "A", 5)
    log.append(b"s", b"", b"own", seq=2**53)
    log.commit()
    positions = Positions(log, None)
    at_once(positions.recover({"A > >", "B > >"}))
    assert positions.get("A > >") == Position(5, "ID")


@pytest.mark.parametrize("has_file", [False, True])
def test_positions_are_searched_in_slices_and_not_saved_meanwhile(
    log: Log, tmp_path: Path, has_file: bool
) -> None:
    positions = Positions(log, str(tmp_path))
    if has_file:
        positions.advance("C > >", Position(1, "ID"))
        positions.save()
    sourced(log, "A", 5)
    for _ in range(10 * STEP_MESSAGES):
        log.append(b"s", b"", b"own")
    log.commit()
    search = positions.recover({"A > >"})
    next(search)
    positions.advance("B > >", Position(2, "ID"))
    positions.save()
    unsaved = Positions(log, str(tmp_path))
    unsaved.load()
    at_once(unsaved.recover({"B > >"}))
    assert unsaved.get("B > >") is None
    assert sum(1 for _ in search) == 9
    assert positions.get("A > >") == Position(5, "ID")
    positions.save()
    log.purge()
    found = Positions(log, str(tmp_path))
    found.load()
    at_once(found.recover({"A > >", "B > >"}))
    assert (found.get("A > >"), found.get("B > >")) == (Position(5, "ID"), Position(2, "ID"))


def test_positions_outlive_their_messages(log: Log, tmp_path: Path) -> None:
    sourced(log, "A", 7)
    log.commit()
    positions = Positions(log, str(tmp_path))
    positions.advance("A > >", Position(7, "ID"))
    positions.save()
    log.purge()
    sourced(log, "B", 3)
    log.commit()
    found = Positions(log, str(tmp_path))
    found.load()
    at_once(found.recover({"A > >", "B > >"}))
    assert found.get("A > >") == Position(7, "ID")
    assert found.get("B > >") == Position(3, "ID")


def test_a_damaged_file_of_positions_is_not_believed(log: Log, tmp_path: Path) -> None:
    sourced(log, "A", 7)
    log.commit()
    (tmp_path / "sources.json").write_bytes(b'{"last_seq":1,"positions":{"A > >":{"seq":9')
    positions = Positions(log, str(tmp_path))
    positions.load()
    at_once(positions.recover({"A > >"}))
    assert positions.get("A > >") == Position(7, "ID")

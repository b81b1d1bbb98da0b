"""The log: what a caller sees, on the memory store and on the file store."""

from __future__ import annotations

import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engine.basics.filters import Filter
from headrace.engine.store.committer import Committer
from headrace.engine.store.log import Log, Refused
from tests.engine.store.logs import EVERYTHING, content, erase, files, messages, reopen, settle, watch

HEADERS = b"NATS/1.0\r\nkey: value\r\n\r\n"


@pytest.fixture
def committer() -> Iterator[Committer]:
    made = Committer(2)
    yield made
    made.close()


@pytest.fixture(params=["memory", "files"])
def log(request: pytest.FixtureRequest, tmp_path: Path, committer: Committer) -> Iterator[Log]:
    made = Log(None if request.param == "memory" else str(tmp_path / "log"), committer=committer)
    assert made.recover() == []
    yield made
    made.close()


def fill(log: Log, count: int, committer: Committer) -> None:
    for k in range(count):
        log.append(b"s.%d" % (k % 3), HEADERS if k % 2 else b"", b"payload %d" % k, 1000 + k)
    assert settle(log, committer) is None


def test_an_empty_log(log: Log) -> None:
    assert (log.first_seq, log.last_seq, log.committed_seq, log.count, log.byte_count) == (0, 0, 0, 0, 0)
    assert (log.first_time, log.last_time, log.num_deleted, log.deleted()) == (0, 0, 0, [])
    assert log.get(1) is None
    assert log.next(0, EVERYTHING) is None
    assert log.last(b"a") == 0
    assert log.subject_state(b"a") is None
    assert log.seek_time(5) == 1
    assert log.count_from(0, EVERYTHING) == 0
    assert not log.remove(1)


def test_a_message_comes_back_as_it_was(log: Log, committer: Committer) -> None:
    assert log.append(b"orders.eu", HEADERS, b"hello", 123) == 1
    stored = log.get(1)
    assert stored is not None
    assert (stored.seq, stored.time, *content(stored)) == (1, 123, b"orders.eu", HEADERS, b"hello")
    assert settle(log, committer) is None
    stored = log.get(1)
    assert stored is not None
    assert (stored.seq, stored.time, *content(stored)) == (1, 123, b"orders.eu", HEADERS, b"hello")
    assert (log.first_time, log.last_time) == (123, 123)


@pytest.mark.parametrize("size", [0, 1, 1000, 70_000, 3_000_000])
def test_payloads_of_any_size(log: Log, committer: Committer, size: int) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    for k in range(3):
        log.append(b"s", b"", payload[k : size + k])
    assert settle(log, committer) is None
    for k in range(3):
        stored = log.get(k + 1)
        assert stored is not None
        assert stored.payload == payload[k : size + k]


def test_readers_see_what_is_committed(log: Log, committer: Committer) -> None:
    log.append(b"s", b"", b"1")
    assert log.next(0, EVERYTHING) is None
    assert log.count_from(0, EVERYTHING) == 0
    assert log.committed_seq == 0
    assert settle(log, committer) is None
    assert log.committed_seq == 1
    assert log.next(0, EVERYTHING) is not None
    assert log.count_from(0, EVERYTHING) == 1


def test_sizes_are_counted_as_in_nats_server(log: Log) -> None:
    log.append(b"abc", b"", b"12345")
    plain = log.byte_count
    log.append(b"abc", HEADERS, b"12345")
    in_memory = log.directory is None
    assert plain == (16 if in_memory else 30) + 8
    assert log.byte_count == 2 * plain + len(HEADERS) + (0 if in_memory else 4)


def test_sequences_end_and_do_not_begin_again(log: Log, committer: Committer) -> None:
    log.skip(2**64 - 2)
    assert log.append(b"s", b"", b"the last one") == 2**64 - 2
    for _ in range(3):
        with pytest.raises(Refused, match="last_seq"):
            log.append(b"s", b"", b"one too many")
    settle(log, committer)
    log.configure(max_msgs_per_subject=1)  # searches the whole log, up to the sequence behind the last
    assert (log.first_seq, log.last_seq, log.count) == (2**64 - 2, 2**64 - 2, 1)
    assert log.next(0, EVERYTHING) is not None
    assert log.next(2**64 - 1, EVERYTHING) is None
    assert log.purge() == 1
    with pytest.raises(Refused, match="last_seq"):
        log.append(b"s", b"", b"still")


def test_a_given_sequence_leaves_a_gap(log: Log) -> None:
    assert log.append(b"s", b"", b"", 0, 5) == 5
    assert (log.first_seq, log.last_seq) == (5, 5)
    assert log.append(b"s", b"", b"", 0, 9) == 9
    assert log.deleted() == [6, 7, 8]
    assert log.num_deleted == 3
    with pytest.raises(ValueError, match="not above 9"):
        log.append(b"s", b"", b"", 0, 9)


def test_skipping_sets_the_next_sequence(log: Log) -> None:
    log.skip(100)
    assert (log.first_seq, log.last_seq, log.count) == (100, 99, 0)
    assert log.append(b"s", b"", b"") == 100
    log.skip(1_000_000_000_000)
    assert log.append(b"s", b"", b"") == 1_000_000_000_000
    assert log.count == 2
    with pytest.raises(ValueError, match="not above"):
        log.skip(5)


def test_reading_with_a_filter(log: Log, committer: Committer) -> None:
    fill(log, 30, committer)
    only = Filter((b"s.1",))
    message = log.next(3, only)
    assert message is not None
    assert (message.seq, message.subject) == (5, b"s.1")
    assert log.next(30, only) is None
    assert log.next(0, Filter((b"none",))) is None
    assert log.count_from(3, only) == 9
    assert log.count_from(0, Filter((b"s.0", b"s.2"))) == 20
    assert log.count_from(25, Filter((b"s.*",))) == 6
    assert log.subjects(Filter((b"s.0", b"s.1"))) == {b"s.0": (10, 1, 28), b"s.1": (10, 2, 29)}
    assert log.count_subjects(EVERYTHING) == {b"s.0": 10, b"s.1": 10, b"s.2": 10}


def test_seeking_a_time(log: Log, committer: Committer) -> None:
    fill(log, 50, committer)
    log.remove_many(range(10, 20))
    assert log.seek_time(0) == 1
    assert log.seek_time(1000) == 1
    assert log.seek_time(1005) == 6
    assert log.seek_time(1009) == 20
    assert log.seek_time(1012) == 20
    assert log.seek_time(1049) == 50
    assert log.seek_time(1050) == 51


@pytest.mark.parametrize("erase", [False, True])
def test_removing(log: Log, committer: Committer, erase: bool) -> None:
    fill(log, 10, committer)
    assert log.remove(5, erase=erase)
    assert not log.remove(5, erase=erase)
    assert log.get(5) is None
    assert log.deleted() == [5]
    assert log.remove(1, erase=erase)
    assert log.first_seq == 2
    assert log.remove_many([2, 3, 4, 77]) == 3
    assert (log.first_seq, log.deleted()) == (6, [])
    assert log.compact(9) == 3
    assert (log.first_seq, log.count) == (9, 2)
    assert log.purge() == 2
    assert (log.first_seq, log.last_seq, log.count, log.byte_count, log.first_time) == (11, 10, 0, 0, 0)
    assert log.last_time == 1009
    assert log.append(b"s", b"", b"") == 11


def test_erased_text_is_not_on_disk_any_more(tmp_path: Path, committer: Committer) -> None:
    log = Log(str(tmp_path / "log"), committer=committer)
    log.recover()
    log.append(b"s", b"", b"before")
    log.append(b"s", b"", b"very secret")
    assert settle(log, committer) is None
    log.append(b"s", b"", b"another secret")  # not written when it is erased
    log.append(b"s", b"", b"behind")
    assert b"very secret" in files(tmp_path / "log", "log")[0].read_bytes()
    assert log.remove(2, erase=True)
    assert log.remove(3, erase=True)
    assert settle(log, committer) is None
    assert erase(log, committer) is None
    assert b"secret" not in files(tmp_path / "log", "log")[0].read_bytes()
    log = reopen(log, committer)
    assert [message[2] for message in messages(log).values()] == [b"before", b"behind"]
    log.close()


def test_compacting_beyond_the_end(log: Log, committer: Committer) -> None:
    fill(log, 5, committer)
    assert log.compact(100) == 5
    assert (log.first_seq, log.last_seq) == (100, 99)
    assert log.append(b"s", b"", b"") == 100


# -- limits ----------------------------------------------------------------------------------------


def test_old_messages_make_room(log: Log, committer: Committer) -> None:
    log.configure(max_msgs=5)
    fill(log, 12, committer)
    assert (log.first_seq, log.count) == (8, 5)
    log.configure(max_msgs=2)
    assert (log.first_seq, log.count) == (11, 2)
    log.configure(max_bytes=log.byte_count - 1)
    assert log.count == 1


def test_a_subject_keeps_its_last_messages(log: Log, committer: Committer) -> None:
    log.configure(max_msgs_per_subject=2)
    fill(log, 30, committer)
    assert log.subject_state(b"s.0") == (2, 25, 28)
    assert (log.first_seq, log.count) == (25, 6)
    log.configure(max_msgs_per_subject=1)
    assert sorted(messages(log)) == [28, 29, 30]


@pytest.mark.parametrize("reason", ["max_msgs", "max_bytes"])
def test_new_messages_are_refused(log: Log, reason: str) -> None:
    log.append(b"s", b"", b"12345")
    log.configure(**{reason: 1 if reason == "max_msgs" else log.byte_count + 4}, discard_new=True)  # type: ignore[arg-type]
    with pytest.raises(Refused) as refused:
        log.append(b"s", b"", b"12345")
    assert refused.value.reason == reason
    assert (log.last_seq, log.count) == (1, 1)


def test_a_full_log_takes_what_replaces(log: Log) -> None:
    log.append(b"a", b"", b"12345")
    log.append(b"b", b"", b"12345")
    log.configure(max_msgs=2, max_bytes=log.byte_count, max_msgs_per_subject=1, discard_new=True)
    assert log.append(b"a", b"", b"54321") == 3
    assert sorted(log.subjects(EVERYTHING)) == [b"a", b"b"]
    with pytest.raises(Refused, match="max_bytes"):
        log.append(b"b", b"", b"123456")
    with pytest.raises(Refused, match="max_msgs"):
        log.append(b"c", b"", b"")
    log.configure(max_msgs_per_subject=1, discard_new=True, discard_new_per_subject=True)
    with pytest.raises(Refused, match="max_msgs_per_subject"):
        log.append(b"a", b"", b"")
    assert log.append(b"a", b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n", b"") == 4


# -- committing ------------------------------------------------------------------------------------


def test_watchers_count_what_is_ahead_of_them(log: Log, committer: Committer) -> None:
    fill(log, 9, committer)
    everything = watch(log, 1)
    some = watch(log, 4, b"s.1")
    later = watch(log, 12)
    assert (everything.num_pending, some.num_pending, later.num_pending) == (9, 2, 0)
    log.append(b"s.1", b"", b"")
    assert (everything.num_pending, some.num_pending) == (9, 2)
    assert settle(log, committer) is None
    assert (everything.num_pending, some.num_pending, later.num_pending) == (10, 3, 0)
    log.remove(5)
    log.remove(2)
    assert (everything.num_pending, some.num_pending) == (8, 2)
    log.append(b"s.1", b"", b"")
    log.append(b"s.1", b"", b"")
    log.remove(11)  # never committed, so never counted
    assert settle(log, committer) is None
    assert (everything.num_pending, some.num_pending, later.num_pending) == (9, 3, 1)
    log.remove_watcher(some)
    log.purge()
    assert (everything.num_pending, some.num_pending, later.num_pending) == (0, 3, 0)


def test_callbacks_come_when_it_is_on_disk(log: Log, committer: Committer) -> None:
    told: list[object] = []
    log.on_committed = lambda: told.append("group")
    log.when_committed(lambda failure: told.append(("at once", failure)))
    assert told == [("at once", None)]
    log.append(b"s", b"", b"")
    log.when_committed(lambda failure: told.append(("first", failure)))
    log.append(b"s", b"", b"")
    log.when_committed(lambda failure: told.append(("second", failure)))
    while len(told) < 5:
        select.select([committer], [], [], 30)
        committer.poll()
    assert told == [("at once", None), ("first", None), "group", ("second", None), "group"]


def test_an_error_in_a_callback_does_not_stop_the_others(log: Log, committer: Committer) -> None:
    told: list[object] = []

    def broken(failure: str | None) -> None:
        raise RuntimeError("a bug")

    log.append(b"s", b"", b"")
    with pytest.raises(RuntimeError, match="a bug"):  # noqa: PT012
        log.when_committed(broken)
        log.when_committed(told.append)
        while not told:
            select.select([committer], [], [], 30)
            committer.poll()
    settle(log, committer)
    assert log.committed_seq == 1


def test_everything_survives_closing(tmp_path: Path, committer: Committer) -> None:
    log = Log(str(tmp_path / "log"), committer=committer)
    log.recover()
    fill(log, 100, committer)
    log.remove_many([1, 2, 50, 51, 53, 100])
    log.append(b"not committed", b"", b"by the caller, so close() does it")
    before = {seq: content(message) for seq in range(1, 102) if (message := log.get(seq)) is not None}
    state = (
        log.first_seq,
        log.last_seq,
        log.count,
        log.byte_count,
        log.first_time,
        log.last_time,
        log.deleted(),
    )
    log = reopen(log, committer)
    assert messages(log) == before
    assert state == (
        log.first_seq, log.last_seq, log.count, log.byte_count, log.first_time, log.last_time, log.deleted()
    )  # fmt: skip
    log.close()
    log.close()
    with pytest.raises(ValueError, match="not open"):
        log.append(b"s", b"", b"")


def test_an_emptied_log_keeps_its_place(tmp_path: Path, committer: Committer) -> None:
    log = Log(str(tmp_path / "log"), committer=committer, segment_bytes=4096)
    log.recover()
    fill(log, 200, committer)
    log.purge()
    log = reopen(log, committer)
    assert (log.first_seq, log.last_seq, log.count, log.last_time) == (201, 200, 0, 1199)
    log.skip(500)
    log = reopen(log, committer)
    assert (log.first_seq, log.last_seq) == (500, 499)
    assert len(files(tmp_path / "log", "log")) <= 2
    log.close()


def test_a_change_of_limits_resurrects_nothing(tmp_path: Path, committer: Committer) -> None:
    log = Log(str(tmp_path / "log"), committer=committer)
    log.recover()
    log.configure(max_msgs=10, max_msgs_per_subject=3)
    fill(log, 100, committer)
    before = messages(log)
    log = reopen(log, committer)
    assert messages(log) == before
    log.close()


def test_destroying_leaves_nothing(tmp_path: Path, committer: Committer) -> None:
    log = Log(str(tmp_path / "log"), committer=committer, segment_bytes=4096)
    log.recover()
    fill(log, 200, committer)
    log.append(b"s", b"", b"under way")
    log.commit()
    log.destroy()
    assert not (tmp_path / "log").exists()
    log.destroy()


def test_without_a_committer_a_commit_is_done_at_once(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "log"))
    log.recover()
    log.append(b"s", b"", b"x")
    log.commit()
    assert log.committed_seq == 1
    log.close()


def test_a_log_outlives_its_committer(tmp_path: Path) -> None:
    committer = Committer()
    log = Log(str(tmp_path / "log"), committer=committer)
    log.recover()
    log.append(b"s", b"", b"x")
    log.commit()
    committer.close()
    log.append(b"s", b"", b"y")
    log = reopen(log, None)
    assert log.count == 2
    log.close()


def test_with_an_interval_a_commit_does_not_wait_for_the_sync(tmp_path: Path) -> None:
    committer = Committer(sync_interval=3600)
    log = Log(str(tmp_path / "log"), committer=committer, segment_bytes=4096)
    log.recover()
    fill(log, 300, committer)
    assert log.committed_seq == 300
    log.close()  # does not wait for an hour
    committer.close()


@pytest.mark.parametrize("index", ["kept", "lost"])
def test_the_sequence_of_an_erased_last_message_is_not_used_again(
    tmp_path: Path, committer: Committer, index: str
) -> None:
    """A second message of that sequence would be removed by the record that removed the first one."""
    for start in range(3):
        log = Log(str(tmp_path / "log"), committer=committer)
        assert log.recover() == []
        assert log.last_seq == start
        assert log.append(b"s", b"", b"text") == start + 1
        assert settle(log, committer) is None
        assert log.remove(start + 1, erase=True)
        assert settle(log, committer) is None
        log.close()
        if index == "lost":
            for file in files(tmp_path / "log", "idx"):
                file.unlink()


def test_the_last_sequences_up_to_one(log: Log, committer: Committer) -> None:
    for number in range(1, 13):
        log.append(b"s.%d" % (number % 3), b"", b"x")
    assert settle(log, committer) is None
    everything = Filter((b"s.*",))
    assert log.last_up_to(everything, 12) == {b"s.1": 10, b"s.2": 11, b"s.0": 12}
    assert log.last_up_to(everything, 7) == {b"s.1": 7, b"s.2": 5, b"s.0": 6}
    assert log.last_up_to(Filter((b"s.0",)), 2) == {}
    log.remove(7)
    assert log.last_up_to(everything, 8) == {b"s.1": 4, b"s.2": 8, b"s.0": 6}

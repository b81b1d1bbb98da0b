"""Damaged files: a torn tail is cut, other damage is passed over and reported, no bad byte is ever served."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from tests.engine.store.logs import Model, content, files, messages

HEADERS = b"NATS/1.0\r\nkey: value\r\n\r\n"
HEAD = 128  # of a segment
RECORD = 40  # bytes of a record before its text


def write_log(
    directory: Path, count: int, *, segment_bytes: int = 1 << 26
) -> dict[int, tuple[bytes, bytes, bytes]]:
    log = Log(str(directory), segment_bytes=segment_bytes)
    assert log.recover() == []
    for k in range(count):
        log.append(b"subject.%d" % (k % 3), HEADERS if k % 2 else b"", b"payload number %d" % k)
    log.commit()
    written = messages(log)
    log.close()
    assert len(written) == count
    return written


def record_ends(written: dict[int, tuple[bytes, bytes, bytes]]) -> list[int]:
    ends = [HEAD]
    for message in written.values():
        ends.append(ends[-1] + RECORD + sum(map(len, message)))
    return ends


def open_copy(directory: Path, copy: Path) -> tuple[Log, list[str]]:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(directory, copy)
    log = Log(str(copy))
    return log, log.recover()


@pytest.mark.parametrize("behind", [b"", b"\0" * 5000, b"\xff" * 3, b"rubbish" * 100])
def test_a_torn_tail_is_cut_back_to_the_last_good_record(quick_path: Path, behind: bytes) -> None:
    written = write_log(quick_path / "log", 6)
    files(quick_path / "log", "idx")[0].unlink()
    (segment,) = files(quick_path / "log", "log")
    data = segment.read_bytes()
    ends = record_ends(written)
    assert ends[-1] == len(data)
    for length in range(ends[2], len(data) + 1):
        segment.write_bytes(data[:length] + behind)
        log, reports = open_copy(quick_path / "log", quick_path / "copy")
        intact = {seq: message for seq, message in written.items() if ends[seq] <= length}
        assert messages(log) == intact, length
        torn = (
            bool(behind.strip(b"\0"))
            or data[max(end for end in ends if end <= length) : length].strip(b"\0") != b""
        )
        assert len(reports) == torn, (length, reports)
        # And it goes on from there.
        assert log.append(b"subject", b"", b"after") == len(intact) + 1
        log.commit()
        log.close()
        again = Log(str(quick_path / "copy"))
        assert again.recover() == []
        assert len(messages(again)) == len(intact) + 1
        again.close()


@pytest.mark.parametrize("with_index", [False, True])
@pytest.mark.parametrize("segment", [0, 1])
def test_a_flipped_byte_costs_one_message_and_is_never_served(
    quick_path: Path, segment: int, with_index: bool
) -> None:
    written = write_log(quick_path / "log", 60, segment_bytes=4096)
    paths = files(quick_path / "log", "log")
    assert len(paths) == 2
    if not with_index:
        for path in files(quick_path / "log", "idx"):
            path.unlink()
    data = paths[segment].read_bytes()
    reported = lost_in_all = 0
    for place in range(0, len(data), 1 if len(data) < 3000 else 5):
        paths[segment].write_bytes(data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :])
        log, reports = open_copy(quick_path / "log", quick_path / "copy")
        found = messages(log)
        assert found.items() <= written.items(), place
        lost = len(written) - len(found)
        assert lost == (place >= HEAD), place
        for seq in written:
            message = log.get(seq)
            assert message is None or content(message) == written[seq]
        assert bool(reports) == (place >= HEAD and not with_index), (place, reports)
        assert bool(log.damages) == (place >= HEAD), place
        # With an index it is known that there is one, and it may be readable again: it is still counted.
        assert log.count == len(found) + (lost if with_index else 0)
        reported += bool(log.damages)
        lost_in_all += lost
        log.close()
    assert reported == lost_in_all > 0


@pytest.mark.parametrize("with_index", [True, False])
def test_a_sealed_segment_that_tar_padded_with_zeros(quick_path: Path, with_index: bool) -> None:
    """It became shorter while it was read: tar keeps the length that it had before."""
    written = write_log(quick_path / "log", 200, segment_bytes=4096)
    for path in files(quick_path / "log", "log"):
        with path.open("ab") as file:
            file.write(bytes(3000))
    for path in files(quick_path / "log", "idx") if not with_index else []:
        path.unlink()
    log = Log(str(quick_path / "log"))
    log.recover()
    assert (messages(log), log.count, log.deleted(), log.damages) == (written, 200, [], [])
    log.close()


def test_a_block_of_zeros_in_the_middle(quick_path: Path) -> None:
    written = write_log(quick_path / "log", 40)
    (path,) = files(quick_path / "log", "log")
    files(quick_path / "log", "idx")[0].unlink()
    data = bytearray(path.read_bytes())
    data[1000:1512] = bytes(512)
    path.write_bytes(data)
    log = Log(str(quick_path / "log"))
    (report,) = log.recover()
    assert "damaged" in report
    found = messages(log)
    assert found.items() <= written.items()
    assert 40 - len(found) <= 8
    assert log.last_seq == 40
    assert log.deleted() == sorted(set(written) - set(found))
    log.close()


@pytest.mark.parametrize("kind", ["log", "idx"])
def test_a_head_that_is_damaged_in_both_copies(quick_path: Path, kind: str) -> None:
    written = write_log(quick_path / "log", 60, segment_bytes=4096)
    path = files(quick_path / "log", kind)[0]
    data = bytearray(path.read_bytes())
    data[0:HEAD] = b"\xee" * HEAD
    path.write_bytes(data)
    log = Log(str(quick_path / "log"))
    reports = log.recover()
    found = messages(log)
    if kind == "idx":
        assert (reports, found) == ([], written)
    else:
        assert "head is damaged" in reports[0]
        assert 0 < len(found) < 60
        assert found.items() <= written.items()
        assert path.with_suffix(".log.damaged").read_bytes() == bytes(data)
    log.close()


@pytest.mark.parametrize("pattern", [b"s.*", b"s.subject-of-some-length"])
def test_a_question_that_finds_everything_damaged(quick_path: Path, pattern: bytes) -> None:
    """Nothing of it can be read, but it is there, and may be readable again."""
    name = b"s.subject-of-some-length"

    def damaged_log(removed: tuple[int, int]) -> Log:
        """A log whose subject has to be searched for its first or last message."""
        directory = quick_path / "log"
        shutil.rmtree(directory, ignore_errors=True)
        log = Log(str(directory))
        log.recover()
        payload = b"x" * 100_000  # more than is read ahead
        for _ in range(5):
            log.append(name, b"", payload)
        log.commit()
        log.close()
        log = Log(str(directory))
        log.recover()
        for seq in removed:
            log.remove(seq)
        log.commit()
        damage(directory, b"y")
        return log

    def damage(directory: Path, byte: bytes) -> None:
        with files(directory, "log")[0].open("r+b") as file:
            for place in (50_000, 150_000, 250_000, 350_000, 450_000):
                file.seek(place)
                file.write(byte)

    wanted = Filter((pattern,))
    questions: list[tuple[tuple[int, int], Callable[[Log], object], object]] = [
        ((4, 5), lambda log: log.last_up_to(wanted, 10), {name: 3}),
        ((4, 5), lambda log: log.last_sequences(wanted, log.last_seq, 0, 100)[0], [3]),
        ((1, 2), lambda log: log.subjects(wanted), {name: (3, 3, 5)}),
        ((1, 2), lambda log: log.subject_state(name), (3, 3, 5)),
        ((1, 2), lambda log: log.next(0, wanted), None),
        ((1, 2), lambda log: (log.next(0, wanted), log.count_from(0, wanted)), (None, 3)),
    ]
    for removed, question, answer in questions:
        log = damaged_log(removed)
        assert question(log) == answer
        assert (log.count, log.num_subjects) == (3, 1)
        assert len(log.damages) <= 3
        assert log.append(b"s.other", b"", b"") == 6
        damage(quick_path / "log", b"x")
        assert len(messages(log)) == 3  # the last one is not committed
        log.close()


def damaged_copy(directory: Path, places: dict[int, int]) -> Log:
    """A log of 300 messages in segments, of which these are damaged at a byte of their records."""
    shutil.rmtree(directory, ignore_errors=True)
    write_log(directory, 300, segment_bytes=4096)
    for path in files(directory, "log"):
        data = bytearray(path.read_bytes())
        for seq, place in places.items():
            if (found := re.search(rb"payload number %d(?!\d)" % (seq - 1), data)) is not None:
                data[found.start() + place] ^= 0x20
        path.write_bytes(data)
    log = Log(str(directory), segment_bytes=4096)
    assert log.recover() == []
    return log


DAMAGED = {101: 0, 150: -50, 151: 1, 300: 2}


def test_damage_is_reported_once_and_recorded_nowhere(quick_path: Path) -> None:
    log = damaged_copy(quick_path / "log", DAMAGED)
    warnings: list[str] = []
    log.on_warning = warnings.append
    intact = [seq for seq in range(1, 301) if seq not in DAMAGED]
    for _ in range(3):
        assert sorted(messages(log)) == intact
    assert len(warnings) == len(log.damages) == len(DAMAGED)
    assert (log.count, log.first_seq, log.last_seq) == (300, 1, 300)
    log.commit()
    log.close()
    again = Log(str(quick_path / "log"), segment_bytes=4096)
    assert again.recover() == []
    assert (again.count, sorted(messages(again))) == (300, intact)
    again.close()


def test_what_is_damaged_can_be_removed_in_every_way(quick_path: Path) -> None:
    for way in (
        lambda log: [log.remove(seq) for seq in DAMAGED],
        lambda log: log.remove_many(DAMAGED),
        lambda log: [log.remove(seq, erase=True) for seq in DAMAGED],
        lambda log: log.compact(301),
        lambda log: log.compact(280),
        lambda log: log.purge(),
        lambda log: log.configure(max_msgs=10),
        lambda log: log.configure(max_bytes=1000),
        lambda log: log.configure(max_msgs_per_subject=5),
    ):
        log = damaged_copy(quick_path / "log", DAMAGED)
        way(log)
        log.commit()
        readable = messages(log)
        left = [seq for seq in DAMAGED if log.has(seq)]
        assert log.count == len(readable) + len(left)
        assert log.append(b"subject.0", b"", b"new") == 301
        log.commit()
        assert log.get(301) is not None
        assert log.last(b"subject.0") == 301
        log.close()


def test_a_segment_with_damage_is_not_written_anew(quick_path: Path) -> None:
    """What is readable later must not be destroyed by a rewrite or a compression now."""
    log = damaged_copy(quick_path / "log", {50: 0})
    path = files(quick_path / "log", "log")[0]
    doomed = [seq for seq in range(1, 300) if seq % 10]
    log.remove_many(doomed)
    log.commit()
    log.configure(compression="s2")
    log.commit()
    assert log.has(50)
    data = bytearray(path.read_bytes())
    at = data.find(b"Payload number 49")
    assert at > 0
    data[at] ^= 0x20
    path.write_bytes(data)
    message = log.get(50)
    assert message is not None
    assert message.payload == b"payload number 49"
    assert sorted(messages(log)) == list(range(10, 301, 10))
    log.close()


def test_damages_do_not_grow_without_limit(quick_path: Path) -> None:
    log = damaged_copy(quick_path / "log", dict.fromkeys(range(10, 290), 3))
    for _ in range(2):
        assert len(messages(log)) == 20
    assert len(log.damages) == 100
    assert "further damage is not listed" in log.damages[-1]
    assert log.count == 300
    log.close()


def test_a_file_that_was_never_written_is_removed(quick_path: Path) -> None:
    written = write_log(quick_path / "log", 5)
    (quick_path / "log" / "000000000002.log").write_bytes(bytes(4096))
    (quick_path / "log" / "000000000003.log").write_bytes(b"")
    (quick_path / "log" / "000000000001.log.tmp").write_bytes(b"an unfinished rewrite")
    log = Log(str(quick_path / "log"))
    assert log.recover() == []
    assert messages(log) == written
    assert log.append(b"s", b"", b"") == 6
    log.commit()
    log.close()
    assert not list((quick_path / "log").glob("*.tmp"))
    log = Log(str(quick_path / "log"))
    assert log.recover() == []
    assert log.count == 6
    log.close()


def test_an_index_is_only_used_if_it_is_right(quick_path: Path) -> None:
    written = write_log(quick_path / "log", 8)
    (index,) = files(quick_path / "log", "idx")
    data = index.read_bytes()
    for place in range(len(data)):
        index.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        log, reports = open_copy(quick_path / "log", quick_path / "copy")
        assert (reports, messages(log)) == ([], written), place
        log.close()
    for length in (0, 10, len(data) - 1):
        index.write_bytes(data[:length])
        log, reports = open_copy(quick_path / "log", quick_path / "copy")
        assert (reports, messages(log)) == ([], written), length
        log.close()


def test_a_stale_index_is_noticed(quick_path: Path) -> None:
    write_log(quick_path / "log", 5)
    (index,) = files(quick_path / "log", "idx")
    stale = index.read_bytes()
    log = Log(str(quick_path / "log"))
    log.recover()
    log.remove(2)
    log.append(b"s", b"", b"new")
    log.close()
    index.write_bytes(stale)
    log = Log(str(quick_path / "log"))
    assert log.recover() == []
    assert sorted(messages(log)) == [1, 3, 4, 5, 6]
    log.close()


def test_published_bytes_never_pass_for_records(quick_path: Path) -> None:
    """Somebody publishes the very bytes of a log; then the record around them is damaged."""
    write_log(quick_path / "other", 5)
    bait = files(quick_path / "other", "log")[0].read_bytes()[HEAD:]
    log = Log(str(quick_path / "log"))
    log.recover()
    for _ in range(3):
        log.append(b"s", b"", bait)
    log.commit()
    log.close()
    for path in files(quick_path / "log", "idx"):
        path.unlink()
    (path,) = files(quick_path / "log", "log")
    data = bytearray(path.read_bytes())
    data[HEAD + RECORD + len(bait) + 9] ^= 1  # in the head of the second record
    path.write_bytes(data)
    log = Log(str(quick_path / "log"))
    assert len(log.recover()) == 1
    assert [message[2] for message in messages(log).values()] == [bait, bait]
    assert Model(in_memory=False).size(b"s", b"", bait) * 2 == log.byte_count
    log.close()

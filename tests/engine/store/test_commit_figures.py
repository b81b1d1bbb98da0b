"""The committer counts groups and syncs, once for each."""

from __future__ import annotations

from pathlib import Path

from headrace.engine.store.committer import Committer
from headrace.engine.store.log import Log
from tests.engine.store.logs import settle


def counted(committer: Committer) -> dict[str, tuple[int, float]]:
    """How many values each histogram has, and their sum."""
    figures = committer.figures()
    assert all(len(counts) == len(bounds) + 1 for bounds, counts, _ in figures.values())
    return {name: (sum(counts), total) for name, (_, counts, total) in figures.items()}


def test_a_group_counts_once_with_its_messages_and_bytes(tmp_path: Path) -> None:
    committer = Committer(2)
    log = Log(str(tmp_path), committer=committer)
    log.recover()
    assert set(counted(committer).values()) == {(0, 0.0)}
    sizes = [1, 3, 100]
    for size in sizes:
        for _ in range(size):
            log.append(b"a", b"", b"payload")
        assert settle(log, committer) is None
    figures = committer.figures()
    bounds, counts, total = figures["group_messages"]
    assert total == sum(sizes)
    assert [bounds[place] for place, count in enumerate(counts) if count] == [1, 5, 100]
    assert counted(committer)["group_bytes"][0] == 3
    assert counted(committer)["group_bytes"][1] > sum(sizes) * len(b"payload")
    groups, seconds = counted(committer)["sync_seconds"]
    assert groups == 3
    assert seconds > 0
    # A removal is a group without messages.
    log.remove(2)
    assert settle(log, committer) is None
    assert counted(committer)["group_messages"] == (3, sum(sizes))
    assert counted(committer)["group_bytes"][0] == 4
    log.close()
    committer.close()


def test_with_a_sync_interval_the_syncs_count_and_not_the_groups(tmp_path: Path) -> None:
    committer = Committer(2, sync_interval=3600)
    log = Log(str(tmp_path), committer=committer)
    log.recover()
    for _ in range(5):
        log.append(b"a", b"", b"payload")
        assert settle(log, committer) is None
    assert counted(committer)["group_messages"] == (5, 5)
    assert counted(committer)["sync_seconds"][0] == 0
    log.close()  # which does not wait for the interval, and syncs what was written since the last sync began
    assert counted(committer)["sync_seconds"][0] in (1, 2)
    committer.close()


def test_what_is_larger_than_all_bounds_is_in_the_last_bucket(tmp_path: Path) -> None:
    committer = Committer(2)
    log = Log(str(tmp_path), committer=committer)
    log.recover()
    for _ in range(25_001):
        log.append(b"a", b"", b"")
    assert settle(log, committer) is None
    assert committer.figures()["group_messages"][1][-1] == 1
    log.close()
    committer.close()


def test_memory_and_failed_groups_do_not_count(tmp_path: Path) -> None:
    committer = Committer(2)
    memory = Log(None)
    memory.append(b"a", b"", b"x")
    memory.commit()
    gone = tmp_path / "gone"
    gone.mkdir()
    log = Log(str(gone), committer=committer)
    log.recover()
    log.append(b"a", b"", b"x")
    for entry in gone.iterdir():
        entry.unlink()
    gone.rmdir()
    assert settle(log, committer) is not None
    assert set(counted(committer).values()) == {(0, 0.0)}
    log.abandon()
    committer.close()

"""What the tests of the log share: logs on both stores, waiting for the disk, and a model to compare with."""

from __future__ import annotations

import select
from dataclasses import dataclass, field
from pathlib import Path

from headrace.engine.basics.filters import Filter
from headrace.engine.store.committer import Committer
from headrace.engine.store.log import Log, Refused
from headrace.engine.store.readings import Stored
from headrace.engine.store.store import Watcher

EVERYTHING = Filter(())


def settle(log: Log, committer: Committer | None) -> str | None:
    """Commit, and wait until it is on disk. Returns why it failed."""
    done: list[str | None] = []
    log.when_committed(done.append)
    while not done:
        assert committer is not None
        select.select([committer], [], [], 30)
        committer.poll()
    return done[0]


def erase(log: Log, committer: Committer | None) -> str | None:
    """Wait until the texts of deleted messages are overwritten. Returns why it failed."""
    done: list[str | None] = []
    log.when_erased(done.append)
    while not done:
        assert committer is not None
        select.select([committer], [], [], 30)
        committer.poll()
    return done[0]


def reopen(log: Log, committer: Committer | None) -> Log:
    """Close a log of files and open it again; nothing may be found damaged."""
    directory, segment_bytes = log.directory, log.segment_bytes
    log.close()
    again = Log(directory, committer=committer, segment_bytes=segment_bytes)
    assert again.recover() == []
    return again


def messages(log: Log) -> dict[int, tuple[bytes, bytes, bytes]]:
    """All that next() gives."""
    found: dict[int, tuple[bytes, bytes, bytes]] = {}
    message = log.next(0, EVERYTHING)
    while message is not None:
        found[message.seq] = content(message)
        message = log.next(message.seq + 1, EVERYTHING)
    return found


def content(message: Stored) -> tuple[bytes, bytes, bytes]:
    return message.subject, message.headers, message.payload


def watch(log: Log, next_seq: int, *patterns: bytes) -> Watcher:
    watcher = Watcher()
    watcher.next_seq = next_seq
    watcher.filter = Filter(patterns)
    log.add_watcher(watcher)
    return watcher


def files(directory: Path, ending: str) -> list[Path]:
    return sorted(directory.glob(f"*.{ending}"))


@dataclass
class Model:
    """What a log should hold, in plain dictionaries."""

    in_memory: bool
    live: dict[int, tuple[bytes, bytes, bytes]] = field(default_factory=dict)
    last_seq: int = 0
    floor: int = 0  # first_seq of an empty log
    max_msgs: int = -1
    max_bytes: int = -1
    max_msgs_per_subject: int = -1
    discard_new: bool = False
    discard_new_per_subject: bool = False

    @property
    def first_seq(self) -> int:
        return min(self.live, default=self.floor)

    @property
    def byte_count(self) -> int:
        return sum(self.size(*message) for message in self.live.values())

    def size(self, subject: bytes, headers: bytes, payload: bytes) -> int:
        if self.in_memory:
            return 16 + len(subject) + len(headers) + len(payload)
        return 30 + len(subject) + len(payload) + (4 + len(headers) if headers else 0)

    def of_subject(self, subject: bytes) -> list[int]:
        return sorted(seq for seq, message in self.live.items() if message[0] == subject)

    def append(self, subject: bytes, headers: bytes, payload: bytes, gap: int = 0) -> int:
        before = self.of_subject(subject)
        replaces = 0 < self.max_msgs_per_subject <= len(before)
        size = self.size(subject, headers, payload)
        if self.discard_new:
            if replaces and self.discard_new_per_subject:
                raise Refused("max_msgs_per_subject")
            if 0 < self.max_msgs <= len(self.live) and not replaces:
                raise Refused("max_msgs")
            if 0 < self.max_bytes < self.byte_count + size:  # noqa: SIM102
                if not replaces or self.size(*self.live[before[0]]) < size:
                    raise Refused("max_bytes")
        self.last_seq += 1 + gap
        self.live[self.last_seq] = (subject, headers, payload)
        self.enforce_per_subject()
        self.enforce_totals()
        return self.last_seq

    def configure(self) -> None:
        if self.live:
            self.enforce_totals()
            self.enforce_per_subject()

    def enforce_per_subject(self) -> None:
        if self.max_msgs_per_subject > 0:
            for subject in {message[0] for message in self.live.values()}:
                for seq in self.of_subject(subject)[: -self.max_msgs_per_subject]:
                    del self.live[seq]
        self.settle_floor()

    def enforce_totals(self) -> None:
        while not self.discard_new and (
            0 < self.max_msgs < len(self.live) or (0 < self.max_bytes < self.byte_count and self.live)
        ):
            del self.live[min(self.live)]
        self.settle_floor()

    def remove(self, seq: int) -> bool:
        found = self.live.pop(seq, None) is not None
        self.settle_floor()
        return found

    def compact(self, first_seq: int) -> int:
        before = len(self.live)
        if first_seq == 0 or first_seq <= min(self.first_seq, self.last_seq):
            return 0
        self.live = {seq: message for seq, message in self.live.items() if seq >= first_seq}
        self.last_seq = max(self.last_seq, first_seq - 1)
        self.floor = self.last_seq + 1
        return before - len(self.live)

    def skip(self, next_seq: int) -> None:
        self.last_seq = next_seq - 1
        self.floor = next_seq

    def settle_floor(self) -> None:
        if self.last_seq:
            self.floor = self.last_seq + 1

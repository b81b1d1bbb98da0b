"""The log against a model of dictionaries: any operations, in memory and on files, with threads or not."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.engine.basics.filters import Filter
from headrace.engine.store.committer import Committer
from headrace.engine.store.log import Log, Refused
from headrace.engine.store.store import Watcher
from tests.engine.store.logs import EVERYTHING, Model, content, messages, reopen, settle, watch

SUBJECTS = [b"a", b"b", b"a.x", b"a.y", b"long.subject.with.tokens"]
HEADERS = b"NATS/1.0\r\nkey: value\r\n\r\n"
subjects = st.sampled_from(SUBJECTS)
limits = st.sampled_from([-1, 0, 1, 2, 5, 20])
patterns = st.sampled_from([(), (b"a.*",), (b"a",), (b"b", b"a.x")])

Operation = tuple[str, ...]
OPERATIONS = st.one_of(
    st.tuples(st.just("append"), subjects, st.booleans(), st.integers(0, 900), st.integers(1, 30)),
    st.tuples(st.just("append"), subjects, st.booleans(), st.integers(0, 900), st.integers(1, 3)),
    st.tuples(st.just("gap"), subjects, st.sampled_from([1, 5, 10_000])),
    st.tuples(st.just("remove"), st.integers(0, 60), st.booleans()),
    st.tuples(st.just("remove_many"), st.sets(st.integers(0, 60), max_size=30)),
    st.tuples(st.just("compact"), st.integers(0, 50), st.sampled_from([1, 7, 1000])),
    st.tuples(st.just("remove_matching"), patterns, st.integers(0, 60), st.sampled_from([1, 7, 1000])),
    st.tuples(st.just("purge")),
    st.tuples(st.just("skip"), st.integers(0, 20)),
    st.tuples(st.just("commit")),
    st.tuples(st.just("settle")),
    st.tuples(st.just("reopen")),
    st.tuples(
        st.just("configure"),
        limits,
        st.sampled_from([-1, 0, 100, 3000, 9000]),
        limits,
        st.booleans(),
        st.booleans(),
        st.sampled_from([0, 1, 7]),
    ),
    st.tuples(st.just("watch"), st.integers(0, 60), patterns),
)


class Pair:
    """A log and its model, side by side."""

    def __init__(self, directory: str | None, committer: Committer | None, compression: str) -> None:
        self.committer = committer
        self.compression = compression
        self.log = Log(directory, committer=committer, segment_bytes=4096, compression=compression)
        self.model = Model(in_memory=directory is None)
        self.watchers: list[Watcher] = []
        assert self.log.recover() == []

    def append(self, subject: bytes, headers: bytes, payload: bytes, gap: int = 0) -> None:
        try:
            expected: int | str = self.model.append(subject, headers, payload, gap)
        except Refused as refused:
            expected = refused.reason
        seq = self.log.last_seq + 1 + gap if gap else 0
        try:
            outcome: int | str = self.log.append(subject, headers, payload, 0, seq)
        except Refused as refused:
            outcome = refused.reason
        assert outcome == expected

    def apply(self, name: str, *arguments: object) -> None:
        getattr(self, f"on_{name}")(*arguments)
        self.check()

    def on_append(self, subject: bytes, headers: bool, size: int, times: int) -> None:
        for k in range(times):
            self.append(subject, HEADERS if headers else b"", bytes([k]) * size)

    def on_gap(self, subject: bytes, gap: int) -> None:
        self.append(subject, b"", b"behind a gap", gap)

    def on_remove(self, distance: int, erase: bool) -> None:
        seq = self.model.first_seq + distance
        assert self.log.remove(seq, erase=erase) == self.model.remove(seq)

    def on_remove_many(self, distances: set[int]) -> None:
        seqs = [self.model.first_seq + distance for distance in distances]
        assert self.log.remove_many(seqs) == sum(self.model.remove(seq) for seq in seqs)

    def on_compact(self, distance: int, most: int) -> None:
        """In parts, whose sizes decide whether what goes is read, or what stays."""
        seq, log = self.model.first_seq + distance, self.log
        removed = log.compact(seq, most)
        while log.first_seq < seq and log.count:
            removed += log.compact(seq, most)
        assert removed == self.model.compact(seq)

    def on_remove_matching(self, patterns: tuple[bytes, ...], distance: int, looks: int) -> None:
        seq, last = self.log.first_seq, self.model.first_seq + distance
        wanted, removed = Filter(patterns), 0
        committed = self.log.committed_seq
        while seq <= last:
            some, seq = self.log.remove_matching(seq, last, wanted, 1000, looks)
            removed += some
        gone = [
            seq
            for seq, (subject, _, _) in self.model.live.items()
            if seq <= min(last, committed) and wanted.matches(subject)
        ]
        assert removed == sum(self.model.remove(seq) for seq in gone)

    def on_purge(self) -> None:
        assert self.log.purge() == len(self.model.live)
        self.model.live.clear()
        self.model.floor = self.model.last_seq + 1

    def on_skip(self, distance: int) -> None:
        self.log.skip(self.log.last_seq + 1 + distance)
        self.model.skip(self.model.last_seq + 1 + distance)

    def on_commit(self) -> None:
        self.log.commit()

    def on_settle(self) -> None:
        assert settle(self.log, self.committer) is None
        assert self.log.committed_seq == self.log.last_seq

    def on_reopen(self) -> None:
        if self.model.in_memory:
            return
        self.log = reopen(self.log, self.committer)
        self.watchers.clear()
        if self.model.last_seq == 0:
            self.model.floor = 0  # nothing was ever written
        assert self.log.committed_seq == self.log.last_seq
        # The limits are not in the log; whoever opens it sets them.
        self.configure_log()

    def on_configure(
        self,
        max_msgs: int,
        max_bytes: int,
        max_msgs_per_subject: int,
        discard_new: bool,
        per_subject: bool,
        most: int,
    ) -> None:
        self.model.max_msgs, self.model.max_bytes = max_msgs, max_bytes
        self.model.max_msgs_per_subject = max_msgs_per_subject
        self.model.discard_new, self.model.discard_new_per_subject = discard_new, per_subject
        self.configure_log(at_once=not most)
        while not self.log.enforce(most):
            pass
        self.model.configure()

    def configure_log(self, *, at_once: bool = True) -> None:
        self.log.configure(
            max_msgs=self.model.max_msgs,
            max_bytes=self.model.max_bytes,
            max_msgs_per_subject=self.model.max_msgs_per_subject,
            discard_new=self.model.discard_new,
            discard_new_per_subject=self.model.discard_new_per_subject,
            compression=self.compression,
            at_once=at_once,
        )

    def on_watch(self, distance: int, patterns: tuple[bytes, ...]) -> None:
        self.watchers.append(watch(self.log, self.model.first_seq + distance, *patterns))

    def check(self) -> None:
        log, model = self.log, self.model
        if self.committer is not None:
            self.committer.poll()
        assert (log.first_seq, log.last_seq) == (model.first_seq, model.last_seq)
        assert (log.count, log.byte_count) == (len(model.live), model.byte_count)
        committed = {seq: message for seq, message in model.live.items() if seq <= log.committed_seq}
        for watcher in self.watchers:
            expected = sum(
                seq >= watcher.next_seq and watcher.filter.matches(message[0])
                for seq, message in committed.items()
            )
            assert watcher.num_pending == expected
        assert log.failure is None
        assert log.damages == []

    def check_all(self) -> None:
        log, model = self.log, self.model
        committed = {seq: message for seq, message in model.live.items() if seq <= log.committed_seq}
        assert messages(log) == committed
        for seq in range(model.first_seq, min(model.last_seq, model.first_seq + 200) + 1):
            message = log.get(seq)
            assert (content(message) if message else None) == model.live.get(seq)
        for subject in SUBJECTS:
            seqs = model.of_subject(subject)
            assert log.subject_state(subject) == ((len(seqs), seqs[0], seqs[-1]) if seqs else None)
            assert log.last(subject) == max(seqs, default=0)
        assert log.last(b">") == max(model.live, default=0)
        assert log.last(b"a.*") == max(model.of_subject(b"a.x") + model.of_subject(b"a.y"), default=0)
        assert log.subjects(EVERYTHING) == {
            subject: (len(seqs), seqs[0], seqs[-1])
            for subject in SUBJECTS
            if (seqs := model.of_subject(subject))
        }
        if model.live and model.last_seq - model.first_seq < 5000:
            assert log.deleted() == sorted(set(range(model.first_seq, model.last_seq + 1)) - set(model.live))
        assert log.num_deleted == (
            model.last_seq - model.first_seq + 1 - len(model.live) if model.live else 0
        )
        for seq in {0, model.first_seq, model.first_seq + 7, model.last_seq - 5, model.last_seq + 1}:
            for wanted in (EVERYTHING, Filter((b"a.*",)), Filter((b"a", b"b"))):
                passing = [s for s, m in committed.items() if s >= seq and wanted.matches(m[0])]
                assert log.count_from(max(seq, 0), wanted) == len(passing)
                message = log.next(max(seq, 0), wanted)
                assert (message.seq if message else None) == min(passing, default=None)


@pytest.mark.parametrize(
    "store", ["memory", "files", "files and threads", "compressed files", "compressed files and threads"]
)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(operations=st.lists(OPERATIONS, max_size=40))
def test_any_sequence_of_operations(store: str, operations: list[Operation]) -> None:
    committer = Committer(2) if store.endswith("threads") else None
    compression = "s2" if store.startswith("compressed") else "none"
    quick = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=quick) as directory:
        pair = Pair(None if store == "memory" else str(Path(directory, "log")), committer, compression)
        try:
            for name, *arguments in operations:
                pair.apply(name, *arguments)
            pair.check_all()
            pair.on_settle()
            pair.check_all()
            pair.on_reopen()
            pair.check_all()
        finally:
            pair.log.close()
            if committer is not None:
                committer.close()

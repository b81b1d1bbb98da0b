"""Expiry where the disk, the clock or a busy key make it difficult."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from headrace.engine.store.log import Log
from headrace.streams.ingest.publication import Publication
from headrace.streams.ttl_heap import FEW, TtlHeap
from tests.streams.clock_loop import SECOND
from tests.streams.expiry_pair import Config, Pair, run_pair

DAY = 24 * 3600


@pytest.mark.parametrize(
    "config", [Config(allow_ttl=True), Config(max_age=1, allow_ttl=True), Config(max_age=1)]
)
def test_what_could_not_be_removed_goes_when_the_disk_takes_it(tmp_path: Path, config: Config) -> None:
    async def work(pair: Pair) -> None:
        for subject in ("s.a", "s.b"):
            await pair.apply("publish", subject, 1 if config.allow_ttl else 0)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))  # no file may grow: as on a full disk
        try:
            pair.clock.time += 2 * SECOND
            while pair.stream.log.failure is None:
                await pair.turn()
            assert pair.stream.log.count == 2  # the removal is not on disk, so they are there again
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        while pair.stream.log.count:
            pair.clock.time += SECOND
            await pair.turn()

    run_pair(config, "file", str(tmp_path), work)


@pytest.mark.parametrize("config", [Config(max_age=2 * DAY), Config(max_age=2 * DAY, allow_ttl=True)])
@pytest.mark.parametrize("storage", ["memory", "file"])
def test_nothing_goes_early_because_the_clock_was_wrong_for_a_while(
    tmp_path: Path, storage: str, config: Config
) -> None:
    async def work(pair: Pair) -> None:
        began = pair.clock.time
        wrong = began - DAY * SECOND
        times = [wrong - SECOND, *[began] * 4, *[wrong] * 20, *[began] * 4]
        for time in times:
            pair.stream.ingest.accept_own(Publication(b"s.a", b"", b"", b"x", time=time))
        await pair.settle()
        pair.clock.time = (
            began + DAY * SECOND + SECOND
        )  # the first, and those of the wrong clock, are old enough
        await pair.settle()
        assert [kept.time for kept in pair.found()] == times[1:]
        pair.clock.time = began + 2 * DAY * SECOND
        await pair.settle()
        assert pair.found() == []

    run_pair(config, storage, str(tmp_path), work)


def test_endings_of_messages_that_are_gone_are_forgotten() -> None:
    log = Log()
    log.recover()
    log.configure(max_msgs_per_subject=1)
    endings, most = TtlHeap(log), 0
    for k in range(20 * FEW):
        seq = log.append(b"key-%d" % (k % 10), b"", b"x")
        endings.add((k * 7919 % 10007 + SECOND, seq))
        most = max(most, len(endings))
    assert most < 2 * FEW
    order = [endings.pop() for _ in range(len(endings))]
    assert order == sorted(order)
    assert {seq for _, seq in order} >= {
        seq for seq in range(log.first_seq, log.last_seq + 1) if log.has(seq)
    }

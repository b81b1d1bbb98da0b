"""Work on a large stream in slices: what comes in between, and what a crash leaves."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from nats.aio.client import Client

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from headrace.streams import slices
from headrace.streams.api.stream_info import MOST_DELETED, count_subjects, list_deleted
from headrace.streams.errors import ApiError
from headrace.streams.purge import purge
from headrace.streams.slices import STEP_ITEMS, Background, Slices, StuckError
from tests.streams.peers import ask, client_of, jetstream_server

MESSAGES = 20_000
FEW = 50
EVERYTHING = Filter(())


def append(log: Log, messages: int) -> None:
    for number in range(messages):
        log.append(b"s.%d" % (number % 10), b"", b"%d" % number)
    log.commit()


def sequences(log: Log) -> list[int]:
    found, message = [], log.next(0, EVERYTHING)
    while message is not None:
        found.append(message.seq)
        message = log.next(message.seq + 1, EVERYTHING)
    return found


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one step each, however fast the machine is."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", -1.0)


@pytest.fixture(params=["memory", "file"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """Without a committer what is committed is on disk at once."""
    log = Log(None if request.param == "memory" else str(tmp_path / "log"), segment_bytes=1024 * 1024)
    log.recover()
    append(log, MESSAGES)
    yield log
    log.close()


async def while_under_way(work: Awaitable[int], act: Callable[[], object]) -> int:
    """Act between slices; there is more than one."""
    task, acted = asyncio.ensure_future(work), 0
    while not task.done():
        await asyncio.sleep(0)
        if not task.done() and acted < 5:
            act()
            acted += 1
    assert acted
    return await task


@pytest.mark.parametrize(
    ("request_", "goes"),
    [
        ({"subject": "s.*", "seq": 15_000}, lambda seq: seq < 15_000),
        ({"subject": "s.3"}, lambda seq: seq % 10 == 4),
        ({"seq": 10_000}, lambda seq: seq < 10_000),
        ({"subject": "s.3", "keep": 7}, lambda seq: seq % 10 == 4 and seq <= MESSAGES - 70),
        ({"keep": 10_000}, lambda seq: seq <= MESSAGES - 10_000),
    ],
)
async def test_a_purge_takes_nothing_that_was_published_after_it(
    log: Log, request_: dict[str, str | int], goes: Callable[[int], bool]
) -> None:
    removed = await while_under_way(purge(Slices(), log, **request_), lambda: append(log, 10))  # type: ignore[arg-type]
    kept = [seq for seq in range(1, log.last_seq + 1) if seq > MESSAGES or not goes(seq)]
    assert sequences(log) == kept
    assert removed == log.last_seq - len(kept)


async def test_a_purge_keeps_as_many_as_it_should_if_others_remove_messages_meanwhile(log: Log) -> None:
    await while_under_way(
        purge(Slices(), log, subject="s.3", keep=100),
        lambda: log.compact(min(log.first_seq + 3000, MESSAGES - 2000)),
    )
    assert sum(seq % 10 == 4 for seq in sequences(log)) == 100


async def test_a_lower_limit_is_kept_at_the_end_whatever_is_published_meanwhile(log: Log) -> None:
    log.configure(max_msgs=10_000, max_msgs_per_subject=500, at_once=False)

    async def enforce() -> int:
        before = log.count
        await Slices().remove(log, lambda: log.enforce(500))
        return before

    await while_under_way(enforce(), lambda: append(log, 1))
    assert {count for count, _, _ in log.subjects(EVERYTHING).values()} == {500}
    append(log, 10)
    assert log.count == 5000


def emptied(log: Log) -> None:
    log.purge()


def without_messages(log: Log) -> None:
    log.remove_many(range(1, FEW + 1))


def without_tail(log: Log) -> None:
    log.remove_many(range(FEW - 20, FEW + 1))


def without_head(log: Log) -> None:
    log.remove_many(range(1, 20))


def with_only_the_first(log: Log) -> None:
    log.remove_many(range(2, FEW + 1))


PURGES = [
    *({"seq": seq} for seq in (0, 1, 4, FEW, FEW + 1, 2**53, 2**63, 2**64 - 1)),
    *({"keep": keep} for keep in (1, 7, FEW, 2**64 - 1)),
]


@pytest.mark.parametrize("subject", ["s.3", "s.*", ">", "other"])
@pytest.mark.parametrize(
    "prepare", [emptied, without_messages, without_tail, without_head, with_only_the_first]
)
async def test_a_purge_ends_whatever_is_left_of_the_stream(
    prepare: Callable[[Log], None], subject: str
) -> None:
    for request in PURGES:
        log = Log()
        append(log, FEW)
        prepare(log)
        before = sequences(log)
        matching = [at for at in before if subject in ("s.*", ">") or (subject == "s.3" and at % 10 == 4)]
        seq, keep = request.get("seq", 0), request.get("keep", 0)
        goes = matching[: max(len(matching) - keep, 0)]
        goes = [at for at in goes if not seq or at < seq]
        async with asyncio.timeout(30):
            assert await purge(Slices(), log, subject=subject, **request) == len(goes), request
        assert sequences(log) == [at for at in before if at not in goes]


async def test_work_that_makes_no_progress_ends_with_an_error() -> None:
    steps = 0

    def step() -> bool:
        nonlocal steps
        steps += 1
        return False

    with pytest.raises(StuckError, match="at 7"):
        await Slices().run(step, progress=lambda: 7)
    assert steps == slices.STUCK_STEPS


async def test_work_in_the_background_that_makes_no_progress_is_given_up_and_reported() -> None:
    log, reported = Log(), list[Exception]()
    work = Background(Slices(), log, lambda: False, progress=lambda: 7, on_stuck=reported.append)
    work.start()
    async with asyncio.timeout(30):
        await work.finished()
    assert [type(error) for error in reported] == [StuckError]


async def test_after_a_crash_in_the_middle_some_of_a_purge_is_done(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "log"))
    log.recover()
    append(log, MESSAGES)
    copies: list[Path] = []

    def crash() -> None:
        copies.append(tmp_path / f"copy{len(copies)}")
        shutil.copytree(tmp_path / "log", copies[-1])

    await while_under_way(purge(Slices(), log, subject="s.3"), crash)
    log.close()
    lengths = []
    for copy in copies:
        recovered = Log(str(copy))
        assert recovered.recover() == []
        gone = sorted(set(range(1, MESSAGES + 1)) - set(sequences(recovered)))
        assert gone == list(range(4, MESSAGES + 1, 10))[: len(gone)]
        lengths.append(len(gone))
        recovered.close()
    assert lengths == sorted(lengths)
    assert 0 < lengths[-1] < MESSAGES // 10


async def test_subjects_and_deleted_sequences_are_complete_and_in_order(log: Log) -> None:
    for number in range(12_000):
        log.append(b"many.%05d" % number, b"", b"")
    log.commit()
    log.remove_many(range(2, MESSAGES - 1000, 2))
    assert await Slices().result(count_subjects(log, "many.*", 0, 20_000)) == (
        12_000,
        {f"many.{number:05}": 1 for number in range(12_000)},
    )
    total, page = await Slices().result(count_subjects(log, ">", 11_000, 900))
    assert (total, list(page)) == (12_010, [f"many.{number:05}" for number in range(11_000, 11_900)])
    total, page = await Slices().result(count_subjects(log, ">", 12_005, 900))
    assert (total, list(page)) == (12_010, ["s.5", "s.6", "s.7", "s.8", "s.9"])
    listed = await Slices().result(list_deleted(log))
    assert listed is not None
    assert json.loads(bytes(listed)) == list(range(2, MESSAGES - 1000, 2))


@pytest.mark.timeout(60)
async def test_the_first_deleted_sequences_of_a_wide_gap_are_listed(log: Log) -> None:
    log.append(b"s.1", b"", b"", seq=2**53)
    log.commit()
    listed = await Slices().result(list_deleted(log))
    assert listed is not None
    assert json.loads(bytes(listed)) == list(range(MESSAGES + 1, MESSAGES + 1 + MOST_DELETED))


async def test_work_in_the_background_can_be_waited_for_and_stopped(log: Log) -> None:
    def step() -> bool:
        log.compact(MESSAGES // 2, 500)
        return log.first_seq >= MESSAGES // 2

    work = Background(Slices(), log, step)
    await work.finished()  # it has not begun: nothing to wait for
    work.start()
    assert 1 < log.first_seq < MESSAGES // 2
    work.start()
    await work.finished()
    assert log.first_seq == MESSAGES // 2
    endless = Background(Slices(), log, lambda: False)
    endless.start()
    waiting = asyncio.ensure_future(endless.finished())
    await asyncio.sleep(0)
    endless.stop()
    await asyncio.wait_for(waiting, 30)


async def test_others_have_their_turn_between_slices() -> None:
    turns, steps = 0, 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    def step() -> bool:
        nonlocal steps
        steps += 1
        return turns >= 3

    other = asyncio.ensure_future(count())
    await Slices().run(step)
    other.cancel()
    assert steps > 3


async def test_a_log_that_takes_no_writes_makes_an_error_of_the_request() -> None:
    log = Log()
    append(log, 10)

    def fail() -> bool:
        raise OSError("cannot write: no space left on device")

    with pytest.raises(ApiError, match="no space left"):
        await Slices().remove(log, fail)


async def test_requests_about_a_stream_are_answered_in_order_while_one_is_in_slices(tmp_path: Path) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await ask(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"]})
            for number in range(MESSAGES):
                await client.publish(f"s.{number % 10}", b"x")
            await wait_for_messages(client, MESSAGES)
            requests = [
                ask(client, "STREAM.PURGE.S", {"filter": "s.3"}),
                ask(client, "STREAM.PURGE.S", {"filter": "s.*", "keep": 5000}),
                ask(client, "STREAM.UPDATE.S", {"name": "S", "subjects": ["s.*"], "max_msgs_per_subject": 7}),
                ask(client, "STREAM.INFO.S", {"subjects_filter": ">"}),
                ask(client, "STREAM.DELETE.S"),
                ask(client, "STREAM.INFO.S"),
            ]
            first, second, updated, info, deleted, missing = await asyncio.gather(*requests)
    assert (first["purged"], second["purged"]) == (MESSAGES // 10, MESSAGES - MESSAGES // 10 - 5000)
    assert updated["state"]["messages"] == 9 * 7
    assert info["state"]["subjects"] == {f"s.{number}": 7 for number in range(10) if number != 3}
    assert deleted["success"]
    assert missing["error"]["err_code"] == 10059


async def test_what_is_published_while_unneeded_messages_go_is_kept_for_who_needs_it(tmp_path: Path) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            body = {"name": "S", "subjects": ["s.*"], "retention": "interest"}
            await ask(client, "STREAM.CREATE.S", body)
            for name, subject in (("all", ""), ("few", "s.3")):
                config = {"durable_name": name, "ack_policy": "explicit", "filter_subject": subject}
                body = {"stream_name": "S", "config": config}
                await ask(client, f"CONSUMER.DURABLE.CREATE.S.{name}", body)
            for number in range(MESSAGES):
                await client.publish(f"s.{number % 10}", b"x")
            await wait_for_messages(client, MESSAGES)
            deleting = asyncio.ensure_future(ask(client, "CONSUMER.DELETE.S.all"))
            published = 0
            while not deleting.done():
                await client.jetstream(timeout=30).publish("s.3", b"x")
                await client.jetstream(timeout=30).publish("s.4", b"x")
                published += 1
            assert (await deleting)["success"]
            await wait_for_messages(client, MESSAGES // 10 + published)
            info = await ask(client, "STREAM.INFO.S", {"subjects_filter": ">"})
    assert info["state"]["subjects"] == {"s.3": MESSAGES // 10 + published}


async def test_a_consumer_gets_a_message_that_comes_after_very_many_others(tmp_path: Path) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await ask(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "allow_direct": True})
            for number in range(MESSAGES):
                await client.publish(f"s.{number % 10}", b"x")
            await client.publish("s.rare.one", b"found")
            await wait_for_messages(client, MESSAGES + 1)
            subscription = await client.jetstream(timeout=30).pull_subscribe("s.rare.*", "one", "S")
            assert [message.data for message in await subscription.fetch(1, timeout=30)] == [b"found"]
            got = await ask(client, "STREAM.MSG.GET.S", {"seq": 1, "next_by_subj": "s.rare.*"})
            assert got["message"]["seq"] == MESSAGES + 1
            request = b'{"seq":1,"next_by_subj":"s.rare.*"}'
            assert (await client.request("$JS.API.DIRECT.GET.S", request, timeout=30)).data == b"found"


async def wait_for_messages(client: Client, messages: int) -> None:
    async with asyncio.timeout(60):
        while (await ask(client, "STREAM.INFO.S"))["state"]["messages"] != messages:
            await asyncio.sleep(0.02)


async def test_a_turn_serves_all_that_waits_in_line_one_step_each() -> None:
    """However much work there is, it takes no more of a turn than one piece of work alone."""
    steps: list[tuple[int, str]] = []
    shared, turn = Slices(), 0

    def work(name: str, parts: int) -> Callable[[], bool]:
        left = iter(range(parts, 0, -1))

        def step() -> bool:
            steps.append((turn, name))
            return next(left) == 1

        return step

    all_done = asyncio.gather(*(shared.run(work(name, 3)) for name in "abc"))
    while not all_done.done():
        turn += 1
        await asyncio.sleep(0)
    names = [name for _, name in steps]
    assert sorted(names) == list("aaabbbccc")
    assert names.index("c") < names.index("a", names.index("b"))
    assert len({number for number, _ in steps}) == len(steps)


async def test_work_whose_waiter_was_cancelled_ends() -> None:
    steps = 0

    def step() -> bool:
        nonlocal steps
        steps += 1
        return False

    task = asyncio.create_task(Slices().run(step))
    while steps < 3:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ended = steps
    for _ in range(5):
        await asyncio.sleep(0)
    assert steps == ended


async def test_very_many_things_are_described_while_others_have_their_turn() -> None:
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    turn()
    made = await Slices().map(lambda number: (number, turns), range(5 * STEP_ITEMS))
    assert [number for number, _ in made] == list(range(5 * STEP_ITEMS))
    assert made[-1][1] >= 4


@pytest.mark.parametrize("count", [0, 1, STEP_ITEMS, STEP_ITEMS + 1])
async def test_any_number_of_things_is_described(count: int) -> None:
    assert await Slices().map(str, range(count)) == [str(number) for number in range(count)]

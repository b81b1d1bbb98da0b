"""Sessions about deliver policies, filters and priorities, for test_consumer_sessions.py."""

from __future__ import annotations

from typing import Any

from tests.streams.recorder import MINUTE, Recorder

EXPLICIT = {"ack_policy": "explicit"}
MILLISECOND = 1_000_000
SUBJECTS = ("s.a", "s.b", "s.a", "s.c", "s.b", "s.d")


async def deliver_policies(play: Recorder) -> None:
    await play.stream()
    await play.publish(*SUBJECTS)
    policies: tuple[dict[str, Any], ...] = (
        {"deliver_policy": "all"},
        {"deliver_policy": "last"},
        {"deliver_policy": "new"},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 4},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 40},
        {"deliver_policy": "by_start_time", "opt_start_time": "2001-01-01T00:00:00Z"},
        {"deliver_policy": "by_start_time", "opt_start_time": "2101-01-01T00:00:00Z"},
        {"deliver_policy": "last_per_subject", "filter_subject": "s.>"},
        {"deliver_policy": "last_per_subject", "filter_subjects": ["s.a", "s.c"]},
        {"deliver_policy": "last", "filter_subject": "s.b"},
        {"deliver_policy": "last", "filter_subject": "s.z"},
        {"deliver_policy": "all", "filter_subjects": ["s.c", "s.a"]},
        {"deliver_policy": "all", "filter_subject": "s.z"},
    )
    for number, policy in enumerate(policies):
        name = f"C{number}"
        await play.consumer(name, **policy, **EXPLICIT)
        await play.pull({"batch": 10, "no_wait": True}, name=name)
        while (await play.receive())[0].reply:
            pass
        await play.info(name)
    await play.publish("s.a")
    for name in ("C2", "C7", "C4", "C8"):
        await play.pull({"batch": 10, "no_wait": True}, name=name)
        while (await play.receive())[0].reply:
            pass
        await play.info(name)


async def an_empty_stream(play: Recorder) -> None:
    await play.stream()
    for number, policy in enumerate(("all", "last", "new")):
        await play.consumer(f"C{number}", deliver_policy=policy, **EXPLICIT)
    await play.consumer("C3", deliver_policy="last_per_subject", filter_subject="s.>", **EXPLICIT)
    await play.publish("s.a")
    for number in range(4):
        await play.pull({"batch": 1}, name=f"C{number}")
        await play.receive()
        await play.info(f"C{number}")


async def deletions_and_purges(play: Recorder) -> None:
    await play.stream()
    await play.publish(*["s.a"] * 6)
    await play.consumer(**EXPLICIT)
    await play.pull({"batch": 3})
    await play.receive(3)
    await play.ask("STREAM.MSG.DELETE.S", {"seq": 4})
    await play.info()
    await play.pull({"batch": 1})
    await play.receive()
    await play.ask("STREAM.PURGE.S", {"seq": 6})
    await play.info()
    await play.ask("STREAM.PURGE.S")
    await play.info()
    await play.publish("s.a")
    await play.pull({"batch": 1})
    await play.receive()
    await play.info()


async def interest_retention(play: Recorder) -> None:
    await play.stream(retention="interest")
    await play.publish("s.a")
    await play.consumer("A", **EXPLICIT)
    await play.consumer("B", filter_subject="s.b", **EXPLICIT)
    await play.publish("s.a", "s.b", "s.c")
    for name, count, left in (("A", 3, 1), ("B", 1, 0)):
        await play.pull({"batch": count}, name=name)
        for message in await play.receive(count):
            await play.ack(message, double=True)
        await play.until_stored(left)


async def work_queue(play: Recorder) -> None:
    await play.stream(retention="workqueue")
    await play.publish("s.a", "s.b")
    await play.consumer("N")
    await play.consumer("A", ack_policy="all")
    await play.consumer("A", deliver_policy="new", **EXPLICIT)
    await play.consumer("A", filter_subject="s.a", **EXPLICIT)
    await play.consumer("B", **EXPLICIT)
    await play.consumer("B", filter_subject="s.>", **EXPLICIT)
    await play.consumer("B", filter_subject="s.b", **EXPLICIT)
    await play.consumer("B", filter_subject="s.*", **EXPLICIT)
    await play.pull({"batch": 5, "no_wait": True}, name="A")
    message, _ = await play.receive(2)
    await play.ack(message, double=True)
    await play.until_stored(1)


async def overflow(play: Recorder) -> None:
    await play.stream()
    await play.consumer(priority_policy="overflow", priority_groups=["A"], **EXPLICIT)
    await play.pull({"batch": 1})
    await play.receive()
    await play.pull({"batch": 1, "group": "B"})
    await play.receive()
    await play.publish(*["s.a"] * 3)
    await play.pull({"batch": 5, "group": "A", "min_pending": 5, "expires": MINUTE})
    await play.nothing()
    await play.pull({"batch": 1, "group": "A", "min_pending": 2}, to="two")
    await play.receive(1, at="two")
    await play.pull({"batch": 5, "group": "A", "min_ack_pending": 1, "expires": 2000 * MILLISECOND}, to="two")
    await play.receive(3, at="two")
    await play.info()


async def pinned_client(play: Recorder) -> None:
    await play.stream()
    for kind in ("PINNED", "UNPINNED"):
        await play.listen(f"$JS.EVENT.ADVISORY.CONSUMER.{kind}.S.C")
    await play.consumer(priority_policy="pinned_client", priority_groups=["A"], **EXPLICIT)
    await play.publish(*["s.a"] * 6)
    await play.pull({"batch": 1, "group": "A", "expires": MINUTE}, to="one")
    (message,) = await play.receive(1, at="one")
    pin = (message.headers or {})["Nats-Pin-Id"]
    await play.receive(1, at="$JS.EVENT.ADVISORY.CONSUMER.PINNED.S.C")
    await play.pull({"batch": 1, "group": "A", "expires": 300 * MILLISECOND}, to="two")
    await play.receive(1, at="two")
    await play.pull({"batch": 1, "group": "A", "id": "wrong", "expires": MINUTE}, to="two")
    await play.receive(1, at="two")
    await play.pull({"batch": 1, "group": "A", "id": pin, "expires": MINUTE}, to="one")
    await play.receive(1, at="one")
    await play.info()
    await play.ask("CONSUMER.UNPIN.S.C", {"group": "A"})
    await play.receive(1, at="$JS.EVENT.ADVISORY.CONSUMER.UNPINNED.S.C")
    await play.pull({"batch": 1, "group": "A", "id": pin, "expires": MINUTE}, to="one")
    await play.receive(1, at="one")
    await play.pull({"batch": 1, "group": "A", "expires": MINUTE}, to="two")
    await play.receive(1, at="two")
    for body in (b"", b"{}", b'{"group":"B"}', b'{"group":"not a name"}'):
        await play.ask("CONSUMER.UNPIN.S.C", body)
    await play.ask("CONSUMER.UNPIN.S.D", {"group": "A"})
    await play.ask("CONSUMER.UNPIN.T.D", {"group": "A"})


async def prioritized(play: Recorder) -> None:
    await play.stream()
    play.hides_pending = True
    await play.consumer(priority_policy="prioritized", priority_groups=["A"], **EXPLICIT)
    await play.pull({"batch": 1, "group": "A", "priority": 5, "expires": MINUTE}, to="low")
    await play.pull({"batch": 2, "group": "A", "priority": 1, "expires": MINUTE}, to="high")
    await play.until_waiting(2)
    await play.publish(*["s.a"] * 3)
    await play.receive(2, at="high")
    await play.receive(1, at="low")
    await play.pull({"batch": 1, "group": "A", "priority": 12})
    await play.receive()


SESSIONS = (
    deliver_policies,
    an_empty_stream,
    deletions_and_purges,
    interest_retention,
    work_queue,
    overflow,
    pinned_client,
    prioritized,
)

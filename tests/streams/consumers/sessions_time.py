"""Sessions about pace and time: replay, rates, pins and pauses that end, for test_consumer_sessions.py."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from tests.streams.recorder import MINUTE, Recorder

EXPLICIT = {"ack_policy": "explicit"}
MILLISECOND = 1_000_000


async def replay_with_the_original_timing(play: Recorder) -> None:
    await play.stream()
    await play.publish("s.a")
    await asyncio.sleep(0.4)
    await play.publish("s.b")
    await play.consumer(replay_policy="original", **EXPLICIT)
    began = asyncio.get_running_loop().time()
    await play.pull({"batch": 3, "expires": MINUTE})
    await play.receive(1)
    await play.receive_late(began, 0.4)
    await play.publish("s.c")
    await play.receive(1)
    await play.info()


async def replay_to_a_subject(play: Recorder) -> None:
    await play.stream()
    await play.publish("s.a")
    await asyncio.sleep(0.4)
    await play.publish("s.b")
    await play.listen("out")
    began = asyncio.get_running_loop().time()
    await play.consumer(deliver_subject="out", replay_policy="original", ack_policy="none")
    await play.receive(1, at="out")
    await play.receive_late(began, 0.4, at="out")


async def a_rate_limit(play: Recorder) -> None:
    await play.stream(max_msg_size=2000)
    await play.publish(*["s.a"] * 4, payload=b"x" * 1500)
    await play.listen("out")
    await play.consumer(deliver_subject="out", rate_limit_bps=8 * 3000, ack_policy="none")
    await play.receive(4, at="out")
    await play.info()


async def a_pin_that_runs_out(play: Recorder) -> None:
    await play.stream()
    subject = "$JS.EVENT.ADVISORY.CONSUMER.UNPINNED.S.C"
    await play.listen(subject)
    await play.consumer(
        priority_policy="pinned_client", priority_groups=["A"], priority_timeout=400 * MILLISECOND, **EXPLICIT
    )
    await play.publish("s.a", "s.b")
    await play.pull({"batch": 1, "group": "A"}, to="one")
    await play.receive(1, at="one")
    await play.pull({"batch": 1, "group": "A", "expires": MINUTE}, to="two")
    await play.receive(1, at=subject)
    await play.receive(1, at="two")


async def a_pause_that_ends(play: Recorder) -> None:
    await play.stream()
    subject = "$JS.EVENT.ADVISORY.CONSUMER.PAUSE.S.C"
    await play.listen(subject)
    await play.publish("s.a")
    until = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
    await play.client.request(
        "$JS.API.CONSUMER.CREATE.S.C",
        b'{"stream_name":"S","config":{"name":"C","ack_policy":"explicit","pause_until":"%s"}}'
        % until.encode(),
        timeout=30,
    )
    for _ in range(2):
        advisory = await play._inboxes[subject].next_msg(timeout=30)
        play.note("paused" if b'"paused":true' in advisory.data else "not paused")
        await play.pull({"batch": 1, "expires": MINUTE})
    await play.receive(1)


async def two_consumers_whose_subscriber_leaves(play: Recorder) -> None:
    """Not one of SESSIONS: at times, nats-server forgets to tell one of the two consumers."""
    await two_consumers_on_one_subject(play)
    await play.leave("out")
    for name in ("A", "B"):
        await play.until_unbound(name)
        await play.info(name)


async def two_consumers_on_one_subject(play: Recorder) -> None:
    await play.stream()
    await play.consumer("A", deliver_subject="out", ack_policy="none")
    await play.consumer("B", deliver_subject="out", ack_policy="none")
    await play.listen("out")
    await play.publish("s.a")
    received = [await play._inboxes["out"].next_msg(timeout=30) for _ in range(2)]
    play.note(str(sorted(message.reply.split(".")[3] for message in received)))


async def a_wildcard_subscription_is_no_interest(play: Recorder) -> None:
    await play.stream()
    await play.listen("out.*")
    await play.consumer(deliver_subject="out.x", ack_policy="none")
    await play.publish("s.a")
    await play.nothing(at="out.*")
    await play.info()


SESSIONS = (
    replay_with_the_original_timing,
    replay_to_a_subject,
    a_rate_limit,
    a_pin_that_runs_out,
    a_pause_that_ends,
    two_consumers_on_one_subject,
    a_wildcard_subscription_is_no_interest,
)

"""Sessions about pull consumers, played to both servers by test_consumer_sessions.py."""

from __future__ import annotations

import asyncio

from tests.streams.recorder import MINUTE, Recorder

EXPLICIT = {"ack_policy": "explicit"}
MILLISECOND = 1_000_000


async def one_message_and_its_acknowledgement(play: Recorder) -> None:
    await play.stream()
    await play.consumer(durable_name="C", **EXPLICIT)
    await play.publish("s.a", "s.b")
    await play.info()
    await play.pull()
    (message,) = await play.receive()
    await play.info()
    await play.ack(message, double=True)
    await play.info()
    await play.ack(message, double=True)


async def a_batch_larger_than_the_stream(play: Recorder) -> None:
    await play.stream()
    await play.consumer(**EXPLICIT)
    await play.publish(*[f"s.{number}" for number in range(3)])
    await play.pull({"batch": 5, "expires": 2000 * MILLISECOND})
    await play.receive(4)
    await play.info()


async def no_wait(play: Recorder) -> None:
    await play.stream()
    await play.consumer(**EXPLICIT)
    await play.pull({"batch": 2, "no_wait": True})
    await play.receive()
    await play.publish("s.a")
    await play.pull({"batch": 2, "no_wait": True})
    await play.receive(2)
    await play.pull({"batch": 2, "no_wait": True, "expires": 200 * MILLISECOND})
    await play.receive()


async def no_wait_with_expiry_takes_what_comes(play: Recorder) -> None:
    await play.stream()
    await play.consumer(**EXPLICIT)
    await play.pull({"batch": 3, "no_wait": True, "expires": 5000 * MILLISECOND})
    await play.nothing()
    await play.publish("s.a")
    await play.receive(2)


async def max_bytes(play: Recorder) -> None:
    await play.stream()
    await play.consumer(**EXPLICIT)
    await play.publish("s.a", "s.b", "s.c", payload=b"0123456789" * 10)
    await play.pull({"batch": 10, "max_bytes": 300, "expires": MINUTE})
    await play.receive(2)
    await play.pull({"batch": 1, "max_bytes": 10, "expires": MINUTE})
    await play.receive(1)
    await play.pull({"batch": 1, "max_bytes": 1000, "expires": MINUTE})
    await play.receive(2)
    await play.info()


async def heartbeats_of_requests(play: Recorder) -> None:
    await play.stream()
    await play.consumer(**EXPLICIT)
    for count in (2, 3):  # heartbeats and the end; before that, the second time, a message
        began = asyncio.get_running_loop().time()
        await play.pull({"batch": 2, "expires": 2500 * MILLISECOND, "idle_heartbeat": 600 * MILLISECOND})
        received = await play.receive_changes(count)
        assert (received[-1].headers or {})["Status"] == "408"
        assert asyncio.get_running_loop().time() - began >= 2.5
        await play.publish("s.a")


async def bad_requests(play: Recorder) -> None:
    await play.stream()
    await play.consumer(max_batch=10, max_expires=1000 * MILLISECOND, max_bytes=100, **EXPLICIT)
    bodies: list[object] = [
        {"batch": 11},
        {"batch": 1, "expires": 2000 * MILLISECOND},
        {"batch": 1, "max_bytes": 101},
        {"batch": 1, "expires": 100, "idle_heartbeat": 60},
        {"batch": "x"},
        b'{"batch":1',
        b'{"batch":1.5}',
        {"priority": 10},
        {"priority": -1},
        {"min_pending": 1},
        {"id": "x"},
        {"batch": 1, "no_wait": True},
    ]
    for body in bodies:
        await play.pull(body)
        await play.receive()


async def max_waiting(play: Recorder) -> None:
    await play.stream()
    await play.consumer(max_waiting=2, **EXPLICIT)
    for _ in range(2):
        await play.pull({"batch": 1, "expires": MINUTE})
    await play.pull({"batch": 1, "expires": MINUTE})
    await play.receive()
    await play.info()
    await play.pull({"batch": 1, "expires": MINUTE, "idle_heartbeat": 20_000 * MILLISECOND})
    await play.nothing()
    for subject in ("s.a", "s.b"):
        await play.publish(subject)
        await play.receive(1)
    await play.publish("s.c")
    await play.info()


async def requests_take_turns(play: Recorder) -> None:
    await play.stream()
    await play.consumer(**EXPLICIT)
    play.hides_pending = True  # the messages come one by one
    await play.pull({"batch": 3, "expires": MINUTE}, to="one")
    await play.pull({"batch": 3, "expires": MINUTE}, to="two")
    await play.until_waiting(2)
    await play.publish(*["s.a"] * 6)
    await play.receive(3, at="one")
    await play.receive(3, at="two")


async def no_wait_behind_other_requests(play: Recorder) -> None:
    await play.stream()
    await play.consumer(max_ack_pending=1, **EXPLICIT)
    await play.publish("s.a", "s.b")
    await play.pull({"batch": 5, "expires": MINUTE}, to="one")
    await play.receive(1, at="one")
    await play.pull({"batch": 1, "no_wait": True}, to="two")
    await play.receive(1, at="two")


async def a_request_without_a_listener_is_dropped(play: Recorder) -> None:
    await play.stream()
    await play.consumer(**EXPLICIT)
    await play.pull({"batch": 5, "expires": MINUTE}, to="gone")
    await play.leave("gone")
    await play.info()
    await play.publish("s.a")
    await play.info()
    await play.pull({"batch": 1})
    await play.receive()


async def deleting_ends_waiting_requests(play: Recorder) -> None:
    await play.stream()
    await play.consumer(**EXPLICIT)
    await play.pull({"batch": 1, "expires": MINUTE})
    await play.until_waiting(1)
    await play.ask("CONSUMER.DELETE.S.C")
    await play.receive()
    await play.ask("CONSUMER.DELETE.S.C")
    await play.ask("CONSUMER.MSG.NEXT.S.C")


async def acknowledgements_out_of_order(play: Recorder) -> None:
    await play.stream()
    await play.consumer(**EXPLICIT)
    await play.publish(*["s.a"] * 5)
    await play.pull({"batch": 5, "expires": MINUTE})
    messages = await play.receive(5)
    for place in (1, 3, 0, 4, 2):
        await play.ack(messages[place], double=True)
        await play.info()


async def acknowledging_all(play: Recorder) -> None:
    await play.stream()
    await play.consumer(ack_policy="all")
    await play.publish(*["s.a"] * 5)
    await play.pull({"batch": 5, "expires": MINUTE})
    messages = await play.receive(5)
    await play.ack(messages[2], double=True)
    await play.info()
    await play.ack(messages[0], double=True)
    await play.ack(messages[4], b"", double=True)
    await play.info()


async def no_acknowledgements(play: Recorder) -> None:
    await play.stream()
    await play.consumer(ack_policy="none")
    await play.publish("s.a", "s.b")
    await play.pull({"batch": 2})
    await play.receive(2)
    await play.info()


async def max_ack_pending(play: Recorder) -> None:
    await play.stream()
    await play.consumer(max_ack_pending=2, **EXPLICIT)
    await play.publish(*["s.a"] * 4)
    await play.pull({"batch": 4, "expires": MINUTE})
    first, _ = await play.receive(2)
    await play.nothing()
    await play.ack(first)
    await play.receive(1)
    await play.nothing()
    await play.info()


async def refusing(play: Recorder) -> None:
    await play.stream()
    await play.consumer(**EXPLICIT)
    await play.listen("$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.S.C")
    await play.publish("s.a", "s.b")
    await play.pull({"batch": 10, "expires": MINUTE})
    first, second = await play.receive(2)
    await play.ack(first, b"-NAK", double=True)
    await play.receive(1)
    await play.receive(1, at="$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.S.C")
    began = asyncio.get_running_loop().time()
    await play.ack(second, b'-NAK {"delay": 300000000}', double=True)
    await play.receive_late(began, 0.3)
    await play.info()
    await play.ack(second, b"-NAK 100ms", double=True)
    await play.receive(1)
    await play.ack(second, b"-NAK nonsense", double=True)
    await play.receive(1)


async def terminating(play: Recorder) -> None:
    await play.stream()
    await play.consumer(**EXPLICIT)
    subject = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.C"
    await play.listen(subject)
    await play.publish("s.a", "s.b")
    await play.pull({"batch": 2})
    first, second = await play.receive(2)
    await play.ack(first, b"+TERM", double=True)
    await play.ack(second, b"+TERM not today", double=True)
    await play.receive(2, at=subject)
    await play.info()


async def progress_and_strange_bodies(play: Recorder) -> None:
    await play.stream()
    await play.consumer(ack_wait=2000 * MILLISECOND, **EXPLICIT)
    await play.publish("s.a")
    await play.pull({"batch": 2, "expires": MINUTE})
    (message,) = await play.receive()
    for _ in range(3):
        await asyncio.sleep(0.8)
        await play.ack(message, b"+WPI", double=True)
    await play.ack(message, b"hello", double=True)
    await play.info()
    await play.receive(1)


async def acknowledging_and_the_next(play: Recorder) -> None:
    await play.stream()
    await play.consumer(**EXPLICIT)
    await play.publish(*["s.a"] * 6)
    await play.pull()
    (message,) = await play.receive()
    for body, count in ((b"+NXT", 1), (b"+NXT 2", 2), (b'+NXT {"batch":2,"no_wait":true}', 2)):
        await play.client.publish(message.reply, body, reply="in")
        message = (await play.receive(count))[-1]
    await play.nothing()
    await play.info()


async def expiry_of_acknowledgements(play: Recorder) -> None:
    await play.stream()
    await play.consumer(ack_wait=200 * MILLISECOND, max_deliver=3, **EXPLICIT)
    subject = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C"
    await play.listen(subject)
    await play.publish("s.a", "s.b")
    await play.pull({"batch": 10, "expires": MINUTE})
    await play.receive(6)
    await play.receive(2, at=subject)
    await play.nothing()
    await play.info()


async def a_single_delivery(play: Recorder) -> None:
    await play.stream()
    await play.consumer(ack_wait=200 * MILLISECOND, max_deliver=1, **EXPLICIT)
    subject = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C"
    await play.listen(subject)
    await play.publish("s.a")
    await play.pull({"batch": 10, "expires": MINUTE})
    await play.receive(1)
    await play.receive(1, at=subject)
    await play.info()


async def backoff(play: Recorder) -> None:
    await play.stream()
    delays = [100 * MILLISECOND, 200 * MILLISECOND, 300 * MILLISECOND]
    await play.consumer(backoff=delays, max_deliver=4, **EXPLICIT)
    await play.publish("s.a")
    await play.pull({"batch": 10, "expires": MINUTE})
    await play.receive(4)
    await play.nothing(seconds=0.5)
    await play.info()


async def samples_of_acknowledgements(play: Recorder) -> None:
    await play.stream()
    await play.consumer(sample_freq="100%", **EXPLICIT)
    await play.listen("$JS.EVENT.METRIC.CONSUMER.ACK.S.C")
    await play.publish("s.a")
    await play.pull()
    (message,) = await play.receive()
    await play.ack(message, double=True)
    await play.receive(1, at="$JS.EVENT.METRIC.CONSUMER.ACK.S.C")


SESSIONS = (
    one_message_and_its_acknowledgement,
    a_batch_larger_than_the_stream,
    no_wait,
    no_wait_with_expiry_takes_what_comes,
    max_bytes,
    heartbeats_of_requests,
    bad_requests,
    max_waiting,
    requests_take_turns,
    no_wait_behind_other_requests,
    a_request_without_a_listener_is_dropped,
    deleting_ends_waiting_requests,
    acknowledgements_out_of_order,
    acknowledging_all,
    no_acknowledgements,
    max_ack_pending,
    refusing,
    terminating,
    progress_and_strange_bodies,
    acknowledging_and_the_next,
    expiry_of_acknowledgements,
    a_single_delivery,
    backoff,
    samples_of_acknowledgements,
)

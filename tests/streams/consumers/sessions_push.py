"""Sessions about push consumers, played to both servers by test_consumer_sessions.py."""

from __future__ import annotations

from tests.streams.recorder import Recorder

EXPLICIT = {"ack_policy": "explicit"}
MILLISECOND = 1_000_000
HEARTBEAT = {"idle_heartbeat": 200 * MILLISECOND}


async def delivery_to_a_subject(play: Recorder) -> None:
    await play.stream()
    await play.publish("s.a", "s.b")
    await play.consumer(deliver_subject="out", **EXPLICIT)
    await play.info()
    await play.listen("out")
    first, _ = await play.receive(2, at="out")
    await play.info()
    await play.ack(first, double=True)
    await play.publish("s.c")
    await play.receive(1, at="out")
    await play.info()
    await play.leave("out")
    await play.until_unbound()
    await play.publish("s.d")
    await play.info()


async def redelivery(play: Recorder) -> None:
    await play.stream()
    await play.listen("out")
    await play.consumer(deliver_subject="out", ack_wait=200 * MILLISECOND, max_deliver=2, **EXPLICIT)
    await play.publish("s.a")
    await play.receive(2, at="out")
    await play.nothing(at="out", seconds=0.5)
    await play.info()


async def a_queue_group(play: Recorder) -> None:
    await play.stream()
    await play.publish("s.a")
    await play.consumer(deliver_subject="out", deliver_group="workers", **EXPLICIT)
    await play.listen("out", queue="others")
    await play.nothing(at="out")
    await play.info()
    await play.leave("out")
    await play.until_unbound()
    await play.listen("out", queue="workers")
    await play.receive(1, at="out")
    await play.info()


async def heartbeats(play: Recorder) -> None:
    await play.stream()
    await play.listen("out")
    await play.consumer(deliver_subject="out", filter_subject="s.a", **HEARTBEAT, **EXPLICIT)
    await play.receive_changes(1, at="out")
    await play.publish("s.a")  # nats-server passes over what does not match one heartbeat later
    await play.receive_changes(2, at="out")


async def flow_control(play: Recorder) -> None:
    await play.stream()
    await play.listen("out")
    await play.consumer(
        deliver_subject="out",
        flow_control=True,
        max_ack_pending=-1,
        idle_heartbeat=30_000 * MILLISECOND,
        **EXPLICIT,
    )
    for _ in range(3):
        await play.publish("s.a", payload=b"x" * 500_000)
    messages = [await play._inboxes["out"].next_msg(timeout=30) for _ in range(4)]
    play.note(str([(len(message.data), bool(message.headers)) for message in messages]))
    request = next(message for message in messages if message.headers)
    await play.client.publish(request.reply, b"")
    await play.publish("s.a", payload=b"x")
    last = await play._inboxes["out"].next_msg(timeout=30)
    play.note(f"{len(last.data)} {last.subject}")


async def stalled_by_flow_control(play: Recorder) -> None:
    await play.stream()
    await play.listen("out")
    await play.publish(*["s.a"] * 4, payload=b"x" * 700_000)  # before it, so that no heartbeat comes between
    await play.consumer(deliver_subject="out", flow_control=True, max_ack_pending=-1, **HEARTBEAT, **EXPLICIT)
    seen: list[str] = []
    while not any("Nats-Consumer-Stalled" in line for line in seen):
        message = await play._inboxes["out"].next_msg(timeout=30)
        names = sorted(str(name) for name in message.headers or {})
        seen.append(f"{len(message.data)} {names}")
    play.note(str(len([line for line in seen if line.startswith("700000")])))
    play.note(seen[-1])


async def headers_only(play: Recorder) -> None:
    await play.stream()
    await play.listen("out")
    await play.publish("s.a", payload=b"12345")
    await play.publish("s.b", payload=b"123", headers={"Color": "red"})
    await play.consumer(deliver_subject="out", headers_only=True, ack_policy="none")
    await play.receive(2, at="out")


async def pulling_from_a_push_consumer(play: Recorder) -> None:
    await play.stream()
    await play.consumer(deliver_subject="out", **EXPLICIT)
    await play.pull({"batch": 1})
    await play.receive()


async def another_deliver_subject(play: Recorder) -> None:
    await play.stream()
    await play.listen("out")
    await play.publish("s.a")
    await play.consumer(deliver_subject="out", durable_name="C", **EXPLICIT)
    await play.receive(1, at="out")
    await play.consumer(deliver_subject="other", durable_name="C", **EXPLICIT)
    await play.leave("out")
    await play.until_unbound()
    await play.consumer(deliver_subject="other", durable_name="C", **EXPLICIT)
    await play.listen("other")
    await play.receive(1, at="other")
    await play.info()


async def an_ordered_consumer(play: Recorder) -> None:
    await play.stream()
    await play.listen("out")
    await play.publish("s.a", "s.b", "s.c")
    await play.consumer(
        deliver_subject="out",
        ack_policy="none",
        flow_control=True,
        idle_heartbeat=5_000 * MILLISECOND,
        mem_storage=True,
        max_deliver=1,
        num_replicas=1,
        deliver_policy="by_start_sequence",
        opt_start_seq=2,
    )
    await play.receive(2, at="out")
    await play.info()


SESSIONS = (
    delivery_to_a_subject,
    redelivery,
    a_queue_group,
    heartbeats,
    flow_control,
    stalled_by_flow_control,
    headers_only,
    pulling_from_a_push_consumer,
    another_deliver_subject,
    an_ordered_consumer,
)

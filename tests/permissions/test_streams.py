"""What a user is denied to receive does not come by way of streams either (FAULTS 37).

nats-server checks stored messages too, but only once the user has a wildcard subscription that overlaps what
it is denied. Here they are always checked, so each way is tried without such a subscription, and with one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, RePublish, StorageType, StreamConfig, StreamSource

from tests.clients import flush
from tests.servers import Server, running_server

CONFIG = """
authorization { users: [
  { user: admin, password: p }
  { user: reader, password: p, permissions: { subscribe: { deny: ["in.secret", "out.secret", "hidden.>"] } } }
  { user: worker, password: p, permissions: { subscribe: { deny: "in.secret workers" } } }
] }
"""
WORDS = ("one", "secret", "two", "secret", "three")
VISIBLE = [f"in.{word}" for word in WORDS if word != "secret"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    store = str(tmp_path_factory.mktemp("store"))
    with running_server("headrace", CONFIG, ["-js", "-sd", store]) as running:
        yield running


@asynccontextmanager
async def connected(server: Server, user: str) -> AsyncIterator[Client]:
    client = await nats.connect(f"nats://{user}:p@127.0.0.1:{server.port}", allow_reconnect=False)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def filled(server: Server, **fields: object) -> AsyncIterator[Client]:
    """A stream S that has a message to each of the WORDS; removed afterwards."""
    async with connected(server, "admin") as admin:
        js = admin.jetstream()
        await js.add_stream(
            StreamConfig(name="S", subjects=["in.*"], storage=StorageType.MEMORY, allow_direct=True, **fields)  # type: ignore[arg-type]
        )
        try:
            for word in WORDS:
                await js.publish(f"in.{word}", word.encode())
            yield admin
        finally:
            await js.delete_stream("S")


async def until_quiet(subscription: object, wanted: int) -> list[Msg]:
    """So many messages, and one more if it comes: what is denied would have come between them."""
    found: list[Msg] = []
    while len(found) < wanted:
        found.append(await subscription.next_msg(timeout=30))  # type: ignore[attr-defined]
    with contextlib.suppress(nats.errors.TimeoutError, asyncio.TimeoutError):
        found.append(await subscription.next_msg(timeout=0.05))  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("overlapping", [False, True], ids=["alone", "with an overlapping subscription"])
async def test_a_push_consumer_delivers_nothing_that_is_denied(server: Server, overlapping: bool) -> None:
    async with filled(server) as admin, connected(server, "reader") as reader:
        if overlapping:
            await reader.subscribe("in.*")
        subscription = await reader.subscribe("push.here")
        await flush(reader)
        config = ConsumerConfig(name="C", deliver_subject="push.here", ack_policy=AckPolicy.NONE)
        await admin.jetstream().add_consumer("S", config)
        messages = await until_quiet(subscription, len(VISIBLE))
        assert [message.subject for message in messages] == VISIBLE
        info = await admin.jetstream().consumer_info("S", "C")
        assert info.delivered is not None
        assert info.delivered.stream_seq == len(WORDS)  # what is denied is not in the way of the others


@pytest.mark.parametrize("overlapping", [False, True], ids=["alone", "with an overlapping subscription"])
async def test_a_pull_consumer_delivers_nothing_that_is_denied(server: Server, overlapping: bool) -> None:
    async with filled(server) as admin, connected(server, "reader") as reader:
        if overlapping:
            await reader.subscribe("in.*")
        await admin.jetstream().add_consumer("S", ConsumerConfig(name="C", ack_policy=AckPolicy.NONE))
        inbox = await reader.subscribe("my.inbox")
        await reader.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":5,"no_wait":true}', reply="my.inbox")
        messages = await until_quiet(inbox, len(VISIBLE))
        assert [message.subject for message in messages] == VISIBLE


async def test_a_redelivery_delivers_nothing_that_is_denied(server: Server) -> None:
    async with filled(server) as admin, connected(server, "reader") as reader:
        subscription = await reader.subscribe("push.here")
        await flush(reader)
        config = ConsumerConfig(
            name="C", deliver_subject="push.here", ack_policy=AckPolicy.EXPLICIT, ack_wait=0.1, max_deliver=3
        )
        await admin.jetstream().add_consumer("S", config)
        messages = await until_quiet(subscription, 3 * len(VISIBLE))
        assert {message.subject for message in messages} == set(VISIBLE)


async def test_a_member_of_a_queue_group_gets_what_another_is_denied(server: Server) -> None:
    async with (
        filled(server) as admin,
        connected(server, "worker") as worker,
        connected(server, "admin") as other,
    ):
        denied = await worker.subscribe("push.here", queue="workers")
        allowed = await other.subscribe("push.here", queue="workers")
        await flush(worker)
        await flush(other)
        config = ConsumerConfig(
            name="C", deliver_subject="push.here", deliver_group="workers", ack_policy=AckPolicy.NONE
        )
        await admin.jetstream().add_consumer("S", config)
        async with asyncio.timeout(20):
            while denied.delivered + allowed.delivered + denied.pending_msgs + allowed.pending_msgs < len(
                WORDS
            ):
                await asyncio.sleep(0.01)
        got = [(await denied.next_msg(timeout=1)).subject for _ in range(denied.pending_msgs)]
        assert "in.secret" not in got


async def test_a_mirror_delivers_nothing_that_is_denied(server: Server) -> None:
    async with filled(server) as admin, connected(server, "reader") as reader:
        js = admin.jetstream()
        await js.add_stream(StreamConfig(name="M", mirror=StreamSource(name="S"), storage=StorageType.MEMORY))
        subscription = await reader.subscribe("push.here")
        await flush(reader)
        config = ConsumerConfig(name="C", deliver_subject="push.here", ack_policy=AckPolicy.NONE)
        await js.add_consumer("M", config)
        messages = await until_quiet(subscription, len(VISIBLE))
        await js.delete_stream("M")
        assert [message.subject for message in messages] == VISIBLE


async def test_a_republished_message_is_not_delivered_to_who_is_denied_its_new_subject(
    server: Server,
) -> None:
    async with connected(server, "reader") as reader:
        subscription = await reader.subscribe("out.*")
        await flush(reader)
        async with filled(server, republish=RePublish(src="in.*", dest="out.{{wildcard(1)}}")):
            messages = await until_quiet(subscription, len(VISIBLE))
            assert [message.subject for message in messages] == [f"out.{word[3:]}" for word in VISIBLE]


async def test_an_answer_is_not_delivered_to_a_denied_inbox(server: Server) -> None:
    """Direct get, and every other answer of the API. Who may read is a matter of who may publish requests."""
    async with filled(server), connected(server, "reader") as reader:
        everything = await reader.subscribe("*.inbox")
        await reader.subscribe("hidden.*")  # refused
        await flush(reader)
        for request, body in [
            ("$JS.API.DIRECT.GET.S", b'{"seq":1}'),
            ("$JS.API.DIRECT.GET.S.in.one", b""),
            ("$JS.API.STREAM.MSG.GET.S", b'{"seq":1}'),
            ("$JS.API.STREAM.INFO.S", b""),
            ("in.one", b"acknowledged"),
        ]:
            await reader.publish(request, body, reply="hidden.inbox")
        await reader.publish("$JS.API.STREAM.INFO.S", b"", reply="open.inbox")
        messages = await until_quiet(everything, 1)
        assert [message.subject for message in messages] == ["open.inbox"]

"""Streams of another account, through imports of its API: the same at nats-server and at headrace."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig

from tests.clients import flush
from tests.servers import ServerKind, running_server

CONFIG = """
jetstream { max_mem: 1G, max_file: 1G }
accounts {
  A {
    jetstream: enabled
    users: [{user: a, password: x}]
    exports: [
      {service: "$JS.API.>", response_type: stream}, {service: "$JS.ACK.>"}, {service: "$JS.FC.>"}
      {service: "orders.>"}, {stream: "deliver.>"}, {stream: "orders.>"}
    ]
  }
  B {
    users: [{user: b, password: x}]
    imports: [
      {service: {account: A, subject: "$JS.API.>"}}, {service: {account: A, subject: "$JS.ACK.>"}}
      {service: {account: A, subject: "orders.>"}}, {stream: {account: A, subject: "deliver.>"}}
    ]
  }
  C {
    jetstream: enabled
    users: [{user: c, password: x}]
    imports: [
      {service: {account: A, subject: "$JS.API.>"}, to: "$JS.A.API.>"}
      {stream: {account: A, subject: "orders.>"}, prefix: from}
    ]
  }
}
"""
Seen = list[Any]


async def connect(port: int, user: str) -> Client:
    return await nats.connect(f"nats://{user}:x@127.0.0.1:{port}", allow_reconnect=False)


async def play(kind: ServerKind, directory: Path) -> Seen:
    """What the clients see."""
    with running_server(kind, CONFIG, ["-sd", str(directory)]) as server:
        a, b, c = [await connect(server.port, user) for user in "abc"]
        seen: Seen = []
        await a.jetstream().add_stream(name="S", subjects=["orders.>"])
        await publish_and_pull(b, seen)
        await push(a, b, seen)
        await capture(a, c, seen)
        seen.append(await ask(c, "$JS.API.STREAM.INFO.S"))
        seen.append(await ask(c, "$JS.A.API.STREAM.INFO.S"))
        seen.append(await ask(b, "$JS.API.STREAM.NAMES"))
        seen.append(await ask(b, "$JS.API.STREAM.INFO.NONE"))
        seen.append(await ask(b, "$JS.API.STREAM.DELETE.S"))
        for client in (a, b, c):
            await client.close()
        return seen


async def publish_and_pull(b: Client, seen: Seen) -> None:
    jetstream = b.jetstream()
    for number in range(3):
        ack = await jetstream.publish(f"orders.{number}", b"body %d" % number)
        seen.append((ack.stream, ack.seq))
    pulling = await jetstream.pull_subscribe("orders.>", "d", stream="S")
    for message in await pulling.fetch(3, timeout=30):
        seen.append((message.subject, message.data, message.metadata.sequence.stream))
        await message.ack_sync(timeout=30)
    info = await jetstream.consumer_info("S", "d")
    seen.append((info.ack_floor.stream_seq, info.num_ack_pending, info.num_pending))
    found = await jetstream.get_msg("S", 2)
    seen.append((found.subject, found.data))


async def push(a: Client, b: Client, seen: Seen) -> None:
    """A consumer delivers to a subject that the other account imports."""
    got: asyncio.Queue[Msg] = asyncio.Queue()
    await b.subscribe("deliver.here", cb=got.put)
    await flush(b)
    config = ConsumerConfig(name="p", deliver_subject="deliver.here", ack_policy=AckPolicy.NONE)
    await a.jetstream().add_consumer("S", config)
    for _ in range(3):
        message = await asyncio.wait_for(got.get(), 30)
        seen.append((message.subject, message.data, message.reply.split(".")[:4]))


async def capture(a: Client, c: Client, seen: Seen) -> None:
    """A stream stores what its account imports."""
    jetstream = c.jetstream()
    await jetstream.add_stream(name="COPY", subjects=["from.>"])
    await a.jetstream().publish("orders.late", b"late")
    while (await jetstream.stream_info("COPY")).state.messages == 0:
        await asyncio.sleep(0.01)
    found = await jetstream.get_msg("COPY", 1)
    seen.append((found.subject, found.data))


async def ask(client: Client, subject: str) -> Any:
    try:
        answer = json.loads((await client.request(subject, b"", timeout=30)).data)
    except nats.errors.NoRespondersError:
        return "nobody"
    return {name: answer.get(name) for name in ("type", "error", "streams", "success")}


async def test_clients_of_another_account_see_the_same_as_at_nats_server(tmp_path: Path) -> None:
    reference = await play("nats-server", tmp_path / "reference")
    ours = await play("headrace", tmp_path / "ours")
    assert ours == reference

"""The alarm of one pull request rings while another, which does not wait, has not had everything yet."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from headrace.streams.consumers.consumer import Consumer
from headrace.streams.consumers.pull import PullDelivery
from tests.streams.embedded import EmbeddedServer, embedded_server
from tests.streams.peers import ask

PATIENCE_SECONDS = 30
LARGE = 500_000
MANY = 40
"""Together more than sockets hold."""


async def stream_with(client: Client, *payloads: bytes, **config: Any) -> None:
    await ask(client, "STREAM.CREATE.P", {"name": "P", "subjects": ["p"], "storage": "memory"})
    for payload in payloads:
        await client.request("p", payload, timeout=PATIENCE_SECONDS)
    consumer = {"durable_name": "c", "ack_policy": "none", **config}
    await ask(client, "CONSUMER.DURABLE.CREATE.P.c", {"stream_name": "P", "config": consumer})


def consumer_of(embedded: EmbeddedServer) -> Consumer:
    return embedded.server.jetstream.accounts["$G"].streams["P"].consumers["c"]


async def test_a_request_that_was_not_looked_at_yet_gets_what_is_there(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as embedded:
        client = await embedded.client()
        await stream_with(client, b"1", b"2")
        inbox = await client.subscribe("got")
        await client.flush()
        consumer = consumer_of(embedded)
        consumer._on_pull(b"got", b'{"batch":5,"no_wait":true}')
        consumer._on_alarm("pull")
        answers = [await inbox.next_msg(timeout=PATIENCE_SECONDS) for _ in range(3)]
        assert [answer.data for answer in answers] == [b"1", b"2", b""]
        assert answers[-1].headers == {"Status": "404", "Description": "No Messages"}
        await client.close()


async def test_a_consumer_that_delivers_when_it_is_to_be_deleted_is_kept(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as embedded:
        client = await embedded.client()
        await stream_with(client, b"1", inactive_threshold=3600 * 10**9)
        inbox = await client.subscribe("got")
        await client.flush()
        consumer = consumer_of(embedded)
        assert isinstance(consumer.delivery, PullDelivery)
        consumer._on_pull(b"got", b'{"batch":1,"expires":60000000000}')
        consumer.delivery.queue.last_active = 0
        consumer.idleness.check()
        assert (await inbox.next_msg(timeout=PATIENCE_SECONDS)).data == b"1"
        assert (await ask(client, "CONSUMER.INFO.P.c"))["name"] == "c"
        await client.close()


async def test_a_request_whose_receiver_is_slow_gets_everything(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as embedded:
        client = await embedded.client()
        await stream_with(client, *([b"x" * LARGE] * MANY))
        reader, writer = await asyncio.open_connection(*embedded.server.address.split(":"), limit=1024)
        writer.write(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB got 1\r\n')
        request = b'{"batch":1000,"no_wait":true}'
        writer.write(b"PUB $JS.API.CONSUMER.MSG.NEXT.P.c got %d\r\n%b\r\n" % (len(request), request))
        consumer = consumer_of(embedded)
        while not consumer.core.cursor.blocked:
            await asyncio.sleep(0.01)
        consumer._on_alarm("pull")
        received = bytearray()
        while b"404 No Messages" not in received[-100:]:
            received += await asyncio.wait_for(reader.read(1 << 20), PATIENCE_SECONDS)
        assert received.count(b"x" * LARGE) == MANY
        writer.close()
        await client.close()

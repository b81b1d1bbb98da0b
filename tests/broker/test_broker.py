"""The broker as nats-py, unmodified, sees it."""

from __future__ import annotations

import asyncio

import nats
import nats.errors
import pytest
from nats.aio.msg import Msg

from tests.broker.conftest import OWN_SUBSCRIPTIONS, Start
from tests.clients import flush


async def test_publish_and_subscribe(start: Start) -> None:
    running = start()
    client, other = await running.client(), await running.client()
    subscription = await client.subscribe("orders.*")
    await flush(client)
    await other.publish("orders.eu", b"one")
    await other.publish("orders", b"not this one")
    await other.publish("orders.us", b"two")
    got = [await subscription.next_msg(30) for _ in range(2)]
    assert [(message.subject, message.data) for message in got] == [
        ("orders.eu", b"one"),
        ("orders.us", b"two"),
    ]


async def test_request_and_reply_with_headers(start: Start) -> None:
    running = start()
    service, client = await running.client(), await running.client()

    async def answer(message: Msg) -> None:
        await message.respond(message.data[::-1] + (message.headers or {})["Key"].encode())

    await service.subscribe("service", cb=answer)
    await flush(service)
    reply = await client.request("service", b"abc", headers={"Key": "value"}, timeout=30)
    assert reply.data == b"cbavalue"


async def test_a_request_that_nobody_serves_fails_at_once(start: Start) -> None:
    client = await start().client()
    with pytest.raises(nats.errors.NoRespondersError):
        await client.request("nobody", b"", timeout=30)


async def test_queue_groups_are_fair(start: Start) -> None:
    running = start()
    members = [await running.client() for _ in range(5)]
    counts = [0] * 5

    def counter(number: int):  # type: ignore[no-untyped-def]
        async def count(_: Msg) -> None:
            counts[number] += 1

        return count

    for number, member in enumerate(members):
        await member.subscribe("work", queue="workers", cb=counter(number))
        await flush(member)
    publisher = await running.client()
    for _ in range(2000):
        await publisher.publish("work", b"")
    await flush(publisher)
    await running.until(lambda: sum(counts) == 2000)
    # 400 each with a standard deviation of 18: six of them either way happen once in 10^8 runs.
    assert all(290 < count < 510 for count in counts), counts


async def test_drain_delivers_what_was_under_way(start: Start) -> None:
    running = start()
    client, publisher = await running.client(), await running.client()
    got: list[bytes] = []

    async def note(message: Msg) -> None:
        got.append(message.data)
        await asyncio.sleep(0)

    await client.subscribe("foo", cb=note)
    await flush(client)
    for number in range(300):
        await publisher.publish("foo", b"%d" % number)
    await flush(publisher)
    await client.drain()
    assert got == [b"%d" % number for number in range(300)]
    await running.until(lambda: len(running.broker.connections) == 1)
    assert running.broker.interest.count == OWN_SUBSCRIPTIONS


async def test_large_payloads(start: Start) -> None:
    running = start()
    client = await running.client()
    subscription = await client.subscribe("big")
    for size in (0, 65_536, 1_048_576):
        await client.publish("big", b"x" * size)
        assert len((await subscription.next_msg(30)).data) == size


async def test_two_hundred_connections(start: Start) -> None:
    running = start()
    clients = [await running.raw(name=f"c{number}") for number in range(200)]
    for client in clients:
        await client.send(b"SUB all 1\r\n")
        await client.ask()
    publisher = await running.raw()
    await publisher.connect()
    await publisher.ask(b"PUB all 2\r\nhi\r\n")
    for client in clients:
        assert [frame.payload for frame in await client.ask()] == [b"hi"]
    for client in clients[:100]:
        await client.close()
    await running.until(lambda: len(running.broker.connections) == 101)
    assert running.broker.interest.count == 100 + OWN_SUBSCRIPTIONS
    assert running.broker.total_connections == 201


async def test_the_second_info_follows_the_first_ping(start: Start) -> None:
    client = await start().raw()
    assert "connect_info" not in client.info
    await client.connect(protocol=1)
    await client.send(b"PING\r\n")
    assert await client.line() == b"PONG\r\n"
    second = await client.line()
    assert b'"connect_info":true' in second
    assert await client.ask() == []


async def test_clients_of_the_old_protocol_get_no_second_info(start: Start) -> None:
    client = await start().raw()
    await client.connect(protocol=0)
    assert await client.ask() == []
    assert await client.ask() == []


async def test_info_tells_the_truth(start: Start) -> None:
    running = start(max_payload=1234, server_name="mill")
    first, second = await running.raw(), await running.raw()
    info = first.info
    assert (info["server_name"], info["max_payload"], info["headers"]) == ("mill", 1234, True)
    assert (info["port"], info["client_ip"], info["proto"]) == (running.broker.port, "127.0.0.1", 1)
    assert "auth_required" not in info
    assert second.info["client_id"] > info["client_id"]


async def test_a_closed_connection_is_remembered_with_its_reason(start: Start) -> None:
    running = start(max_closed_clients=2)
    for data in (b"NONSENSE\r\n", b"PUB a\r\n", b"-ERR x\r\n"):
        client = await running.raw()
        await client.send(data)
        await client.rest()
    await running.until(lambda: not running.broker.connections)
    assert [reason for _, reason in running.broker.closed] == ["Protocol Violation", "Parse Error"]


async def test_stop_closes_everybody(start: Start) -> None:
    running = start()
    clients = [await running.raw() for _ in range(3)]
    running.stop()
    assert [await client.rest() for client in clients] == [b""] * 3
    assert running.broker.connections == {}

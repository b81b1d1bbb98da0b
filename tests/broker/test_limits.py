"""Limits, keepalive, slow consumers and the listener."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import pytest

from headrace.errors import UsageError
from tests.broker.conftest import HOST, PATIENCE_SECONDS, Start
from tests.clients import flush


async def test_connections(start: Start) -> None:
    running = start(max_connections=2)
    first, _ = await running.raw(), await running.raw()
    third = await running.raw()
    assert await third.rest() == b"-ERR 'maximum connections exceeded'\r\n"
    assert len(running.broker.connections) == 2
    await first.close()
    await running.until(lambda: len(running.broker.connections) == 1)
    fourth = await running.raw()
    await fourth.connect()
    assert await fourth.ask() == []


async def test_subscriptions(start: Start) -> None:
    client = await start(max_subscriptions=2).raw(name="x")
    answers = await client.ask(b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n")
    assert [(frame.operation, frame.argument) for frame in answers] == [
        ("-ERR", b"'maximum subscriptions exceeded'")
    ]
    assert await client.ask(b"UNSUB 1\r\nSUB c 3\r\n") == []


async def test_subject_tokens(start: Start) -> None:
    client = await start(max_subscription_tokens=3).raw(name="x")
    (answer,) = await client.ask(b"SUB a.b.c 1\r\nSUB a.b.c.d 2\r\n")
    assert answer.argument == b"'Permissions Violation for Subscription to \"a.b.c.d\", too many tokens'"


async def test_control_line(start: Start) -> None:
    running = start(max_control_line=100)
    client = await running.raw(name="x")
    assert await client.ask(b"SUB %b 1\r\n" % (b"s" * 98)) == []
    await client.send(b"SUB %b 1\r\n" % (b"s" * 99))
    assert await client.rest() == b"-ERR 'maximum control line exceeded'\r\n"


async def test_payload(start: Start) -> None:
    client = await start(max_payload=10).raw(name="x")
    assert await client.ask(b"PUB a 10\r\n0123456789\r\n") == []
    await client.send(b"PUB a 11\r\n")
    assert await client.rest() == b"-ERR 'Maximum Payload Violation'\r\n"


async def test_a_silent_client_is_pinged_and_then_stale(start: Start) -> None:
    running = start(ping_interval=0.03, ping_max=2)
    client = await running.raw(name="x")
    assert await client.rest(pings=True) == b"PING\r\nPING\r\n-ERR 'Stale Connection'\r\n"
    await running.until(lambda: running.broker.stale_connections == 1)


async def test_a_client_that_answers_lives(start: Start) -> None:
    running = start(ping_interval=0.8, ping_max=1)
    client = await running.raw(name="x")
    for _ in range(2):  # the second does not come to who has not answered the first
        assert await client.line() == b"PING\r\n"
        await client.send(b"PONG\r\n")
    (connection,) = running.broker.connections.values()
    assert connection.rtt > 0


async def test_the_first_ping_measures_a_client_that_speaks(start: Start) -> None:
    running = start(ping_interval=0.05, ping_max=10_000)
    client = await running.raw(name="x")
    async with asyncio.timeout(PATIENCE_SECONDS):
        answer = b"PONG\r\n"
        while answer == b"PONG\r\n":
            await client.send(b"PING\r\n")
            answer = await client.line()
            await asyncio.sleep(0.01)
    assert answer == b"PING\r\n"


async def test_a_receiver_that_takes_nothing_misses_the_write_deadline(start: Start) -> None:
    running = start(write_deadline=0.1)
    stuck, publisher = await running.raw(name="stuck"), await running.client()
    await stuck.ask(b"SUB foo 1\r\n")
    stuck.writer.transport.pause_reading()  # type: ignore[attr-defined]
    while not running.broker.slow_consumers:
        await publisher.publish("foo", b"x" * 500_000)
        await flush(publisher)
        await asyncio.sleep(0.005)
    assert "Slow Consumer (Write Deadline)" in {reason for _, reason in running.broker.closed}
    assert "WriteDeadline of 0.1s exceeded" in running.log_text()
    await flush(publisher)


async def test_a_receiver_with_too_much_pending_is_closed(start: Start) -> None:
    running = start(max_pending=2_000_000)
    stuck, publisher = await running.raw(name="stuck"), await running.client()
    await stuck.ask(b"SUB foo 1\r\n")
    stuck.writer.transport.pause_reading()  # type: ignore[attr-defined]
    while not running.broker.slow_consumers:
        await publisher.publish("foo", b"x" * 500_000)
        await flush(publisher)
    assert {reason for _, reason in running.broker.closed} == {"Slow Consumer (Pending Bytes)"}
    assert "MaxPending of 2000000 Exceeded" in running.log_text()


async def test_a_taken_port_cannot_be_had(start: Start) -> None:
    running = start()
    with pytest.raises(UsageError, match="bind: address already in use"):
        start(port=running.broker.port)


async def test_a_host_that_does_not_exist(start: Start) -> None:
    with pytest.raises(UsageError, match="lookup"):
        start(host="no.such.host.invalid")


def has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
        return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
async def test_ipv6(start: Start) -> None:
    running = start(host="::1")
    reader, writer = await asyncio.open_connection("::1", running.broker.port)
    assert b'"client_ip":"::1"' in await reader.readline()
    writer.close()
    await writer.wait_closed()
    assert f"[::1]:{running.broker.port}" in running.log_text()


OUT_OF_DESCRIPTORS = """
import asyncio, resource, socket, sys
from headrace.broker.broker import Broker
from headrace.config.options import Options
from headrace.logs import Logger, LogSettings

async def main():
    logger = Logger(LogSettings(logtime=False))
    broker = Broker(Options(host="127.0.0.1", port=-1), logger)
    broker.start()
    sockets = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(3)]
    while len(broker.connections) < 3:
        await asyncio.sleep(0.01)
    clients = [socket.socket() for _ in range(3)]
    used = max(client.fileno() for client in clients) + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, used))
    for client in clients:
        client.connect(("127.0.0.1", broker.port))       # the kernel accepts; the broker cannot
    await asyncio.sleep(0.35)
    assert len(broker.connections) == 3
    sockets[0].sendall(b"PING\\r\\n")                      # the others are served as before
    sockets[0].setblocking(False)
    received = b""
    while b"PONG" not in received:
        received += await asyncio.get_running_loop().sock_recv(sockets[0], 4096)
    for client in sockets:
        client.close()
    while len(broker.connections) < 3 or broker.total_connections < 6:
        await asyncio.sleep(0.01)
    broker.stop()
    logger.close()
    print("served", broker.total_connections)

asyncio.run(main())
"""


def test_without_descriptors_the_listener_backs_off_and_comes_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OUT_OF_DESCRIPTORS], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "served 6\n"), done.stderr
    assert done.stderr.count("Cannot accept connections for now: too many open files") == 1


async def test_many_connections_at_once_are_all_accepted(start: Start) -> None:
    running = start()
    connecting = [asyncio.open_connection(HOST, running.broker.port) for _ in range(300)]
    opened = await asyncio.gather(*connecting)
    infos = await asyncio.gather(*(reader.readline() for reader, _ in opened))
    assert all(info.startswith(b"INFO ") for info in infos)
    for _, writer in opened:
        writer.close()
        await writer.wait_closed()
    await running.until(lambda: not running.broker.connections)

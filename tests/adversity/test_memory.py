"""Too little memory, and very many subscriptions (FAULTS 22, 23)."""

from __future__ import annotations

import random
import resource
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.adversity.recorder import Connection, Record, check, create_stream, stored_messages
from tests.adversity.watch import MIB, Bystander, memory
from tests.sanitizers import ARE_AT_WORK
from tests.servers import Server, running_server


def limit_memory(server: Server, more: int) -> None:
    """Let the server take this many bytes more than it has."""
    limit = memory(server.process.pid, "VmSize") + more
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


@pytest.mark.skipif(ARE_AT_WORK, reason="the sanitizers map terabytes, and have an allocator of their own")
@pytest.mark.parametrize("more", [1, 32])
def test_a_memory_limit_costs_no_acknowledged_message(tmp_path: Path, more: int) -> None:
    """Requests and connections may fail then. The server lives, and keeps what it has acknowledged."""
    record = Record()
    with running_server("headrace", "write_deadline: 5s\n", ["-js", "-sd", str(tmp_path)]) as server:
        create_stream(server.port)
        record.publish(server.port, count=1000)
        limit_memory(server, more * MIB)
        with ExitStack() as stack:
            for _ in range(4):  # they never read: all that is published waits for them
                with suppress(OSError):
                    stack.enter_context(Connection(server.port)).send(b"SUB crash.* 1\r\n")
            for _ in range(5):
                record.publish(server.port, count=200, size=256 * 1024)
        assert server.process.poll() is None, server.log()[-2000:]
        resource.prlimit(
            server.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        )
        before, end = len(record.acknowledged), time.monotonic() + 60
        while len(record.acknowledged) == before and time.monotonic() < end:
            record.publish(server.port, count=1)  # the log tries again ten times a second
        before = len(record.acknowledged)
        record.publish(server.port, count=100)
        recovered = len(record.acknowledged) - before
        check(record, stored_messages(server.port))
        refused = len(record.errors)
        server.process.kill()
    with running_server("headrace", flags=["-js", "-sd", str(tmp_path)]) as server:
        check(record, stored_messages(server.port))
    print(
        f"{more} MiB left: {len(record.acknowledged)} acknowledged, 0 lost; {refused} errors answered, "
        f"{record.next_number - 1 - len(record.acknowledged) - refused} without an answer"
    )
    assert recovered == 100


def subscribe_to_many(count: int) -> None:
    chance = random.Random(1)
    with running_server("headrace") as server, Connection(server.port) as client:
        before = memory(server.process.pid)
        for start in range(0, count, 10_000):
            client.send(
                b"".join(b"SUB many.%d.%d %d\r\n" % (n % 997, n, n) for n in range(start, start + 10_000))
            )
            client.ping()
        growth = memory(server.process.pid) - before
        took = []
        with Bystander(server.port) as bystander:
            messages = client.messages()
            for number in (chance.randrange(count) for _ in range(2000)):
                subject = b"many.%d.%d" % (number % 997, number)
                sent = time.monotonic()
                client.send(b"PUB %b 2\r\nhi\r\n" % subject)
                assert next(messages)[0] == subject
                took.append(time.monotonic() - sent)
        client.send(b"".join(b"UNSUB %d\r\n" % n for n in range(count)) + b"PUB many.1.1 0\r\n\r\n")
        client.ping()
    p99 = sorted(took)[int(len(took) * 0.99)]
    print(
        f"{count} subscriptions: {growth / count:.0f} bytes each, {growth / MIB:.0f} MiB in all, p99 of a "
        f"match and round trip {p99 * 1000:.2f} ms; {bystander.describe()}"
    )
    assert growth / count < 1024


def test_many_subscriptions_work() -> None:
    subscribe_to_many(50_000)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_million_subscriptions_work() -> None:
    subscribe_to_many(1_000_000)


def test_the_limit_of_subscriptions_holds() -> None:
    with running_server("headrace", "max_subscriptions: 1000\n") as server, Connection(server.port) as client:
        client.send(b"".join(b"SUB many.%d %d\r\n" % (n, n) for n in range(1000)))
        client.ping()
        client.send(b"SUB one.more 5000\r\n")
        with pytest.raises(ConnectionError, match="maximum subscriptions exceeded"):
            next(client.messages())
        client.send(b"PUB many.999 2\r\nhi\r\n")
        assert next(client.messages())[0] == b"many.999"
    print("limit of 1000 subscriptions: the next is refused, the others work")

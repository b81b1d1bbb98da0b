"""`headrace top` in a terminal: what it shows of both servers, and keys."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nats import connect

from tests.cli.commands import assert_one_error_line
from tests.cli.conftest import KINDS
from tests.cli.more.conftest import Broker, started_broker
from tests.cli.more.in_process import run_here
from tests.cli.screens import assert_restored, terminal
from tests.clients import flush
from tests.servers import ServerKind, running_server

CLIENTS = 30


@contextmanager
def clients(broker: Broker) -> Iterator[None]:
    """Clients with names, one of which has received something, and a stream with messages."""
    ready, done = threading.Event(), threading.Event()

    async def main() -> None:
        connected = [await connect(broker.url, name=f"client-{number:02}") for number in range(CLIENTS)]
        await connected[7].subscribe("busy.>")
        await flush(connected[7])
        jetstream = connected[0].jetstream(timeout=30)
        await jetstream.add_stream(name="ORDERS", subjects=["orders.>"])
        await jetstream.add_stream(name="AUDIT", subjects=["audit.>"], storage="memory")
        await jetstream.add_consumer("ORDERS", durable_name="worker", ack_policy="explicit")
        for number in range(1500):
            await connected[3].publish(f"busy.{number}", b"x" * 100)
        for _ in range(5):
            await jetstream.publish("orders.new", b"x" * 1000)
        await asyncio.gather(*(client.flush() for client in connected))
        ready.set()
        while not done.is_set():
            await asyncio.sleep(0.02)
        for client in connected:
            await client.close()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield
    finally:
        done.set()
        thread.join()


@pytest.fixture(scope="module")
def busy(broker: Broker) -> Iterator[Broker]:
    with clients(broker):
        yield broker


def test_a_small_terminal(busy: Broker) -> None:
    with terminal("top", "-m", busy.monitor, "-d", "0.2", columns=80, lines=24) as top:
        lines = top.wait_for("Connections: 30", "q quit", "client-00").splitlines()
        assert lines[0].startswith("NATS server version 2.15.1 (uptime: ")
        assert lines[7].split() == [
            "HOST",
            "CID",
            "NAME",
            "SUBS",
            "MSGS_TO",
            "MSGS_FROM",
            "BYTES_TO",
            "BYTES_FROM",
        ]
        assert "rows 1-15 of 30" in lines[23]
        top.press("\x1b[6~")
        top.wait_for("rows 15-29 of 30", absent="client-00")
        top.press("\x1b[B\x1b[B\x1b[B")
        top.wait_for("rows 16-30 of 30", "client-29")
        top.press("\x1b[H")
        top.wait_for("rows 1-15 of 30", "client-00")
        top.press("q")
        assert top.end() == 0
        assert_restored(top)


def test_sorting(busy: Broker) -> None:
    with terminal("top", "-m", busy.monitor, "-d", "0.2", lines=15) as top:
        top.wait_for("sorted by cid", "client-00")
        top.press("omsgs_tx\x7fo")
        top.wait_for("sort by [cid]: msgs_to")
        top.press("\r")
        top.wait_for("sorted by msgs_to", "client-07")
        top.wait_until(lambda lines: "client-07" in lines[8] and "1.5K" in lines[8])
        top.press(">")
        top.wait_for("sorted by msgs_from", "client-03")
        top.press("<")
        top.wait_for("sorted by msgs_to", "client-07")
        top.press("owrong\r")
        top.wait_for("no order wrong: cid,")
        top.press("o\x1b")
        top.wait_for("sorted by msgs_to", absent="sort by [")
        top.press("n2\r")
        top.wait_for("Connections: 2 of 30")
        top.press("\x03")
        assert top.end() == 0
        assert_restored(top)


def test_a_large_terminal_and_streams(busy: Broker) -> None:
    with terminal("top", "-m", busy.monitor, "-d", "0.2", columns=200, lines=50) as top:
        top.wait_for("LAST ACTIVITY", "client-29", "python3")
        top.wait_until(lambda lines: sum("client-" in line for line in lines) == CLIENTS)
        top.press("sb")
        top.wait_for("SUBSCRIPTIONS", "busy.>", "150000")
        top.press("\t")
        top.wait_for("Streams: 2", "sorted by name", "ORDERS")
        top.wait_until(lambda lines: names(lines) == ["AUDIT", "ORDERS"])
        top.wait_until(lambda lines: lines[9].split()[2:3] == ["5"])
        top.wait_until(lambda lines: lines[9].split()[-3:] == ["1", "5", "0"])
        top.press("omessages\r")
        top.wait_for("sorted by messages")
        top.wait_until(lambda lines: names(lines) == ["ORDERS", "AUDIT"])
        top.press("?")
        top.wait_for("Press any key", "quit")
        top.press("c")
        top.wait_for("Streams: 2", absent="Press any key")
        top.press("c")
        top.wait_for("Connections: 30")
        top.press("q")
        assert top.end() == 0
        assert_restored(top)


def names(lines: list[str]) -> list[str]:
    """Of the first two streams, as far as they are on the screen."""
    return [name for line in lines[8:10] for name in line.split()[1:2]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_goes(kind: ServerKind, tmp_path: Path) -> None:
    with started_broker(kind, tmp_path) as broker, terminal("top", "-m", broker.monitor, "-d", "0.1") as top:
        top.wait_for("q quit")
        broker.server.process.terminate()
        top.wait_for("connection refused", "Connections: 0")
        top.press("q")
        assert top.end() == 0
        assert_restored(top)


def test_once(busy: Broker) -> None:
    port = busy.monitor.rpartition(":")[2]  # which is enough, on this machine
    text = busy.ok("top", "-m", port, "--once", "-d", "0.1", "--sort", "msgs_to")
    lines = text.splitlines()
    assert lines[0].startswith("NATS server version 2.15.1")
    assert lines[6].split()[:3] == ["HOST", "CID", "NAME"]
    assert "client-07" in lines[7]
    assert "\x1b" not in text
    document = busy.json("top", "-m", busy.monitor, "-b", "--conns", "5")
    assert len(document["connections"]) == 5
    assert document["varz"]["connections"] == CLIENTS
    (orders,) = [
        row
        for row in busy.json("top", "-m", busy.monitor, "--once", "--streams")["streams"]
        if row["name"] == "ORDERS"
    ]
    assert (orders["messages"], orders["consumers"], orders["pending"]) == (5, 1, 5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_without_jetstream(kind: ServerKind) -> None:
    with running_server(kind, flags=["-m", "-1"]) as server:
        monitor = Broker(server).monitor
        with terminal("top", "-m", monitor, "--streams") as top:
            top.wait_for("JetStream is not enabled")
            top.press("q")
            assert top.end() == 0


def test_wrong_arguments(broker: Broker) -> None:
    assert_one_error_line(run_here("top", "-m", "http://127.0.0.1:1"), "needs a terminal", "--once")
    assert_one_error_line(
        run_here("top", "-m", "http://127.0.0.1:1", "--once"), "no monitor port", "--monitor"
    )
    assert_one_error_line(run_here("top", "-m", "ftp://x", "--once"), "is not a URL")
    assert_one_error_line(run_here("top", "-m", "http://x:port", "--once"), "is not a URL")
    assert_one_error_line(run_here("top", "--sort", "x", "--once"), "--sort x is none of cid", code=2)
    assert_one_error_line(run_here("top", "--json"), "--once", code=2)
    assert_one_error_line(run_here("top", "-d", "0"), "0", code=2)
    not_http = broker.url.removeprefix("nats://")
    assert_one_error_line(
        run_here("top", "-m", not_http, "--once"), f"{not_http} is the port for clients, not the monitor port"
    )
    no_tls = broker.monitor.removeprefix("http://")
    assert_one_error_line(
        run_here("top", "-m", f"https://{no_tls}", "--once"), f"{no_tls} does not speak TLS", "http://"
    )


def test_once_has_rates(broker: Broker) -> None:
    ready, done = threading.Event(), threading.Event()

    async def publish() -> None:
        client = await connect(broker.url, name="feed")
        await client.flush()
        ready.set()
        while not done.is_set():
            await client.publish("feed", b"x" * 100)
            await asyncio.sleep(0.001)
        await client.close()

    thread = threading.Thread(target=asyncio.run, args=(publish(),))
    thread.start()
    try:
        assert ready.wait(30)
        document = broker.json("top", "-m", broker.monitor, "--once", "-d", "1.5")
    finally:
        done.set()
        thread.join()
    (feed,) = (one for one in document["connections"] if one["name"] == "feed")
    assert feed["rates"]["in_msgs"] > 0
    assert document["rates"]["in_bytes"] > 0

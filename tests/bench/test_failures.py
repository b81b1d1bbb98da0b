"""A run that cannot be believed ends with one clear line, and ends at all."""

import os
import signal
import socket
import sys
from dataclasses import replace

import pytest

from headrace.bench.clients.load import Load
from headrace.bench.failure import BenchError
from headrace.bench.generator import run_load
from headrace.bench.servers import Process, Server, running
from headrace.bench.wire import open_connections, publish_frame
from headrace.bench.workloads import IdleConnections, PublishSubscribe, RequestReply, Workload
from headrace.client.addresses import Address

FRAME = publish_frame(b"bench", b"hello")
ENDLESS = 200_000_000


class Once:
    """Sends a server a signal as soon as messages have come."""

    def __init__(self, process: Process, number: signal.Signals) -> None:
        self._process = process
        self._number: signal.Signals | None = number

    def __call__(self, share: float) -> None:
        if share > 0 and self._number is not None and self._process.pid is not None:
            os.kill(self._process.pid, self._number)
            self._number = None


def run_with_subscription(
    process: Process, subscription: bytes, frame: bytes = FRAME, stall_seconds: float = 30.0
) -> None:
    """Publish 5,000 messages to one subscriber that greets the server with `subscription`."""
    with open_connections(process.address, [b"", subscription]) as (publisher, subscriber):
        load = Load(stall_seconds)
        load.add_publisher(publisher.fileno(), frame, 5_000 * len(frame), len(frame))
        load.add_subscriber(subscriber.fileno(), 5_000, same_frames=True)
        run_load(load, 5_000, 5)


def test_lost_messages_are_counted(process: Process) -> None:
    with pytest.raises(BenchError, match=r"^4,000 of 5,000 messages are missing: nothing moved any more$"):
        run_with_subscription(process, b"SUB bench 1\r\nUNSUB 1 1000\r\n", stall_seconds=2.0)


def test_surplus_messages_are_counted(process: Process) -> None:
    with pytest.raises(
        BenchError, match="received 10,000 messages and 50,000 bytes, expected 5,000 and 25,000"
    ):
        run_with_subscription(process, b"SUB bench 1\r\nSUB bench 2\r\n")


def test_a_refusal_is_quoted(process: Process) -> None:
    with pytest.raises(BenchError, match="the server refused publisher 0: -ERR 'Invalid Subject'"):
        run_with_subscription(process, b"SUB bench 1\r\n", b"SUB a..b 1\r\n")


def test_a_refused_subscription_is_one_line(nats_server: Server) -> None:
    """nats-server sends the PONG and a second INFO in the same packet: they are not part of the refusal."""
    rights = 'authorization { users = [{user: a, password: b, permissions: {subscribe: "ok"}}] }'
    limited = replace(nats_server, config_text=rights)
    refusal = pytest.raises(
        BenchError, match=r"""-ERR 'Permissions Violation for Subscription to "bench"'$"""
    )
    with refusal as failure, running(limited) as process:
        address = process.address._replace(user="a", password="b")
        PublishSubscribe(1, 1, 16, 10).run(address, process.rss_bytes)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    "workload",
    [PublishSubscribe(2, 3, 128, ENDLESS), RequestReply(8, 16, 20_000_000)],
    ids=["pubsub", "request"],
)
def test_a_server_that_dies_in_mid_run_is_named(nats_server: Server, workload: Workload) -> None:
    def run_and_kill() -> None:
        with running(nats_server) as process:
            workload.run(process.address, process.rss_bytes, Once(process, signal.SIGKILL))

    with pytest.raises(BenchError, match="messages are missing") as failure:
        run_and_kill()
    assert str(failure.value).startswith("nats-server exited with -9: ")
    assert "\n" not in str(failure.value)


def test_a_server_that_hangs_in_mid_run_does_not_hang_the_run(process: Process) -> None:
    workload = PublishSubscribe(1, 1, 128, ENDLESS, stall_seconds=0.5)
    try:
        with pytest.raises(BenchError, match="nothing moved any more"):
            workload.run(process.address, process.rss_bytes, Once(process, signal.SIGSTOP))
    finally:
        os.kill(process.pid, signal.SIGCONT)


def test_an_unreachable_server_is_one_line() -> None:
    with socket.socket() as bound:  # and does not listen: nobody else gets the port meanwhile
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(BenchError, match=r"connection 0 of 1 to 127\.0\.0\.1:\d+: .*refused"):
            IdleConnections(1).run(Address(*bound.getsockname()), lambda: 0)


def test_a_server_that_wants_a_password_says_so(nats_server: Server) -> None:
    locked = Server("locked", (*nats_server.command, "--user", "a", "--pass", "b"))
    refusal = pytest.raises(BenchError, match="locked: the server refused: -ERR 'Authorization Violation'")
    with refusal, running(locked) as process:
        IdleConnections(1).run(process.address, process.rss_bytes)


def start(command: tuple[str, ...]) -> None:
    with running(Server("broken", command)):
        pytest.fail("it should not have started")


def test_a_server_that_exits_shows_its_last_line() -> None:
    command = (sys.executable, "-c", "import sys; sys.exit('no disk today')")
    with pytest.raises(
        BenchError, match=r"broken exited with 1: it did not start \(its last line: no disk today\)"
    ):
        start(command)


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(BenchError, match=r"broken cannot be started: .*No such file"):
        start(("/nonexistent/nats-server",))

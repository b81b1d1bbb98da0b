"""What clients see of lost acknowledgements and lost state: nothing twice, nothing skipped, nobody stuck."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.adversity.recorder import Connection, create_stream
from tests.adversity.test_links import proxy_to
from tests.servers import running_server

MESSAGES = 200
STREAM = "CRASH"
FETCH_AND_HANG = """
import sys, time
from tests.adversity.recorder import Connection
with Connection(int(sys.argv[1])) as connection:
    print(len(connection.fetch("CRASH", "worker", 20)), flush=True)
    time.sleep(600)
"""


def publish_with_ids(connection: Connection, numbers: range) -> list[tuple[int, bool]]:
    """(sequence, whether it is a duplicate) of each."""
    answers = []
    for number in numbers:
        answer = connection.request("crash.1", b"message %d" % number, headers=f"Nats-Msg-Id: id-{number}")
        answers.append((answer["seq"], bool(answer.get("duplicate"))))
    return answers


def test_messages_whose_acknowledgement_was_lost_are_stored_once(tmp_path: Path) -> None:
    """The network drops the answers; the client sends everything again, and once more after a kill."""
    flags = ["-js", "-sd", str(tmp_path / "store")]
    numbers = range(1, MESSAGES + 1)
    with running_server("headrace", flags=flags) as server:
        create_stream(server.port)
        with proxy_to(server.port) as proxy, Connection(proxy.port) as connection:
            publish_with_ids(connection, range(1, 51))
            frames = []
            for number in range(51, MESSAGES + 1):
                block = b"NATS/1.0\r\nNats-Msg-Id: id-%d\r\n\r\n" % number
                payload = b"message %d" % number
                sizes = len(block), len(block) + len(payload)
                frames.append(b"HPUB crash.1 lost.%d %d %d\r\n%b%b\r\n" % (number, *sizes, block, payload))
            # Half of them arrive; the answers to these, and the rest, vanish.
            connection.send(b"".join(frames[:75]))
            with Connection(server.port) as other:
                while other.request(f"$JS.API.STREAM.INFO.{STREAM}")["state"]["last_seq"] < 125:
                    pass
            proxy.cut()
            connection.send(b"".join(frames[75:]))
        with Connection(server.port) as connection:
            again = publish_with_ids(connection, numbers)
        assert again == [(number, number <= 125) for number in numbers]
        server.process.kill()
    with running_server("headrace", flags=flags) as server, Connection(server.port) as connection:
        assert publish_with_ids(connection, numbers) == [(number, True) for number in numbers]
        assert connection.request(f"$JS.API.STREAM.INFO.{STREAM}")["state"]["messages"] == MESSAGES
    print(f"{MESSAGES} messages sent three times, 75 acknowledgements lost, one kill: 0 duplicates, 0 lost")


def add_consumer(connection: Connection) -> None:
    config = {"durable_name": "worker", "ack_policy": "explicit", "ack_wait": 500_000_000}
    request = {"stream_name": STREAM, "config": config}
    assert "error" not in connection.request(f"$JS.API.CONSUMER.CREATE.{STREAM}.worker", request)


def drain(connection: Connection, wanted: int) -> set[bytes]:
    """Fetch and acknowledge until this many different messages have arrived."""
    got: set[bytes] = set()
    while len(got) < wanted:
        for _, payload, reply in connection.fetch(STREAM, "worker", 50):
            got.add(payload)
            connection.send(b"PUB %b 4\r\n+ACK\r\n" % reply)
    connection.request(f"$JS.API.CONSUMER.INFO.{STREAM}.worker")  # the server has read the last of them
    return got


def test_what_a_killed_client_had_comes_again(tmp_path: Path) -> None:
    clients = 3
    with running_server("headrace", flags=["-js", "-sd", str(tmp_path / "store")]) as server:
        create_stream(server.port)
        with Connection(server.port) as connection:
            publish_with_ids(connection, range(1, 101))
            add_consumer(connection)
        for _ in range(clients):
            with subprocess.Popen(
                [sys.executable, "-c", FETCH_AND_HANG, str(server.port)],
                stdout=subprocess.PIPE,
                cwd=Path(__file__).parents[2],
            ) as client:
                assert client.stdout is not None
                assert client.stdout.readline() == b"20\n"
                client.send_signal(signal.SIGKILL)
        with Connection(server.port) as connection:
            got = drain(connection, 100)
        assert got == {b"message %d" % number for number in range(1, 101)}
    print(f"{clients} clients killed with 20 messages each: 0 lost")


def test_a_consumer_that_is_ahead_of_its_stream_is_not_stuck(tmp_path: Path) -> None:
    """After a crash the disk may hold a newer state of the consumer than of the stream: all that follows is
    delivered."""
    flags = ["-js", "-sd", str(tmp_path / "store")]
    with running_server("headrace", flags=flags) as server, Connection(server.port) as connection:
        create_stream(server.port)
        add_consumer(connection)
        publish_with_ids(connection, range(1, 21))
        drain(connection, 20)
    (messages,) = tmp_path.glob("store/**/msgs")
    shutil.copytree(messages, tmp_path / "old")
    with running_server("headrace", flags=flags) as server, Connection(server.port) as connection:
        publish_with_ids(connection, range(21, 101))
        drain(connection, 80)
    shutil.rmtree(messages)
    shutil.copytree(tmp_path / "old", messages)
    with running_server("headrace", flags=flags) as server, Connection(server.port) as connection:
        assert connection.request(f"$JS.API.STREAM.INFO.{STREAM}")["state"]["last_seq"] == 20
        answers = publish_with_ids(connection, range(201, 301))
        assert answers == [(seq, False) for seq in range(21, 121)]
        got = drain(connection, 100)
        assert got >= {b"message %d" % number for number in range(201, 301)}
        info = connection.request(f"$JS.API.CONSUMER.INFO.{STREAM}.worker")
        assert info["num_pending"] == 0
    print("a consumer 80 messages ahead of its stream got all of the 100 that came later: 0 stuck")

"""NATS to Spark to NATS while everything is killed: every message of the source is in the target once.

The driver is killed with SIGKILL, with Java and all workers or Java alone, whose workers then continue for a
moment, at moments that nobody chose; in the long form the server is, too.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.client import Client
from headrace.errors import HeadraceError
from tests.servers import HOST, Server, ServerKind, reserved_port, running_server

DRIVER = [sys.executable, "-m", "tests.spark.copy_stream"]
LIFE_SECONDS = 300.0


class Restartable:
    """A server that can be killed and started again, with its port and its streams."""

    def __init__(self, kind: ServerKind, store: Path) -> None:
        self._kind = kind
        self._store = store
        self._stack = contextlib.ExitStack()
        self._port = self._stack.enter_context(reserved_port())
        self.server = self._start()

    def _start(self) -> Server:
        flags = ["-js", "-sd", str(self._store), "-p", str(self._port)]
        return self._stack.enter_context(running_server(self._kind, flags=flags))

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self.server.port}"

    def kill(self) -> None:
        self.server.process.kill()
        self.server.process.wait()

    def start_again(self) -> None:
        self.server = self._start()

    def kill_and_start(self) -> None:
        self.kill()
        self.start_again()

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Restartable]:
    restartable = Restartable(request.param, tmp_path / "store")
    yield restartable
    restartable.close()


def fill(url: str, count: int) -> None:
    """A source with numbered messages, and an empty target that remembers ids for an hour."""
    with Client.connect(url) as client:
        for name in "SOURCE", "TARGET":
            config = f'{{"name":"{name}","subjects":["{name}.>"],"duplicate_window":3600000000000}}'
            client.request(f"$JS.API.STREAM.CREATE.{name}", config.encode())
        publisher = client.publisher()
        publisher.publish("SOURCE.a", pa.array([b"%d" % number for number in range(count)], pa.binary()))
        assert publisher.flush().acked == count


def copied(url: str) -> int:
    try:
        with Client.connect(url) as client:
            return client.stream_info("TARGET").messages
    except HeadraceError:
        return 0  # the server is being started


def numbers_in_target(url: str) -> Counter[int]:
    with Client.connect(url) as client:
        last = client.stream_info("TARGET").last_seq
        batches = client.fetch_range("TARGET", 1, last, headers=False)
        return Counter(int(value) for batch in batches for value in batch.column("data").to_pylist())


def java_of(driver: subprocess.Popen[bytes]) -> int | None:
    children = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
    for child in children:
        with contextlib.suppress(OSError):
            if "java" in Path(f"/proc/{child}/comm").read_text():
                return int(child)
    return None


def kill(driver: subprocess.Popen[bytes], chance: random.Random) -> None:
    java = java_of(driver)
    if java is not None and chance.random() < 0.5:
        os.kill(java, signal.SIGKILL)
        time.sleep(chance.random() * 0.3)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def copy_with_kills(
    server: Restartable, directory: Path, count: int, kills: int, server_kills: int
) -> tuple[int, int]:
    """Returns how often driver and server were killed in the middle of the copy."""
    chance = random.Random()
    command = [
        *DRIVER,
        server.url,
        "SOURCE",
        "TARGET",
        str(directory / "checkpoint"),
        str(max(count // 50, 800)),
    ]
    killed = servers_killed = 0
    while True:
        driver = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
        before = killed + servers_killed
        try:
            # The moment is a number of messages and a bit of time, to be in the middle on any machine.
            seen = copied(server.url)
            goal = seen + chance.randrange(1, max(2, (count - seen) // (kills - killed + 1)))
            deadline = time.monotonic() + LIFE_SECONDS
            while driver.poll() is None:
                assert time.monotonic() < deadline, "the copy does not get on"
                time.sleep(0.02)
                if copied(server.url) < goal:
                    continue
                if servers_killed < server_kills and killed:
                    server.kill_and_start()
                    servers_killed += 1
                elif killed < kills:
                    time.sleep(chance.random() * 0.5)
                    if driver.poll() is None:
                        kill(driver, chance)
                        killed += 1
                else:
                    time.sleep(0.1)
        finally:
            if driver.poll() is None:
                kill(driver, chance)
        if driver.returncode == 0:
            return killed, servers_killed
        assert killed + servers_killed > before, "it failed by itself"


def check_exactly_once(server: Restartable, count: int) -> None:
    found = numbers_in_target(server.url)
    lost = count - len(found)
    twice = [number for number, times in found.items() if times > 1]
    assert (lost, twice[:10]) == (0, [])


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("server", ["headrace"], indirect=True)
def test_a_copy_whose_driver_is_killed_has_every_message_once(server: Restartable, tmp_path: Path) -> None:
    count = 8_000
    fill(server.url, count)
    killed, _ = copy_with_kills(server, tmp_path, count, kills=1, server_kills=0)
    assert killed == 1
    check_exactly_once(server, count)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("server", ["nats-server", "headrace"], indirect=True)
def test_a_long_copy_whose_driver_and_server_are_killed_has_every_message_once(
    server: Restartable, tmp_path: Path
) -> None:
    count = 300_000
    fill(server.url, count)
    killed, servers_killed = copy_with_kills(server, tmp_path, count, kills=6, server_kills=1)
    assert killed >= 5
    assert servers_killed == 1
    check_exactly_once(server, count)

"""kill -9 while messages come over HTTP: every message that was answered with 200 is on disk."""

from __future__ import annotations

import http.client
import json
import random
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.http_in.streams import add_stream, run
from tests.servers import running_server

SHORT_KILLS, LONG_KILLS = 4, 200
SECONDS = 30.0
NDJSON = {"Content-Type": "application/x-ndjson"}


class Publisher(threading.Thread):
    """Sends until the server is gone, one by one or many at a time, and remembers what was answered."""

    def __init__(self, port: int, name: str, stored: dict[int, str], enough: threading.Event) -> None:
        super().__init__()
        self._port = port
        self._prefix = name
        self._stored = stored
        self._enough = enough
        self.errors: list[str] = []

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=SECONDS)
        try:
            for round_ in range(100_000):
                ids = [f"{self._prefix}-{round_}-{k}" for k in range(1 + round_ % 3 * 20)]
                body = b"".join(json.dumps({"data": one, "id": one}).encode() + b"\n" for one in ids)
                connection.request("POST", "/publish/orders.eu", body, NDJSON)
                lines = connection.getresponse().read().splitlines()
                for one, line in zip(ids, lines, strict=True):
                    answer = json.loads(line)
                    if "seq" in answer:
                        self._stored[answer["seq"]] = one
                    else:
                        self.errors.append(str(answer))
                if round_ > 5:
                    self._enough.set()
        except (OSError, http.client.HTTPException, ValueError):
            pass  # it was killed: what was not answered may be stored, or not
        finally:
            self._enough.set()
            connection.close()


def survive(directory: Path, kills: int, say: Callable[[str], None]) -> None:
    seed = random.randrange(1 << 32)
    say(f"seed {seed}")
    chance = random.Random(seed)
    stored: dict[int, str] = {}
    config = "http_in: '127.0.0.1:-1'"
    for number in range(kills + 1):
        with running_server("headrace", config, ["-js", "-sd", str(directory)]) as server:
            url = f"nats://127.0.0.1:{server.port}"
            if number == 0:
                add_stream(url)
            if stored:
                check(url, stored)
            if number < kills:
                port = int(re.findall(r"messages over HTTP on http://127.0.0.1:(\d+)/", server.log())[0])
                enough = threading.Event()
                publishers = [Publisher(port, f"{number}-{k}", stored, enough) for k in range(3)]
                for publisher in publishers:
                    publisher.start()
                enough.wait(SECONDS)
                threading.Event().wait(chance.random() * 0.05)
                server.process.kill()
                for publisher in publishers:
                    publisher.join()
    say(f"{len(stored)} messages answered with a sequence, {kills} kills, 0 lost")
    assert len(stored) > 100


def check(url: str, stored: dict[int, str]) -> None:
    async def read(streams) -> dict[int, str]:
        subscription = await streams.subscribe("orders.>", ordered_consumer=True)
        wanted = max(stored)
        found = {}
        while True:
            message = await subscription.next_msg(timeout=SECONDS)
            found[message.metadata.sequence.stream] = message.data.decode()
            if message.metadata.sequence.stream >= wanted:
                return found

    found = run(url, read)
    assert {seq: one for seq, one in stored.items() if found.get(seq) != one} == {}


def test_what_was_answered_survives_kills(tmp_path: Path) -> None:
    survive(tmp_path, SHORT_KILLS, print)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_what_was_answered_survives_many_kills(tmp_path: Path) -> None:
    survive(tmp_path, LONG_KILLS, print)

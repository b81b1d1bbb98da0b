"""Killed while a stream or a consumer is made, changed or deleted: afterwards it is whole, or not there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.adversity.faulty_server import FaultyServers
from tests.adversity.recorder import Connection

STREAM = {"name": "S", "subjects": ["s.>"], "max_msgs_per_subject": 7, "metadata": {"who": "me"}}
CONSUMER = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit", "max_deliver": 5}}
CHANGED = {**STREAM, "max_msgs_per_subject": 8, "subjects": ["s.>", "t.>"]}
SOME = 4  # one in this many calls is the last in `make test`


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[FaultyServers]:
    made = FaultyServers(tmp_path)
    yield made
    made.close()


def ask_until_killed(port: int) -> list[str]:
    """What was confirmed."""
    done: list[str] = []
    with suppress(ConnectionError), Connection(port) as connection:
        for step, subject, body in (
            ("create", "STREAM.CREATE.S", STREAM),
            ("consumer", "CONSUMER.CREATE.S.C", CONSUMER),
            ("update", "STREAM.UPDATE.S", CHANGED),
            ("no consumer", "CONSUMER.DELETE.S.C", {}),
            ("delete", "STREAM.DELETE.S", {}),
        ):
            answer = connection.request(f"$JS.API.{subject}", body)
            assert "error" not in answer, answer
            done.append(step)
    return done


def is_like(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(found[key] == value for key, value in wanted.items() if key != "metadata") and (
        found["metadata"].get("who") == "me"
    )


def check(connection: Connection, done: list[str]) -> None:
    last = done[-1] if done else ""
    info = connection.request("$JS.API.STREAM.INFO.S")
    if "error" in info:
        assert info["error"]["code"] == 404, info
        assert last in ("", "no consumer", "delete"), f"the stream is gone after {last}"
    else:
        assert last != "delete", "the stream is back"
        versions = {"": [STREAM], "create": [STREAM], "consumer": [STREAM, CHANGED]}.get(last, [CHANGED])
        assert any(is_like(info["config"], version) for version in versions), info["config"]
        consumer = connection.request("$JS.API.CONSUMER.INFO.S.C")
        if "error" in consumer:
            assert last in ("", "create", "update", "no consumer"), f"the consumer is gone after {last}"
        else:
            assert last not in ("", "no consumer"), "the consumer is back"
            assert consumer["config"]["max_deliver"] == 5
    # Whatever is left, everything can be created again.
    connection.request("$JS.API.STREAM.DELETE.S")
    for subject, body in (("STREAM.CREATE.S", STREAM), ("CONSUMER.CREATE.S.C", CONSUMER)):
        answer = connection.request(f"$JS.API.{subject}", body)
        assert "error" not in answer, answer
    connection.request("$JS.API.STREAM.DELETE.S")


def kill_everywhere(servers: FaultyServers, step: int) -> None:
    with servers.server() as server:
        port = server.port()
        servers.begin("kill 1000000")
        assert len(ask_until_killed(port)) == 5
    calls = servers.changes
    assert calls > 20
    killed = 0
    for call in range(1, calls + 1, step):
        shutil.rmtree(servers.store)
        with servers.server() as server:
            port = server.port()
            servers.begin(f"kill {call}")
            done = ask_until_killed(port)
            killed += len(done) < 5
        with servers.server() as server, Connection(server.port()) as connection:
            check(connection, done)
    print(f"killed at {killed} of {calls} calls that change a file: everything was whole or absent")
    assert killed


@pytest.mark.timeout(300)
def test_a_kill_leaves_streams_and_consumers_whole_or_absent(servers: FaultyServers) -> None:
    kill_everywhere(servers, SOME)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_kill_at_every_call_leaves_them_whole_or_absent(servers: FaultyServers) -> None:
    kill_everywhere(servers, 1)

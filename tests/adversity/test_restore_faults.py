"""Killed, or with a failing disk, while a stream is restored: afterwards it is whole, or not there."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.adversity.faulty_server import FaultyServers
from tests.adversity.recorder import Connection, payload_of
from tests.engine.store.fault_library import ERRORS, FOR_EVER, Kind, name_of
from tests.streams.backup.archives import entry, pack

MESSAGES = 150
CONFIG = {"name": "S", "subjects": ["s.>"]}
CONSUMER = {
    "config": {"durable_name": "C", "name": "C", "ack_policy": "explicit"},
    "state": {
        "delivered": {"consumer_seq": 9, "stream_seq": 9},
        "ack_floor": {"consumer_seq": 5, "stream_seq": 5},
        "pending": {"6": {"Sequence": 6, "Timestamp": 1}, "8": {"Sequence": 8, "Timestamp": 1}},
        "redelivered": {"6": 2},
    },
}
STATE = {"messages": MESSAGES, "first_seq": 3, "last_seq": 2 * MESSAGES + 7, "consumer_count": 1}
ARCHIVE = pack(
    entry(b"state.json", json.dumps(STATE).encode()),
    entry(b"consumers/C", json.dumps(CONSUMER).encode()),
    *(entry(b"s.x", payload_of(n), seq=2 * n, time=n) for n in range(2, MESSAGES + 2)),
    entry(b""),
)
CHUNK = 1500
SOME_FAULTS = 31
SOME = 6  # one in this many calls is the last in `make test`


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[FaultyServers]:
    made = FaultyServers(tmp_path)
    yield made
    made.close()


def ask(connection: Connection, subject: str, body: bytes) -> bytes:
    """A request whose body is not JSON."""
    connection.send(b"SUB answers 9\r\nPUB %b answers %d\r\n%b\r\n" % (subject.encode(), len(body), body))
    for received, _, payload, _ in connection.messages():
        if received == b"answers":
            connection.send(b"UNSUB 9\r\n")
            return payload
    raise ConnectionError


def restore(connection: Connection) -> dict[str, Any]:
    """The last answer."""
    begun = connection.request("$JS.API.STREAM.RESTORE.S", {"config": CONFIG, "state": {}})
    subject = begun["deliver_subject"]
    for start in range(0, len(ARCHIVE), CHUNK):
        assert ask(connection, subject, ARCHIVE[start : start + CHUNK]) == b""
    answer: dict[str, Any] = json.loads(ask(connection, subject, b""))
    return answer


def restore_until_killed(port: int) -> bool:
    """Whether it was confirmed."""
    with suppress(ConnectionError), Connection(port) as connection:
        answer = restore(connection)
        assert "error" not in answer, answer
        return True
    return False


def check(store: Path, connection: Connection, is_confirmed: bool) -> bool:
    """Whether it is there."""
    info = connection.request("$JS.API.STREAM.INFO.S")
    streams = [path.name for path in store.glob("jetstream/*/streams/*")]
    if "error" in info:
        assert info["error"]["code"] == 404, info
        assert not is_confirmed, "it was confirmed, and is gone"
        assert streams == [], "something is left of it"
        return False
    state = info["state"]
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (MESSAGES, 4, STATE["last_seq"])
    consumer: dict[str, Any] = connection.request("$JS.API.CONSUMER.INFO.S.C")
    assert consumer["delivered"] == {"consumer_seq": 9, "stream_seq": 9}
    assert consumer["ack_floor"] == {"consumer_seq": 5, "stream_seq": 5}
    assert (consumer["num_ack_pending"], consumer["num_redelivered"]) == (2, 1)
    assert streams == ["S"]
    return True


def kill_everywhere(servers: FaultyServers, step: int) -> None:
    with servers.server() as server:
        port = server.port()
        servers.begin("kill 1000000")
        assert restore_until_killed(port)
    calls = servers.changes
    assert calls > 20
    outcomes: list[tuple[bool, bool]] = []
    for call in range(1, calls + 1, step):
        shutil.rmtree(servers.store)
        with servers.server() as server:
            port = server.port()
            servers.begin(f"kill {call}")
            is_confirmed = restore_until_killed(port)
        with servers.server() as server, Connection(server.port()) as connection:
            outcomes.append((is_confirmed, check(servers.store, connection, is_confirmed)))
    there = sum(is_there for _, is_there in outcomes)
    print(f"killed at {len(outcomes)} of {calls} calls that change a file: {there} times it was there")
    assert (False, False) in outcomes


@pytest.mark.timeout(300)
def test_a_kill_leaves_a_restored_stream_whole_or_absent(servers: FaultyServers) -> None:
    kill_everywhere(servers, SOME)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_kill_at_every_call_leaves_it_whole_or_absent(servers: FaultyServers) -> None:
    kill_everywhere(servers, 1)


def fail_everywhere(servers: FaultyServers, step: int) -> None:
    """Each call fails, once and for ever: the answer is true, and the server goes on."""
    with servers.server() as server, Connection(server.port()) as connection:
        servers.begin(f"{int(Kind.OPEN)} {FOR_EVER} {FOR_EVER} 5")
        assert "error" not in restore(connection)
        counts = servers.counts()
    cases = [
        (kind, call, last, error)
        for kind, errors in ERRORS.items()
        if kind is not Kind.MEMORY
        for error in errors
        for call in range(1, counts[kind] + 1)
        for last in (call, FOR_EVER)
        if not (error == errno.EINTR and last == FOR_EVER)
    ]
    refused = 0
    for kind, call, last, error in cases[::step]:
        shutil.rmtree(servers.store)
        with servers.server() as server, Connection(server.port()) as connection:
            servers.begin(f"{int(kind)} {call} {last} {error}")
            answer = restore(connection)
            connection.ping()
        case = f"{kind.name} {call} {name_of(error)} {'once' if last == call else 'for ever'}: {answer}"
        with servers.server() as server, Connection(server.port()) as connection:
            is_there = check(servers.store, connection, "error" not in answer)
            assert is_there == ("error" not in answer), case
        refused += "error" in answer
    print(f"{len(cases[::step])} of {len(cases)} faults: {refused} times it was refused, and then not there")
    assert refused


@pytest.mark.timeout(300)
def test_a_disk_that_fails_leaves_a_restored_stream_whole_or_absent(servers: FaultyServers) -> None:
    fail_everywhere(servers, SOME_FAULTS)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_fault_of_the_disk_leaves_it_whole_or_absent(servers: FaultyServers) -> None:
    fail_everywhere(servers, 1)

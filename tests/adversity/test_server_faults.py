"""Calls of a whole server on its store fail: it answers, says what is wrong, and loses nothing."""

from __future__ import annotations

import errno
import shutil
import signal
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.adversity.faulty_server import FaultyServers
from tests.adversity.recorder import Connection, payload_of
from tests.adversity.storm import SUBJECTS, Ledger, Storm
from tests.engine.store.fault_library import ERRORS, FOR_EVER, Kind, name_of

SOME = 97  # one in this many cases runs in `make test`,
MANY = 5  # and in `make test-long`: each is two lives of a server
STREAM = {"name": "plain", "subjects": ["plain.*"], "allow_direct": True, "compression": "s2"}
CONSUMER = {"stream_name": "plain", "config": {"durable_name": "reader", "ack_policy": "explicit"}}
RETRIES = 20
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Case:
    kind: Kind
    call: int
    last: int
    error: int
    while_starting: bool

    @property
    def order(self) -> str:
        return f"{int(self.kind)} {self.call} {self.last} {self.error}"

    @property
    def label(self) -> str:
        when = " while starting" if self.while_starting else ""
        return f"{self.kind.name} {name_of(self.error)}{when}"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[FaultyServers]:
    made = FaultyServers(tmp_path)
    yield made
    made.close()


class Day:
    """One client, one stream, one consumer: every request is answered, with success or with an error."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.number = 0
        self.errors = 0

    def live(self, connection: Connection) -> None:
        self.ask(connection, "STREAM.CREATE.plain", STREAM)
        self.ask(connection, "CONSUMER.CREATE.plain.reader", CONSUMER)
        for _ in range(4):
            self.publish(connection, 25)
        self.remove(connection, "STREAM.MSG.DELETE.plain", self.some(1))
        self.purge(connection, 2)
        self.consume(connection)
        self.ask(connection, "STREAM.UPDATE.plain", {**STREAM, "max_msgs": 1000, "metadata": {"a": "b"}})
        self.publish(connection, 25)
        self.remove(connection, "STREAM.MSG.DELETE.plain", self.some(1))
        self.consume(connection)
        self.ask(connection, "CONSUMER.CREATE.plain.other", {**CONSUMER, "config": {"durable_name": "other"}})
        self.ask(connection, "CONSUMER.DELETE.plain.other", {})

    def ask(self, connection: Connection, what: str, body: dict[str, Any]) -> bool:
        answer = connection.request(f"$JS.API.{what}", body)
        self.errors += "error" in answer
        return "error" not in answer

    def publish(self, connection: Connection, count: int) -> bool:
        """Whether any of them was stored."""
        numbers = range(self.number + 1, self.number + 1 + count)
        self.number += count
        messages = [(f"plain.{number % SUBJECTS}", payload_of(number), "") for number in numbers]
        self.ledger.unanswered.update(numbers)
        stored = False
        for number, answer in connection.publish_burst(messages, numbers.start):
            if "seq" in answer and "error" not in answer:
                self.ledger.unanswered.discard(number)
                self.ledger.sure[number] = answer["seq"]
                stored = True
            else:
                self.errors += 1
        return stored

    def some(self, count: int) -> list[int]:
        return sorted(self.ledger.sure)[5 : 5 + count]

    def remove(self, connection: Connection, what: str, numbers: list[int]) -> None:
        for number in numbers:
            seq = self.ledger.sure[number]
            self.ledger.doubt([number])
            if self.ask(connection, what, {"seq": seq}):
                self.ledger.confirm_removed([number])

    def purge(self, connection: Connection, place: int) -> None:
        numbers = [number for number in self.ledger.sure if number % SUBJECTS == place]
        self.ledger.doubt(numbers)
        if self.ask(connection, "STREAM.PURGE.plain", {"filter": f"plain.{place}"}):
            self.ledger.confirm_removed(numbers)

    def consume(self, connection: Connection) -> None:
        answer = connection.request("$JS.API.CONSUMER.INFO.plain.reader")
        if "error" in answer:
            return
        for _, _, reply in connection.fetch("plain", "reader", 10):
            connection.send(b"PUB %b 4\r\n+ACK\r\n" % reply)

    def check(self, connection: Connection) -> None:
        """After a restart without faults."""
        if not self.ask(connection, "STREAM.INFO.plain", {}):
            assert not self.ledger.sure, "a stream with acknowledged messages is gone"
            return
        self.ledger.check(Storm.read(connection, "plain"))
        assert self.publish(connection, 5), "it takes no messages after a restart"


def is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=20) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False


def recorded(servers: FaultyServers) -> tuple[dict[Kind, int], dict[Kind, int]]:
    """How many calls a day and a start make."""
    day = Day()
    with servers.server("-m", "-1") as server:
        port = server.port()
        servers.begin("0 0 0 0")
        with Connection(port) as connection:
            day.live(connection)
        counts = servers.counts()
        server.end(signal.SIGTERM)
    with servers.server(order="0 0 0 0") as server, Connection(server.port()) as connection:
        starting = servers.counts()
        day.check(connection)
    assert not day.errors
    return counts, starting


def cases(servers: FaultyServers) -> Iterator[Case]:
    for while_starting, counts in enumerate(recorded(servers)):
        for kind, count in counts.items():
            if kind == Kind.MEMORY:
                continue
            for error in ERRORS[kind]:
                for call in range(1, count + 1):
                    yield Case(kind, call, call, error, bool(while_starting))
                    if error != errno.EINTR:
                        yield Case(kind, call, FOR_EVER, error, bool(while_starting))


def suffer(servers: FaultyServers, case: Case) -> str:
    """What came of it."""
    shutil.rmtree(servers.store, ignore_errors=True)
    day = Day()
    outcome = "nobody noticed"
    with servers.server("-m", "-1") as server:
        port = server.port()
        if not case.while_starting:
            servers.begin(case.order)
        with Connection(port) as connection:
            day.live(connection)
            if day.errors:
                outcome = goes_on(day, connection, server.monitor_port(), case)
        server.end(signal.SIGTERM)
    if case.while_starting:
        with servers.server(order=case.order) as server:
            try:
                port = server.port()
            except RuntimeError:
                outcome = "did not start"
            else:
                outcome = "started"
                server.end(signal.SIGTERM)
    with servers.server() as server, Connection(server.port()) as connection:
        day.check(connection)
    return outcome


def goes_on(day: Day, connection: Connection, monitor: int, case: Case) -> str:
    """After an error: it stores again, or says in /healthz why it does not."""
    for _ in range(RETRIES):
        if day.ask(connection, "STREAM.CREATE.plain", {**STREAM}) | day.publish(connection, 1):
            return "failed, went on"
        time.sleep(0.05)
    if not day.ask(connection, "STREAM.INFO.plain", {}):
        return "not created"
    end = time.monotonic() + PATIENCE_SECONDS
    while is_healthy(monitor):
        if day.publish(connection, 1):  # on a busy machine its next try may come later
            return "failed, went on"
        assert time.monotonic() < end, f"/healthz says nothing of {case.label}"
        time.sleep(0.05)
    return "needed a restart"


def suffer_all(servers: FaultyServers, share: int) -> None:
    outcomes: dict[str, Counter[str]] = {}
    every = list(cases(servers))
    for case in every[::share]:
        try:
            outcome = suffer(servers, case)
        except BaseException as error:
            error.add_note(f"the case was {case}")
            raise
        outcomes.setdefault(case.label, Counter())[outcome] += 1
    for label, counted in outcomes.items():
        print(f"{label:40} {', '.join(f'{count} {outcome}' for outcome, count in counted.items())}")
    print(f"{len(every[::share])} cases of {len(every)}: nothing lost, nothing back")


@pytest.mark.timeout(300)
def test_a_server_survives_some_failing_calls(servers: FaultyServers) -> None:
    suffer_all(servers, SOME)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_server_survives_many_failing_calls(servers: FaultyServers) -> None:
    suffer_all(servers, MANY)

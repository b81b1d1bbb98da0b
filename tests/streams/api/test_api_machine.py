"""Requests about several streams in one packet and from several connections, against a plain model.

Every request has a reply subject of its own and must be answered exactly once, with what the model says. The
requests of a packet about one stream are handled in their order. Publishes are not part of that order (the
engine takes them while requests wait for the disk), so a packet has either one or the other. Where they do
race, in `contend`, what must hold is less: one answer each, and never two owners of a subject.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.adversity.recorder import Connection
from tests.servers import Server
from tests.streams.api.api_model import ACCOUNT, ANY_ERROR, MAX_STREAMS, OVERLAP, Expected, Model, Op
from tests.streams.peers import jetstream_server

CONNECTIONS = 3
NAMES = ("A", "B", "C", "D")
CHANGES = ("STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE")
SUBJECTS = ("x", "y", "z", "w.1")

names = st.sampled_from(NAMES)
some_subjects = st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=2, unique=True).map(
    lambda chosen: tuple(sorted(chosen))
)
sequences = st.sampled_from((1, 2, 3, 5, 8, 2**53))
configs = {
    "stream": names,
    "subjects": some_subjects,
    "max_msgs": st.sampled_from((-1, 2, 5)),
    "max_bytes": st.sampled_from((-1, 400_000, 700_000)),
    "max_consumers": st.sampled_from((-1, 1)),
}
storages = st.sampled_from(("memory", "file"))
creations = st.builds(Op, st.just("STREAM.CREATE"), storage=storages, **configs)
updates = st.builds(Op, st.just("STREAM.UPDATE"), storage=storages, **configs)
purges = st.one_of(
    st.builds(Op, st.just("STREAM.PURGE"), names),
    st.builds(Op, st.just("STREAM.PURGE"), names, seq=sequences),
    st.builds(Op, st.just("STREAM.PURGE"), names, keep=st.integers(1, 3)),
    st.builds(Op, st.just("STREAM.PURGE"), names, some_subjects.map(lambda chosen: chosen[:1])),
    st.builds(
        Op, st.just("STREAM.PURGE"), names, some_subjects.map(lambda chosen: chosen[:1]), keep=st.just(1)
    ),
)
requests = st.one_of(
    creations,
    updates,
    purges,
    st.builds(Op, st.sampled_from(("STREAM.DELETE", "STREAM.INFO")), names),
    st.builds(Op, st.sampled_from(("STREAM.MSG.GET", "STREAM.MSG.DELETE")), names, seq=sequences),
    st.builds(
        Op,
        st.sampled_from(("CONSUMER.CREATE", "CONSUMER.DELETE")),
        names,
        name=st.sampled_from(("one", "two", "three")),
    ),
)
publishes = st.builds(
    Op,
    st.just("PUB"),
    subjects=st.sampled_from(SUBJECTS).map(lambda one: (one,)),
    name=st.sampled_from(("", "", "id1", "id2")),
)


class Client:
    """Connections to the server, and the answers that came; each request has a reply subject of its own."""

    def __init__(self, server: Server) -> None:
        self._connections = [Connection(server.port) for _ in range(CONNECTIONS)]
        self._asked = 0
        self.answers: dict[bytes, list[tuple[bytes, bytes]]] = {}
        for place, connection in enumerate(self._connections):
            connection.send(b"SUB r%d.* 1\r\n" % place)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def ask(self, packets: list[list[Op]]) -> list[list[Any]]:
        """Write one packet to each connection before anything is read; the answers in the same order."""
        replies = [self._write(place, packet) for place, packet in enumerate(packets)]
        for place, expected in enumerate(replies):
            self._read(place, set(expected))
        return [[self._decode(reply) for reply in expected] for expected in replies]

    def _write(self, place: int, packet: list[Op]) -> list[bytes]:
        data, replies = b"", []
        for op in packet:
            self._asked += 1
            reply = b"r%d.%d" % (place, self._asked)
            replies.append(reply)
            data += _frame(op, reply)
        self._connections[place].send(data)
        return replies

    def _read(self, place: int, missing: set[bytes]) -> None:
        for subject, headers, payload, _ in self._connections[place].messages():
            self.answers.setdefault(subject, []).append((headers, payload))
            missing.discard(subject)
            if not missing:
                return

    def _decode(self, reply: bytes) -> Any:
        headers, payload = self.answers[reply][0]
        return {"error": {"err_code": 503}} if b" 503" in headers[:16] else json.loads(payload)

    def check_answered_once(self) -> None:
        """A last request on each connection: whatever was sent before its answer has arrived by then."""
        self.ask([[Op("STREAM.NAMES")] for _ in self._connections])
        assert {len(answers) for answers in self.answers.values()} == {1}
        assert len(self.answers) == self._asked


def _frame(op: Op, reply: bytes) -> bytes:
    subject = op.subject.removesuffix(".").encode()
    if op.verb == "PUB" and op.name:
        headers = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % op.name.encode()
        return b"HPUB %b %b %d %d\r\n%bm\r\n" % (subject, reply, len(headers), len(headers) + 1, headers)
    body = b"m" if op.verb == "PUB" else op.body
    return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(body), body)


def check(op: Op, answer: Any, expected: Expected) -> None:
    code = answer.get("error", {}).get("err_code", 0)
    if expected.code == ANY_ERROR:
        assert code, (op, answer)
        return
    assert code == expected.code, (op, answer)
    for key, value in expected.fields.items():
        found = answer.get(key)
        if isinstance(value, dict):
            found = {name: found.get(name, 0) for name in value}
        assert found == value, (op, key, answer)


def without_overtaking(packet: list[Op]) -> list[Op]:
    """Requests about one stream wait for each other, and those about other streams may overtake them.

    What a stream owns is for all of them, so it changes only where nothing has to be waited for.
    """
    kept: list[Op] = []
    for op in packet:
        if op.verb not in CHANGES or all(op.stream != other.stream for other in kept):
            kept.append(op)
    return kept


class ApiAgainstModel(RuleBasedStateMachine):
    server: Server

    def __init__(self) -> None:
        super().__init__()
        self.client = Client(self.server)
        self.model = Model()

    @initialize()
    def without_streams(self) -> None:
        self.client.ask([[Op("STREAM.DELETE", name) for name in NAMES]])

    @rule(packet=st.lists(requests, min_size=1, max_size=8))
    def ask(self, packet: list[Op]) -> None:
        packet = without_overtaking(packet)
        self._check(packet, self.client.ask([packet])[0])

    @rule(packet=st.lists(requests, min_size=1, max_size=8), name=names)
    def ask_about_one_stream(self, packet: list[Op], name: str) -> None:
        packet = [replace(op, stream=name) for op in packet]
        self._check(packet, self.client.ask([packet])[0])

    @rule(packet=st.lists(publishes, min_size=1, max_size=8))
    def publish(self, packet: list[Op]) -> None:
        self._check(packet, self.client.ask([packet])[0])

    def _check(self, packet: list[Op], answers: list[Any]) -> None:
        for op, answer in zip(packet, answers, strict=True):
            check(op, answer, self.model.apply(op))

    @rule(packets=st.lists(st.lists(publishes, max_size=4), min_size=CONNECTIONS, max_size=CONNECTIONS))
    def publish_from_everywhere(self, packets: list[list[Op]]) -> None:
        """Without ids: whatever the order, a stream's sequences are used once each, and none is left out."""
        packets = [
            [Op("PUB", subjects=op.subjects) for op in packet] or [Op("STREAM.NAMES")] for packet in packets
        ]
        got: Counter[tuple[str, int]] = Counter()
        wanted: Counter[tuple[str, int]] = Counter()
        acked: dict[tuple[str, int], str] = {}
        for packet, answers in zip(packets, self.client.ask(packets), strict=True):
            for op, answer in zip(packet, answers, strict=True):
                if "seq" in answer:
                    got[answer["stream"], answer["seq"]] += 1
                    acked[answer["stream"], answer["seq"]] = op.subjects[0]
        for subject in sorted(acked.values()):
            expected = self.model.apply(Op("PUB", subjects=(subject,))).fields
            wanted[expected["stream"], expected["seq"]] += 1
        assert got == wanted
        for (name, seq), subject in acked.items():
            if seq in self.model.streams[name].messages:
                self.model.streams[name].messages[seq] = subject

    @rule(subject=st.sampled_from(SUBJECTS), storage=storages)
    def contend(self, subject: str, storage: str) -> None:
        """Every connection wants the subject for a stream of its own, and publishes to it meanwhile."""
        free = [name for name in NAMES if name not in self.model.streams][:2]
        if len(free) < 2 or len(self.model.streams) > MAX_STREAMS - 2:
            return
        creations = [Op("STREAM.CREATE", name, (subject,), storage) for name in free]
        publish = Op("PUB", subjects=(subject,))
        packets = [[publish, creation, publish] for creation in creations] + [[publish] * 4]
        answers = self.client.ask(packets)
        codes = [answer[1].get("error", {}).get("err_code", 0) for answer in answers[:2]]
        owner = self.model.owner(subject)
        assert sorted(codes) == ([OVERLAP, OVERLAP] if owner else [0, OVERLAP])
        if not owner:
            winner = creations[codes.index(0)]
            self.model.apply(winner)
            owner = winner.stream
        acks = [answers[0][0], answers[0][2], answers[1][0], answers[1][2], *answers[2]]
        stored = [ack for ack in acks if "seq" in ack]
        assert {ack["stream"] for ack in stored} <= {owner}
        expected = {self.model.apply(publish).fields["seq"] for _ in stored}
        assert {ack["seq"] for ack in stored} == expected

    @invariant()
    def every_stream_is_as_the_model_says(self) -> None:
        infos = [Op("STREAM.INFO", name) for name in NAMES]
        names, *answers = self.client.ask([[Op("STREAM.NAMES"), *infos]])[0]
        assert sorted(names["streams"] or []) == sorted(self.model.streams)
        self._check(infos, answers)

    def teardown(self) -> None:
        try:
            self.client.check_answered_once()
        finally:
            self.client.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with TemporaryDirectory() as directory, jetstream_server("headrace", Path(directory), ACCOUNT) as server:
        yield server
        assert "[ERR]" not in server.log()


def run(server: Server, examples: int) -> None:
    machine = type("Machine", (ApiAgainstModel,), {"server": server})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=12,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_packets_of_requests_do_what_the_model_says(server: Server) -> None:
    run(server, 15)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_very_many_packets_of_requests_do_what_the_model_says(server: Server) -> None:
    run(server, 500)

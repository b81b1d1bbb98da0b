"""Random operations of several clients, compared with the model of publish and subscribe in model.py."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.engine.core.harness import Bench, Peer, message
from tests.frames import Frame
from tests.model import Model, ModelSubscription

TOKENS = st.sampled_from([b"a", b"b"])
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=3).map(b".".join)
PATTERNS = st.lists(TOKENS | st.just(b"*"), min_size=1, max_size=3).map(b".".join) | st.sampled_from(
    [b">", b"a.>", b"*.>", b"a.b.>"]
)
SIDS = st.sampled_from([b"1", b"2", b"33"])
PADDINGS = st.sampled_from([0, 3, 300, 1000, 70_000])
QUEUES = st.sampled_from([None, None, b"q", b"r"])
HEADERS = b"NATS/1.0\r\nKey: value\r\n\r\n"
Sent = tuple[int, bytes, bytes, bytes]  # publisher, subject, payload, headers


class EngineAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.model = Model()
        self.peers: dict[int, Peer] = {}
        self.echo: dict[int, bool] = {}
        self.headers: dict[int, bool] = {}
        self.last = 0
        self.number = 0

    def pick(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.peers)))

    @initialize()
    def start(self) -> None:
        self.connect(echo=True, headers=True)
        self.connect(echo=True, headers=True)

    @precondition(lambda self: len(self.peers) < 5)
    @rule(echo=st.booleans(), headers=st.booleans())
    def connect(self, echo: bool, headers: bool) -> None:
        self.last += 1
        self.peers[self.last] = self.bench.connect(echo=echo, headers=headers)
        self.echo[self.last], self.headers[self.last] = echo, headers

    @precondition(lambda self: len(self.peers) > 1)
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        client = self.pick(data)
        self.peers.pop(client).socket.close()
        self.bench.settle()
        self.model.disconnect(client)

    @rule(data=st.data(), subject=PATTERNS, queue=QUEUES, sid=SIDS)
    def subscribe(self, data: st.DataObject, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        client = self.pick(data)
        self.peers[client].send(b"SUB %b %b%b\r\n" % (subject, queue + b" " if queue else b"", sid))
        self.model.subscribe(client, subject, queue, sid)

    @rule(data=st.data(), sid=SIDS, maximum=st.integers(0, 6))
    def unsubscribe(self, data: st.DataObject, sid: bytes, maximum: int) -> None:
        client = self.pick(data)
        self.peers[client].send(b"UNSUB %b%b\r\n" % (sid, b" %d" % maximum if maximum else b""))
        self.model.unsubscribe(client, sid, maximum)

    @rule(data=st.data(), times=st.integers(1, 5))
    def ping(self, data: st.DataObject, times: int) -> None:
        assert self.peers[self.pick(data)].ask(b"PING\r\n" * times) == b"PONG\r\n" * times

    @rule(
        data=st.data(),
        burst=st.lists(st.tuples(SUBJECTS, st.booleans(), PADDINGS), max_size=12),
    )
    def publish(self, data: st.DataObject, burst: list[tuple[bytes, bool, int]]) -> None:
        """A pipeline of one client; what each message must do is known before the next is considered."""
        client = self.pick(data)
        sent: list[Sent] = []
        wire = b""
        for subject, with_headers, padding in burst:
            self.number += 1
            payload = b"%d " % self.number + b"." * padding
            headers = HEADERS if with_headers and self.headers[client] else b""
            sent.append((client, subject, payload, headers))
            size = len(headers) + len(payload)
            wire += (
                b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, len(headers), size, headers, payload)
                if headers
                else message(subject, payload)
            )
        self.peers[client].send(wire)
        self.check(sent)

    @rule(subjects=st.lists(SUBJECTS, min_size=2, max_size=2))
    def publish_at_once(self, subjects: list[bytes]) -> None:
        """Two clients in the same tick, to subjects that no maximum makes depend on who comes first."""
        clients = sorted(self.peers)[:2]
        if len(clients) < 2 or any(s.maximum for s in self.model.subscriptions.values()):
            return
        sent: list[Sent] = []
        for client, subject in zip(clients, subjects, strict=True):
            for _ in range(3):
                self.number += 1
                sent.append((client, subject, b"%d " % self.number, b""))
            self.peers[client].send_some(b"".join(message(s, p) for c, s, p, _ in sent if c == client))
        self.bench.settle()
        self.check(sent)

    def check(self, sent: list[Sent]) -> None:
        got: dict[bytes, list[tuple[int, bytes]]] = defaultdict(list)
        publishers = {payload: client for client, _, payload, _ in sent}
        by_payload = {payload: (subject, headers) for _, subject, payload, headers in sent}
        for client, peer in self.peers.items():
            orders: dict[int, list[int]] = defaultdict(list)
            for frame in peer.frames():
                subject, headers = by_payload[frame.payload]
                assert frame == self.expected_frame(frame, client, subject, headers)
                got[frame.payload].append((client, frame.sid))
                orders[publishers[frame.payload]].append(int(frame.payload.split()[0]))
            for order in orders.values():
                assert order == sorted(order), "a publisher's messages have changed places"
        for client, subject, payload, _ in sent:
            self.check_one(client, subject, got.pop(payload, []))
        assert got == {}

    def expected_frame(self, frame: Frame, client: int, subject: bytes, headers: bytes) -> Frame:
        shown = headers if self.headers[client] else b""
        return Frame(
            "HMSG" if shown else "MSG",
            frame.argument,
            subject=subject,
            sid=frame.sid,
            headers=shown,
            payload=frame.payload,
        )

    def check_one(self, client: int, subject: bytes, got: list[tuple[int, bytes]]) -> None:
        plain, groups = self.model.publish(subject, silent=None if self.echo[client] else client)
        takers: list[ModelSubscription] = list(plain)
        for members in groups:
            taking = [member for member in members if (member.client, member.sid) in got]
            assert len(taking) == 1, f"{len(taking)} of a queue group of {len(members)} got {subject!r}"
            takers += taking
        assert sorted(got) == sorted((taker.client, taker.sid) for taker in takers)
        for taker in takers:
            self.model.took(taker)

    @invariant()
    def interest_is_what_the_model_has(self) -> None:
        assert self.bench.interest.count == len(self.model.subscriptions)
        for client, peer in self.peers.items():
            assert peer.owner.bugs == []
            assert set(peer.link.subscriptions) == {
                sid for who, sid in self.model.subscriptions if who == client
            }

    def teardown(self) -> None:
        self.bench.close()
        assert self.bench.interest.node_count == 0


TestEngineAgainstModel = EngineAgainstModel.TestCase
TestEngineAgainstModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)

"""Random accounts that import streams from each other, compared with a plain model.

The model knows no shadows: a message reaches a subscription of another account if that account imports it
under a subject that the subscription matches.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.accounts.account import Account
from headrace.config.identity import AccountOptions, StreamImport
from tests.engine.core.harness import Bench, Peer, message
from tests.model import matches

NAMES = ("A", "B", "C")
TOKENS = st.sampled_from([b"a", b"b", b"x"])
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=3).map(b".".join)
PATTERNS = st.lists(TOKENS | st.just(b"*"), min_size=1, max_size=3).map(b".".join) | st.sampled_from(
    [b">", b"a.>", b"*.>", b"x.a.>", b"x.*.b", b"*.*.>"]
)
SIDS = st.sampled_from([b"1", b"2", b"33"])
QUEUES = st.sampled_from([None, None, b"q"])

# How a stream may be imported: what the configuration says, and what it means.
FORMS: list[tuple[dict[str, str], bytes]] = [
    ({"subject": ">"}, b"%s"),
    ({"subject": "a.>"}, b"%s"),
    ({"subject": "a.>", "prefix": "x"}, b"x.%s"),
    ({"subject": "*.b", "prefix": "x."}, b"x.%s"),
    ({"subject": "a.*", "to": "b.$1"}, b"b.$1"),
    ({"subject": "*.*", "to": "$2.{{wildcard(1)}}"}, b"$2.$1"),
    ({"subject": "a", "to": "x"}, b"x"),
    ({"subject": "b"}, b"b"),
]


def local_subject(subject: bytes, form: int) -> bytes | None:
    """Where a message of another account appears; None: nowhere."""
    fields, to = FORMS[form]
    pattern = fields["subject"].encode()
    if not matches(pattern, subject):
        return None
    if b"%s" in to:
        return to.replace(b"%s", subject)
    tokens = subject.split(b".")
    wild = [token for token, at in zip(tokens, pattern.split(b"."), strict=False) if at == b"*"]
    for place, token in enumerate(wild, 1):
        to = to.replace(b"$%d" % place, token.upper())
    return to.lower()


@dataclass
class Sub:
    account: str
    client: int
    sid: bytes
    subject: bytes
    queue: bytes | None
    delivered: int = 0
    maximum: int = 0


class ShadowsAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.accounts = {name: Account(AccountOptions(name)) for name in NAMES}
        self.imports: list[tuple[str, str, int]] = []  # who, from whom, which form
        self.peers: dict[int, Peer] = {}
        self.member_of: dict[int, str] = {}
        self.subs: list[Sub] = []
        self.last = 0

    @initialize()
    def start(self) -> None:
        for name in NAMES:
            self.connect(name)

    @precondition(lambda self: len(self.peers) < 6)
    @rule(name=st.sampled_from(NAMES))
    def connect(self, name: str) -> None:
        self.last += 1
        peer = self.peers[self.last] = self.bench.connect()
        peer.link.join(self.accounts[name].interest)
        self.member_of[self.last] = name

    def pick(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.peers)))

    @precondition(lambda self: len(self.peers) > 1)
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        client = self.pick(data)
        self.peers.pop(client).socket.close()
        self.bench.settle()
        del self.member_of[client]
        self.subs = [sub for sub in self.subs if sub.client != client]

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def move(self, data: st.DataObject, name: str) -> None:
        client = self.pick(data)
        self.peers[client].link.join(self.accounts[name].interest)
        if self.member_of[client] != name:
            self.member_of[client] = name
            self.subs = [sub for sub in self.subs if sub.client != client]

    @rule(
        name=st.sampled_from(NAMES),
        wanted=st.lists(
            st.tuples(st.sampled_from(NAMES), st.integers(0, len(FORMS) - 1)), max_size=3, unique=True
        ),
    )
    def change_imports(self, name: str, wanted: list[tuple[str, int]]) -> None:
        """A reload, which clients and their subscriptions survive."""
        wanted = [(source, form) for source, form in wanted if source != name]
        self.imports = [one for one in self.imports if one[0] != name]
        self.imports += [(name, source, form) for source, form in wanted]
        streams = tuple(StreamImport(source, **FORMS[form][0]) for source, form in wanted)
        account = self.accounts[name]
        account.options = msgspec.structs.replace(account.options, stream_imports=streams)
        account.follow_options(self.accounts)

    @rule(data=st.data(), subject=PATTERNS, queue=QUEUES, sid=SIDS)
    def subscribe(self, data: st.DataObject, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        client = self.pick(data)
        self.peers[client].send(b"SUB %b %b%b\r\n" % (subject, queue + b" " if queue else b"", sid))
        if all((sub.client, sub.sid) != (client, sid) for sub in self.subs):
            self.subs.append(Sub(self.member_of[client], client, sid, subject, queue))

    @rule(data=st.data(), sid=SIDS, maximum=st.integers(0, 3))
    def unsubscribe(self, data: st.DataObject, sid: bytes, maximum: int) -> None:
        """As in nats-server, only messages of the account itself count for the maximum."""
        client = self.pick(data)
        self.peers[client].send(b"UNSUB %b%b\r\n" % (sid, b" %d" % maximum if maximum else b""))
        for sub in [sub for sub in self.subs if (sub.client, sub.sid) == (client, sid)]:
            if maximum > sub.delivered:
                sub.maximum = maximum
            else:
                self.subs.remove(sub)

    @rule(data=st.data(), subject=SUBJECTS)
    def publish(self, data: st.DataObject, subject: bytes) -> None:
        client = self.pick(data)
        account = self.member_of[client]
        expected: Counter[tuple[int, bytes, bytes]] = Counter()
        groups: dict[bytes, set[tuple[int, bytes, bytes]]] = {}
        here = [(sub, subject) for sub in self.subs if sub.account == account]
        elsewhere = [
            (sub, local)
            for who, source, form in self.imports
            if source == account and (local := local_subject(subject, form)) is not None
            for sub in self.subs
            if sub.account == who
        ]
        reached = [(sub, shown) for sub, shown in here + elsewhere if matches(sub.subject, shown)]
        for sub, shown in reached:
            frame = (sub.client, sub.sid, shown)
            if sub.queue:
                groups.setdefault(sub.queue, set()).add(frame)
            else:
                expected[frame] += 1
        self.peers[client].send(message(subject, b"x"))
        got = Counter(
            (number, frame.sid, frame.subject)
            for number, peer in self.peers.items()
            for frame in peer.frames()
            if frame.operation == "MSG"
        )
        self._check(got, expected, groups)
        self._count(got, account, subject)

    def _check(
        self,
        got: Counter[tuple[int, bytes, bytes]],
        expected: Counter[tuple[int, bytes, bytes]],
        groups: dict[bytes, set[tuple[int, bytes, bytes]]],
    ) -> None:
        assert not expected - got
        rest = got - expected
        assert rest.total() == len(groups)
        for members in groups.values():
            assert any(frame in rest for frame in members)
        assert all(any(frame in members for members in groups.values()) for frame in rest)

    def _count(self, got: Counter[tuple[int, bytes, bytes]], account: str, subject: bytes) -> None:
        for sub in list(self.subs):
            if sub.account == account and matches(sub.subject, subject) and got[sub.client, sub.sid, subject]:
                sub.delivered += 1
                if sub.maximum and sub.delivered >= sub.maximum:
                    self.subs.remove(sub)

    @invariant()
    def nothing_is_left_behind(self) -> None:
        if not self.subs:
            assert all(account.interest.count == 0 for account in self.accounts.values())
            assert all(account.interest.node_count == 0 for account in self.accounts.values())

    def teardown(self) -> None:
        for peer in self.peers.values():
            peer.socket.close()
        self.bench.settle()
        assert all(account.interest.count == 0 for account in self.accounts.values())
        self.bench.close()


ShadowsAgainstModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestShadows = ShadowsAgainstModel.TestCase

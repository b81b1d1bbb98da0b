"""System events: the same clients at nats-server and at headrace, and the same events about them.

Each scene makes clients come and go while somebody listens to `$SYS.>`. What every event says is compared,
apart from names, times and counters that differ between any two runs. Goroutines of nats-server publish
events about one moment in any order, so they are compared per subject; `test_order` looks at the order where
it has one.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from tests.frames import Frame
from tests.monitor.system.peer import PATIENCE_SECONDS, Peer
from tests.servers import Server, ServerKind, running_server

CONFIG = """
server_name: here
server_tags: ["a:b"]
server_metadata: {x: y}
accounts {
  A { users: [{user: ann, password: pw}] }
  B { users: [{user: bob, password: pw}], limits {max_connections: 1} }
  $SYS { users: [{user: sys, password: pw}] }
}
max_payload: 1000
max_connections: 7
ping_interval: "100s"
authorization {timeout: 1.5}
"""
MASKED = {
    "id",
    "timestamp",
    "time",
    "seq",
    "start",
    "stop",
    "rtt",
    "mem",
    "cpu",
    "gomaxprocs",
    "num_subscriptions",
    "subscriptions",
}
# nats-server's own features, and its capability to move traffic of clusters.
UNTRUE_HERE = {"feature_flags", "flags"}
Event = tuple[str, Any]
Scene = Callable[[Server], None]


def mask(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: "…" if name in MASKED else mask(one)
            for name, one in value.items()
            if name not in UNTRUE_HERE
        }
    return [mask(one) for one in value] if isinstance(value, list) else value


def subject_of(subject: bytes) -> str:
    return re.sub(r"\bN[A-Z2-7]{55}\b", "<id>", subject.decode())


class Watcher(Peer):
    """Somebody in the system account."""

    def __init__(self, server: Server, pattern: str = "$SYS.ACCOUNT.> $SYS.SERVER.>") -> None:
        super().__init__(server, user="sys", **{"pass": "pw"})
        self.sync()
        for sid, subject in enumerate(pattern.split(), 1):
            self.send(f"SUB {subject} {sid}\r\n".encode())
        self.events: list[Event] = []
        self.ask("IDZ")  # the events of its own arrival come before the answer
        self.events.clear()

    def ask(self, what: str) -> Any:
        """The answer of the server to a request. Events come in the order of its queue, as answers do."""
        self.send(f"SUB answer 99\r\nPUB $SYS.REQ.SERVER.PING.{what} answer 0\r\n\r\n".encode())
        answers: list[Any] = []
        while not answers:
            for frame in self.messages(1):
                if frame.subject == b"answer":
                    answers.append(json.loads(frame.payload))
                else:
                    self._add(frame)
        self.send(b"UNSUB 99\r\n")
        return answers[0]

    def gather(self, last: str, count: int = 1, before: float = PATIENCE_SECONDS) -> list[Event]:
        """Until this many events of that subject have come, then what comes with them."""
        ends = time.monotonic() + before
        while sum(subject == last for subject, _ in self.events) < count and time.monotonic() < ends:
            self._note()
            time.sleep(0.01)
        self._note()
        return self.events

    def gather_departure(self, last: str) -> list[Event]:
        """Until that subject has told of the client's end, and its account of as many clients as are left.

        nats-server tells of both from different goroutines.
        """
        self.gather(last)
        ends = time.monotonic() + PATIENCE_SECONDS
        while any(self._latest_counts().values()) and time.monotonic() < ends:
            self._note()
            time.sleep(0.01)
        return self.events

    def _latest_counts(self) -> dict[str, int]:
        """The number of clients that was told last, by subject."""
        return {subject: event["conns"] for subject, event in self.events if subject.endswith(".CONNS")}

    def _note(self) -> None:
        for frame in self.heard():
            self._add(frame)

    def _add(self, frame: Frame) -> None:
        subject = subject_of(frame.subject)
        if not subject.endswith(".STATSZ"):
            self.events.append((subject, json.loads(frame.payload)))


def ann(server: Server, **options: Any) -> Peer:
    return Peer(server, user="ann", **{"pass": "pw"}, **options)


# -- scenes: each ends with a DISCONNECT that the test waits for


def leaves(server: Server) -> None:
    with ann(server, name="n", lang="python", version="1.2") as peer:
        peer.sync()  # nats-server counts what comes in one packet with CONNECT for the global account
        peer.send(b"SUB x 1\r\n")
        peer.publish("x", b"hello")
        peer.messages(1)


def sends_nonsense(server: Server) -> None:
    with ann(server) as peer:
        peer.sync()
        peer.send(b"NONSENSE\r\n")
        peer.last_words()


def sends_too_much(server: Server) -> None:
    with ann(server) as peer:
        peer.sync()
        peer.publish("x", b"x" * 2000)
        peer.last_words()


def sends_a_long_line(server: Server) -> None:
    with ann(server) as peer:
        peer.sync()
        peer.send(b"PUB " + b"x" * 5000 + b" 0\r\n")
        peer.last_words()


def has_a_wrong_password(server: Server) -> None:
    with Peer(server, user="ann", name="n", **{"pass": "wrong"}) as peer:
        peer.last_words()


def has_a_wrong_token(server: Server) -> None:
    with Peer(server, auth_token="secret") as peer:
        peer.last_words()


def says_nothing(server: Server) -> None:
    with Peer(server) as peer:
        peer.last_words()


def leaves_without_connect(server: Server) -> None:
    Peer(server).close()


def forgets_connect(server: Server) -> None:
    with Peer(server) as peer:
        peer.send(b"SUB x 1\r\n")
        peer.last_words()


def wants_another_protocol(server: Server) -> None:
    with ann(server, protocol=17) as peer:
        peer.last_words()


def wants_no_responders_without_headers(server: Server) -> None:
    with ann(server, headers=False) as peer:
        peer.last_words()


SCENES: dict[str, tuple[Scene, str]] = {
    scene.__name__: (scene, f"$SYS.ACCOUNT.{account}.DISCONNECT")
    for scene, account in (
        (leaves, "A"),
        (sends_nonsense, "A"),
        (sends_too_much, "A"),
        (sends_a_long_line, "A"),
        (has_a_wrong_password, "$G"),
        (has_a_wrong_token, "$G"),
        (says_nothing, "$G"),
        (leaves_without_connect, "$G"),
        (forgets_connect, "$G"),
        (wants_another_protocol, "A"),
        (wants_no_responders_without_headers, "A"),
    )
}


def play_scenes(kind: ServerKind) -> dict[str, list[Event]]:
    """All scenes at one server; the number of a connection is what it is after the watcher's."""
    found: dict[str, list[Event]] = {}
    with running_server(kind, CONFIG) as server, Watcher(server) as watcher:
        for name, (scene, last) in SCENES.items():
            scene(server)
            found[name] = list(watcher.gather_departure(last))
            watcher.events.clear()
    return found


def per_subject(events: list[Event]) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = {}
    for subject, event in events:
        grouped.setdefault(subject, []).append(mask(event))
    return grouped


@pytest.fixture(scope="module")
def played() -> dict[ServerKind, dict[str, list[Event]]]:
    kinds: tuple[ServerKind, ServerKind] = ("nats-server", "headrace")
    return {kind: play_scenes(kind) for kind in kinds}


@pytest.mark.parametrize("name", SCENES)
def test_a_client_that(name: str, played: dict[ServerKind, dict[str, list[Event]]]) -> None:
    expected, found = (played[kind][name] for kind in ("nats-server", "headrace"))
    assert per_subject(found) == per_subject(expected)
    for event in (event for subject, event in found if subject == SCENES[name][1]):
        like = next(one for subject, one in expected if subject == SCENES[name][1])
        assert list(event["client"]) == list(like["client"])
        assert list(event) == list(like)


@pytest.mark.parametrize("kind", ["nats-server", "headrace"])
def test_order(kind: ServerKind) -> None:
    """The number of clients changes first, under the old name and then the new one."""
    with running_server(kind, CONFIG) as server, Watcher(server) as watcher, ann(server) as peer:
        peer.sync()
        arrival = [subject for subject, _ in watcher.gather("$SYS.ACCOUNT.A.CONNECT")]
    assert arrival == [
        "$SYS.SERVER.ACCOUNT.A.CONNS",
        "$SYS.ACCOUNT.A.SERVER.CONNS",
        "$SYS.ACCOUNT.A.CONNECT",
    ]


def crowd(kind: ServerKind) -> dict[str, list[Any]]:
    """Too many for the account, then for the server."""
    with ExitStack() as stack:
        server = stack.enter_context(running_server(kind, CONFIG))
        watcher = stack.enter_context(Watcher(server))
        bob = stack.enter_context(Peer(server, user="bob", **{"pass": "pw"}))
        bob.sync()
        with Peer(server, user="bob", **{"pass": "pw"}) as other:
            other.last_words()
        watcher.gather("$SYS.ACCOUNT.B.DISCONNECT")
        while watcher.ask("VARZ")["data"]["connections"] > 2:
            time.sleep(0.01)  # until nats-server has made room for another
        for _ in range(5):
            stack.enter_context(ann(server)).sync()
        with Peer(server) as last:
            last.last_words()
        return per_subject(watcher.gather("$SYS.ACCOUNT.$G.DISCONNECT"))


def test_clients_that_find_no_room() -> None:
    assert crowd("headrace") == crowd("nats-server")


def account_errors(kind: ServerKind) -> list[Any]:
    """Owners of an account learn of refused clients in it: in the global one, as no other is known."""
    config = "server_name: here\naccounts { $SYS { users: [{user: sys, password: pw}] } }\n"
    with running_server(kind, config) as server, Peer(server, name="owner") as owner:
        owner.send(b"SUB $SYS.ACCOUNT.CLIENT.AUTH.ERR 1\r\n")
        owner.sync()
        with Peer(server, user="sys", **{"pass": "wrong"}) as peer:
            peer.last_words()
        return [mask(json.loads(frame.payload)) for frame in owner.messages(1)]


def test_refused_clients_as_owners_of_the_account_see_them() -> None:
    assert account_errors("headrace") == account_errors("nats-server")


RELOADED = CONFIG.replace("{user: ann, password: pw}", "{user: ann, password: other}")


def reload(kind: ServerKind) -> dict[str, list[Any]]:
    """Without CONNS: nats-server takes each client out of its account and back in, and tells of both."""
    with ExitStack() as stack:
        server = stack.enter_context(running_server(kind, CONFIG))
        watcher = stack.enter_context(Watcher(server))
        peer = stack.enter_context(ann(server))
        bob = stack.enter_context(Peer(server, user="bob", **{"pass": "pw"}))
        peer.sync()
        bob.sync()
        watcher.gather("$SYS.ACCOUNT.B.CONNECT")
        watcher.events.clear()
        (server.log_file.parent / "server.conf").write_text(RELOADED)
        server.process.send_signal(signal.SIGHUP)
        peer.last_words()
        watcher.gather("$SYS.ACCOUNT.B.CONNECT")
        watcher.gather("$SYS.ACCOUNT.$SYS.CONNECT")
        found = per_subject(watcher.gather("$SYS.ACCOUNT.A.DISCONNECT"))
        return {subject: events for subject, events in found.items() if not subject.endswith(".CONNS")}


def test_a_client_whose_password_a_reload_has_changed() -> None:
    assert reload("headrace") == reload("nats-server")


@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "SHUTDOWN"), (signal.SIGUSR2, "LAMEDUCK")])
def test_the_last_words_of_a_server(number: signal.Signals, name: str) -> None:
    said = {}
    for kind in ("nats-server", "headrace"):
        config = CONFIG + 'lame_duck_duration: "30s"\nlame_duck_grace_period: "1s"\n'
        with running_server(kind, config) as server, Watcher(server) as watcher, ann(server) as peer:
            peer.sync()
            watcher.gather("$SYS.ACCOUNT.A.CONNECT")
            server.process.send_signal(number)
            said[kind] = [
                (subject_of(frame.subject), mask(json.loads(frame.payload)))
                for frame in watcher.last_words()
                if frame.sid
            ]
    assert [subject for subject, _ in said["headrace"]] == [f"$SYS.SERVER.<id>.{name}"]
    assert said["headrace"] == said["nats-server"]


def statsz(kind: ServerKind) -> dict[str, Any]:
    with ExitStack() as stack:
        server = stack.enter_context(running_server(kind, CONFIG))
        watcher = stack.enter_context(Watcher(server, "$SYS.SERVER.*.STATSZ"))
        stack.enter_context(ann(server)).sync()
        watcher.heard()
        document = mask(json.loads(watcher.messages(1)[0].payload))
    for name in ("sent", "sent_to_clients"):  # events as long as names and times are
        document["statsz"][name] = "…"
    return document


def test_the_figures_of_a_server() -> None:
    ours, theirs = statsz("headrace"), statsz("nats-server")
    assert ours == theirs
    assert list(ours["statsz"]) == list(theirs["statsz"])

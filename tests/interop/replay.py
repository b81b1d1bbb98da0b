"""Plays a session against a server and keeps what every connection received in every step, and whether it
lives.

`Stage` keeps one running server of each kind per settings text, because starting one takes longer than most
sessions. Sessions on one server run one after another with fresh connections; the two servers of a comparison
run side by side.
"""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from types import TracebackType

from tests.interop.normalise import Normaliser, without_pings
from tests.interop.normalise_streams import StreamsNormaliser, find_restore_subject
from tests.interop.session import PLAIN, RESTORE_SUBJECT, UNTIL_STATUS, Session, Step
from tests.interop.signatures import fill_in_signatures, find_nonce
from tests.interop.tidy import delete_streams
from tests.interop.tls_client import open_tls_wire
from tests.interop.websocket_wire import open_wire
from tests.interop.wire import Wire
from tests.servers import Server, ServerKind, running_server

UNTIL_SECONDS = 50.0
UNTIL_PAUSE_SECONDS = 0.02
GONE_SECONDS = 30.0

# Where there is a limit of clients, the servers have a monitor that tells how many there are.
LIMITS_OF_CLIENTS = ("max_connections", "resolver: MEMORY")
_MONITOR = re.compile(r"Starting http monitor on (\S+:\d+)")

SYNCHRONISED = b"PONG\r\nPONG\r\n"


@dataclass(frozen=True)
class Answer:
    """What one connection received during one step, and its fate: open, closed (by the server) or silent."""

    connection: str
    received: bytes
    fate: str


@dataclass(frozen=True)
class Scene:
    """One step and all that it caused."""

    step: Step
    answers: tuple[Answer, ...]


Transcript = tuple[Scene, ...]


class _Play:
    def __init__(self, server: Server, session: Session) -> None:
        self._server = server
        self._session = session
        self._wires: dict[str, Wire] = {}
        self._normalisers: dict[str, Normaliser] = {}
        self._nonces: dict[str, bytes] = {}
        self._restore_subject = b""
        self._streams = StreamsNormaliser(b"".join(step.data for step in session.steps))

    def run(self) -> Transcript:
        try:
            return tuple(self._scene(step) for step in self._session.steps)
        finally:
            for wire in self._wires.values():
                wire.hang_up()

    def _scene(self, step: Step) -> Scene:
        if step.on not in self._wires:
            self._open(step.on)
        data = step.data.replace(RESTORE_SUBJECT, self._restore_subject)
        signed = replace(step, data=fill_in_signatures(data, self._nonces[step.on]))
        _ACTIONS[step.action](self, signed, self._wires[step.on])
        # What streams send comes when it comes: there, a connection is looked at in its own steps only.
        seen = [step.on] if self._session.about_streams else self._wires
        return Scene(step, tuple(self._answer(name, self._wires[name], step) for name in seen))

    def _open(self, name: str) -> None:
        server, session = self._server, self._session
        _wait_until_gone(server, sum(not wire.is_closed for wire in self._wires.values()))
        if session.tls is not None:
            wire = open_tls_wire(server.host, server.port, name, session.tls)
        else:
            wire = open_wire("plain" if name == PLAIN else session.wire, server, session.upgrade)
            wire.read_line()
        self._wires[name] = wire
        self._nonces[name] = find_nonce(wire.received)
        self._normalisers[name] = Normaliser(wire.port, whole_info=session.whole_info)

    def _answer(self, name: str, wire: Wire, step: Step) -> Answer:
        fate = "closed" if wire.is_closed else "silent" if wire.is_silent else "open"
        if self._session.about_streams:
            received = wire.take()
            self._restore_subject = find_restore_subject(received) or self._restore_subject
            return Answer(name, self._streams.normalise(received, any_order=step.any_order), fate)
        received = wire.take()
        if not self._session.keeps_pings:
            received = without_pings(received)  # the server's own may be the last that came
        received = received.removesuffix(SYNCHRONISED)
        received = self._normalisers[name].normalise(received, any_order=step.any_order)
        return Answer(name, b"" if self._session.only_closes else received, fate)

    def _send(self, step: Step, wire: Wire) -> None:
        wire.is_left_alone = False
        wire.is_raw = step.raw
        wire.write(step.data, step.chunks)
        wire.is_raw = False
        wire.synchronise(step.data.upper().count(b"PING"))
        if self._session.about_streams:
            return
        # The sender's PONG says that its operations were carried out; only then can the others' be complete.
        for other in self._wires.values():
            if other is not wire and not (other.is_closed or other.is_left_alone):
                other.synchronise()

    def _expect(self, step: Step, wire: Wire) -> None:
        """Answers of streams come from other threads than PONGs do, so they are counted."""
        wire.write(step.data)
        if step.messages == UNTIL_STATUS:
            wire.read_status()
        else:
            wire.read_messages(step.messages)
        wire.synchronise()

    def _until(self, step: Step, wire: Wire) -> None:
        """How often it has to ask is not part of the transcript."""
        deadline = time.monotonic() + UNTIL_SECONDS
        while True:
            wire.write(step.data)
            wire.read_messages(1)
            answer = wire.take()
            if all(part in answer for part in step.wanted):
                return
            assert not wire.is_closed
            assert time.monotonic() < deadline, f"no {step.wanted} in {answer!r}"
            time.sleep(UNTIL_PAUSE_SECONDS)

    def _part(self, step: Step, wire: Wire) -> None:
        wire.is_left_alone = True
        wire.is_raw = step.raw
        wire.write(step.data)
        wire.is_raw = False
        wire.drain()

    def _quiet(self, step: Step, wire: Wire) -> None:
        wire.read_until_quiet(step.lines)

    def _closed(self, step: Step, wire: Wire) -> None:
        wire.read_until_closed()

    def _hang_up(self, step: Step, wire: Wire) -> None:
        wire.hang_up(step.data)

    def _stall(self, step: Step, wire: Wire) -> None:
        wire.is_left_alone = True


_ACTIONS: dict[str, Callable[[_Play, Step, Wire], None]] = {
    "send": _Play._send,
    "part": _Play._part,
    "quiet": _Play._quiet,
    "closed": _Play._closed,
    "hang_up": _Play._hang_up,
    "stall": _Play._stall,
    "expect": _Play._expect,
    "until": _Play._until,
}


def _wait_until_gone(server: Server, left: int) -> None:
    """Until there are no more clients than are left: nats-server makes room after it has closed a socket."""
    monitor = _MONITOR.search(server.log())
    deadline = time.monotonic() + GONE_SECONDS
    while monitor and _count_clients(monitor[1]) > left:
        assert time.monotonic() < deadline, "clients that have hung up are still there"
        time.sleep(UNTIL_PAUSE_SECONDS)


def _count_clients(monitor: str) -> int:
    """Of the server, or of its accounts if these are more."""
    with urllib.request.urlopen(f"http://{monitor}/varz", timeout=GONE_SECONDS) as answer:
        connections: int = json.load(answer)["connections"]
    with urllib.request.urlopen(f"http://{monitor}/accstatz", timeout=GONE_SECONDS) as answer:
        accounts = json.load(answer).get("account_statz") or []
    in_accounts: int = sum(account["conns"] for account in accounts)
    return max(connections, in_accounts)


def replay(server: Server, session: Session) -> Transcript:
    """Play the session; what the server answered, ready to be compared with another server's answers."""
    if session.about_streams:
        delete_streams(server)
    return _Play(server, session).run()


class Stage:
    """Running servers, started when a session first needs them and stopped together at the end."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._servers: dict[tuple[ServerKind, str], Server] = {}

    def __enter__(self) -> Stage:
        self._pool = self._stack.enter_context(ThreadPoolExecutor(2))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for (which, _), server in self._servers.items():
            if which == "nats-server":  # it may take seconds to end by itself
                server.process.kill()
        self._stack.close()

    def server(self, kind: ServerKind, settings: str) -> Server:
        if (kind, settings) not in self._servers:
            flags = []
            if "jetstream" in settings:
                flags += ["-sd", self._stack.enter_context(TemporaryDirectory())]
            if any(limit in settings for limit in LIMITS_OF_CLIENTS):
                flags += ["-m", "-1"]
            started = self._stack.enter_context(running_server(kind, settings, flags))
            self._servers[kind, settings] = started
        return self._servers[kind, settings]

    def compare(self, session: Session) -> tuple[Transcript, Transcript]:
        """The transcripts of the reference and of the server under test."""
        servers = [self.server(kind, session.settings) for kind in ("nats-server", "headrace")]
        reference, ours = self._pool.map(replay, servers, [session, session])
        return reference, ours

"""Where messages are traced: a server with accounts, its clients, and a table of scenes that they play."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tests.frames import Frame
from tests.monitor.system.peer import Peer
from tests.servers import Server

CONFIG = """
server_name: here
jetstream { store_dir: "STORE", max_mem: 10MB, max_file: 10MB }
max_payload: 2000
accounts {
  A {
    jetstream: enabled
    users: [
      {user: ann, password: pw}
      {user: ned, password: pw, permissions: {publish: {deny: ["no.*", hidden]}, subscribe: {deny: x.secret}}}
    ]
    mappings: { "m.*": "mapped.$1" }
    exports: [{stream: "out.>"}]
    imports: [
      {service: {account: S, subject: "open.>"}, to: "ask.open.>"}
      {service: {account: S, subject: "shut"}, to: "ask.shut"}
    ]
  }
  B {
    users: [{user: bob, password: pw}]
    imports: [{stream: {account: A, subject: "out.>"}, prefix: b, allow_trace: true}]
  }
  C {
    users: [{user: cid, password: pw}]
    imports: [{stream: {account: A, subject: "out.>"}}]
  }
  S {
    users: [{user: sue, password: pw}]
    exports: [{service: "open.>", allow_trace: true}, {service: "shut"}]
  }
  T {
    users: [{user: tom, password: pw}]
    msg_trace: {dest: "traces", sampling: "100%"}
  }
  $SYS { users: [{user: sys, password: pw}] }
}
"""


class Stage:
    """A server, and the clients of a scene. What they hear is part of what is compared."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._stack = ExitStack()
        self.peers: dict[str, Peer] = {}
        self.heard: dict[str, list[str]] = {}

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def peer(self, user: str, name: str = "", **options: Any) -> Peer:
        """Connected once; `name` tells several of one user apart."""
        key = name or user
        if key not in self.peers:
            peer = Peer(self._server, user=user, name=key, **{"pass": "pw"}, **options)
            peer.sync()
            self.peers[key] = self._stack.enter_context(peer)
        return self.peers[key]

    def subscribe(self, user: str, *subjects: str, name: str = "", **options: Any) -> Peer:
        peer = self.peer(user, name, **options)
        for number, subject in enumerate(subjects, 1):
            peer.send(f"SUB {subject} {number}\r\n".encode())
        peer.sync()
        return peer

    def settle(self) -> int:
        """Note what has come since the last time. Returns how much all of them have heard so far."""
        for key, peer in self.peers.items():
            lines = self.heard.setdefault(key, [])
            lines += [
                shown(frame) for frame in peer.sync() if frame.operation not in ("PONG", "INFO", "PING")
            ]
        return sum(len(self.heard[key]) for key in self.peers)


def shown(frame: Frame) -> str:
    """Without what differs between servers and runs."""
    text = b" ".join(
        (frame.operation.encode(), frame.subject, frame.headers, frame.payload or frame.argument)
    )
    masked = re.sub(rb"_R_\.[\w.]+", b"_R_", text)
    masked = re.sub(rb"Nats-Request-Info: [^\r]*", b"Nats-Request-Info", masked)
    if b'"type":"io.nats' in masked or b'"ts":' in masked:
        masked = b"EVENT " + frame.subject
    return re.sub(rb"Nats-Time-Stamp: [^\r]*", b"Nats-Time-Stamp", masked).decode()


Play = Callable[[Stage], None]


@dataclass(frozen=True)
class Scene:
    """`traces` come of it, and `messages` or errors are heard by its clients."""

    play: Play
    traces: int
    messages: int


SCENES: dict[str, Scene] = {}


def scene(*, traces: int, messages: int) -> Callable[[Play], Play]:
    def add(play: Play) -> Play:
        SCENES[play.__name__] = Scene(play, traces, messages)
        return play

    return add

"""Permissions that a reload changes hold for those who are connected, as in nats-server."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.frames import Frame
from tests.permissions.asking import Peer
from tests.servers import Server, ServerKind, running_server

SUBSCRIPTIONS = b"SUB a 1\r\nSUB b q 2\r\nSUB c.> 3\r\nSUB d.* 4\r\nSUB e 5\r\n"
PUBLISHED = ("a", "b", "c.x", "c.secret", "d.x", "e")
ALL = 'publish: ">", subscribe: ">"'

# What holds before and after; with the first one, all subscriptions are accepted.
CHANGES = {
    "nothing": (ALL, ALL),
    "fewer": (ALL, 'subscribe: ["a", "c.>"]'),
    "none": (ALL, 'subscribe: { deny: ">" }'),
    "more": ('subscribe: ["a", "b", "c.>", "d.*", "e"]', ALL),
    "a_queue": (ALL, 'subscribe: { deny: ["b q", "e q"] }'),
    "denied_below": (ALL, 'subscribe: { deny: "c.secret" }'),
    "denied_no_longer": ('subscribe: { deny: "c.secret" }', 'subscribe: ["c.>", "a"]'),
    "publish": (ALL, 'publish: { allow: ["a", "c.>"], deny: "c.secret" }'),
    "responses": (ALL, 'publish: "a", allow_responses: true'),
}


def write(path: Path, rules: str) -> None:
    path.write_text(
        f"authorization {{ users: [ {{ user: me, password: p, permissions: {{ {rules} }} }},\n"
        "  { user: admin, password: p } ] }\n"
    )


def reload(server: Server, path: Path, rules: str) -> None:
    write(path, rules)
    before = server.log().count("Reloaded server configuration")
    server.process.send_signal(signal.SIGHUP)
    server.wait_for_log("Reloaded server configuration", before + 1)


def describe(frames: list[Frame]) -> list[str]:
    """Subscriptions are removed in any order."""
    return sorted(str(frame) for frame in frames)


def play(server: Server, path: Path, before: str, after: str) -> tuple[list[list[str]], list[str]]:
    reload(server, path, before)
    logged = len(server.log())
    me, admin = Peer(server, "me"), Peer(server, "admin")
    publishes = "".join(f"PUB {subject} 0\r\n\r\n" for subject in PUBLISHED).encode()
    seen = [describe(me.ask(SUBSCRIPTIONS))]
    admin.ask(publishes)  # makes the routes that the reload changes
    seen.append(describe(me.ask()))
    reload(server, path, after)
    seen.append(describe(me.ask()))
    admin.ask(publishes)
    seen.append(describe(me.ask()))
    seen.append(describe(me.ask(publishes)))
    seen.append(describe(me.ask(SUBSCRIPTIONS.replace(b"SUB", b"UNSUB 9\r\nSUB"))))
    me.close()
    admin.close()
    removed = re.findall(r"Removed sub .*", server.log()[logged:])
    return seen, sorted(removed)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """One server of each kind goes through all changes."""
    found: dict[str, dict[str, object]] = {}
    kinds: tuple[ServerKind, ...] = ("nats-server", "headrace")
    for kind in kinds:
        path = tmp_path_factory.mktemp(kind) / "server.conf"
        write(path, ALL)
        with running_server(kind, flags=["-c", str(path)]) as server:
            found[kind] = {name: play(server, path, *rules) for name, rules in CHANGES.items()}
    return found


@pytest.mark.parametrize("name", CHANGES)
def test_a_reload_changes_what_is_allowed(outcomes: dict[str, dict[str, object]], name: str) -> None:
    assert outcomes["headrace"][name] == outcomes["nats-server"][name]

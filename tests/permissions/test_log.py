"""Refusals are logged as nats-server logs them, with the user."""

from __future__ import annotations

import re

import pytest

from tests.permissions.asking import Peer
from tests.servers import ServerKind, running_server

CONFIG = """
authorization { users: [
  { user: admin, password: p }
  { user: me, password: p, permissions: {
    publish: "a", subscribe: { allow: ["a", "s", "t.>"], deny: "s q" }
  } }
] }
no_auth_user: me
max_subscription_tokens: 3
"""
OPERATIONS = (
    b"PUB b 0\r\n\r\n"
    b'PUB b"\\\x01 0\r\n\r\n'
    b"PUB a _R_.x 0\r\n\r\n"
    b"PUB $NRG.x 0\r\n\r\n"
    b"SUB b 1\r\n"
    b'SUB b q"1 2\r\n'
    b"SUB s q three\r\n"
    b"SUB a _sys_ 4\r\n"
    b"SUB t.o.o.many 5\r\n"
)
REFUSALS = 9


def logged(kind: ServerKind, user: str) -> list[str]:
    with running_server(kind, CONFIG) as server:
        peer = Peer(server, user)
        peer.ask(OPERATIONS)
        peer.close()
        log = server.wait_for_log("Violation", REFUSALS)
    lines = re.findall(r"\[ERR\] (.*Violation.*)", log)
    return [re.sub(r"127\.0\.0\.1:\d+ - cid:\d+", "<client>", line) for line in lines]


@pytest.mark.parametrize("user", ["me", ""], ids=["named", "no_auth_user"])
def test_refusals_are_logged_as_nats_server_does(user: str) -> None:
    theirs = logged("nats-server", user)
    assert len(theirs) == REFUSALS
    assert logged("headrace", user) == theirs

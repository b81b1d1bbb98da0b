"""Which account's subjects a link publishes and subscribes to is decided when its peer is known."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from headrace.engine.core.interest import Interest
from tests.engine.core import harness
from tests.engine.core.harness import Bench, Peer, RecordingOwner, message


@pytest.fixture
def bench() -> Iterator[Bench]:
    with harness.bench() as made:
        yield made


class AccountOwner(RecordingOwner):
    """Joins the account that CONNECT names."""

    def __init__(self, accounts: dict[str, Interest]) -> None:
        super().__init__()
        self.accounts = accounts

    def on_connect(self, json_text: bytes) -> None:
        self.link.join(self.accounts[json.loads(json_text)["account"]])
        super().on_connect(json_text)


def accept(bench: Bench, owner: RecordingOwner) -> Peer:
    """A client that has been accepted, and nothing more."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    owner.link = bench.hub.attach(ours.detach(), owner)
    peer = Peer(bench, theirs, owner, owner.link)
    bench.peers.append(peer)
    return peer


def connect(bench: Bench, accounts: dict[str, Interest], account: str) -> Peer:
    peer = accept(bench, AccountOwner(accounts))
    peer.send(b'CONNECT {"verbose":false,"pedantic":false,"account":"%b"}\r\n' % account.encode())
    return peer


@pytest.mark.parametrize("operation", [b"PING\r\n", b"SUB foo 1\r\n", message(b"foo", b"1"), b"-ERR x\r\n"])
def test_a_link_that_has_joined_nothing_accepts_only_connect(bench: Bench, operation: bytes) -> None:
    peer = accept(bench, RecordingOwner())
    peer.send(operation)
    assert peer.owner.events == [("early operation",)]
    assert peer.owner.closed == "early operation"


def test_a_link_that_has_joined_nothing_cannot_subscribe(bench: Bench) -> None:
    peer = accept(bench, RecordingOwner())
    with pytest.raises(RuntimeError, match="joined"):
        peer.link.subscribe(b"foo", None, b"1")
    assert len(peer.link.subscriptions) == 0


def test_a_link_that_has_joined_nothing_can_end(bench: Bench) -> None:
    peer = accept(bench, RecordingOwner())
    peer.link.unsubscribe(b"1", -1)
    peer.socket.close()
    bench.settle()
    assert peer.owner.closed == "Client Closed"
    assert peer.owner.bugs == []


def test_connect_decides_in_which_account_a_link_is(bench: Bench) -> None:
    accounts = {"a": Interest(), "b": Interest()}
    first, second = connect(bench, accounts, "a"), connect(bench, accounts, "b")
    first.send(b"SUB foo 1\r\n")
    second.send(b"SUB > 2\r\n")
    connect(bench, accounts, "a").send(message(b"foo", b"for a"))
    connect(bench, accounts, "b").send(message(b"foo", b"for b"))
    assert first.payloads() == [b"for a"]
    assert second.payloads() == [b"for b"]


def test_subscriptions_end_when_a_link_joins_another_account(bench: Bench) -> None:
    accounts = {"a": Interest(), "b": Interest()}
    peer = connect(bench, accounts, "a")
    peer.send(b"SUB foo 1\r\nSUB bar q 2\r\n")
    assert accounts["a"].count == 2
    peer.link.join(accounts["a"])  # it is there already
    assert accounts["a"].count == 2
    peer.link.join(accounts["b"])
    assert (accounts["a"].count, len(peer.link.subscriptions)) == (0, 0)
    peer.send(b"SUB foo 1\r\n")
    assert (accounts["a"].count, accounts["b"].count) == (0, 1)
    peer.socket.close()
    bench.settle()
    assert accounts["b"].count == 0

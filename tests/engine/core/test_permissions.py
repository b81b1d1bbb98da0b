"""What permissions cost and hold: verdicts that are remembered, responses that are forgotten, changed rules.

What they allow is compared with a model and with nats-server in tests/permissions.
"""

from __future__ import annotations

import gc
import weakref

import pytest

from headrace.engine.core.permissions import PermissionSet
from tests.engine.core.harness import Bench, Peer

MOST_AWAITED = 65536
QUIET = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'


def restricted(bench: Bench, permissions: PermissionSet) -> Peer:
    peer = bench.attach()
    peer.send(QUIET)
    peer.link.restrict(permissions)
    return peer


def publish(subject: bytes, reply: bytes = b"") -> bytes:
    return b"PUB %b %b 0\r\n\r\n" % (subject, reply)


def violations(peer: Peer) -> list[bytes]:
    return [event[2] for event in peer.owner.events if event[:2] == ("violation", "publish")]


def test_verdicts_stay_right_when_there_are_more_subjects_than_slots(bench: Bench) -> None:
    permissions = PermissionSet(publish_allow=[b"open.*"], publish_deny=[b"open.0"])
    for _ in range(2):
        for number in range(5000):
            assert permissions.may_publish(b"open.%d" % number) == (number != 0)
            assert not permissions.may_publish(b"closed.%d" % number)


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 4000])
def test_subjects_of_any_length_have_a_verdict(length: int) -> None:
    subject = b"x" * length
    permissions = PermissionSet(publish_deny=[b"x" * 256, b"x" * 4000])
    for _ in range(3):
        assert permissions.may_publish(subject) == (length not in (256, 4000))
        assert permissions.may_publish(b"other")


def test_a_refused_publish_reaches_nobody_and_the_next_one_does(bench: Bench) -> None:
    peer = restricted(bench, PermissionSet(publish_allow=[b"a"]))
    other = bench.attach()
    other.send(QUIET + b"SUB > 1\r\n")
    peer.send(publish(b"b") + publish(b"a") + publish(b"b") + publish(b"a"))
    assert [frame.subject for frame in other.frames() if frame.operation == "MSG"] == [b"a", b"a"]
    assert violations(peer) == [b"b", b"b"]


def test_a_route_is_made_again_when_rules_change(bench: Bench) -> None:
    """For plain and for queue subscriptions, literal and wildcard ones."""
    peer, admin = bench.attach(), bench.attach()
    peer.send(QUIET + b"SUB a.* 1\r\nSUB a.b 2\r\nSUB a.> q 3\r\nSUB a.b r 4\r\n")
    admin.send(QUIET)
    for permissions, expected in [
        (None, 4),
        (PermissionSet(subscribe_deny=[(b"a.b", None)]), 0),
        (PermissionSet(subscribe_deny=[(b"a.b", b"q")]), 3),
        (PermissionSet(subscribe_deny=[(b"*.b", b"*")]), 2),
        (None, 4),
    ]:
        peer.link.restrict(permissions)
        for _ in range(2):
            admin.send(publish(b"a.b"))
            assert len([frame for frame in peer.frames() if frame.operation == "MSG"]) == expected


def test_responses_are_used_up_and_forgotten(bench: Bench) -> None:
    peer = restricted(bench, PermissionSet(publish_allow=(), max_responses=1))
    admin = bench.attach()
    peer.send(b"SUB service 1\r\n")
    admin.send(QUIET)
    for number in range(3 * 4096):
        reply = b"r.%d" % number
        admin.send(publish(b"service", reply))
        peer.send(publish(reply))
    assert violations(peer) == []
    assert peer.link.awaited_responses <= 4097
    peer.send(publish(b"r.1"))
    assert violations(peer) == [b"r.1"]


def test_responses_that_are_never_given_do_not_pile_up(bench: Bench) -> None:
    peer = restricted(bench, PermissionSet(publish_allow=(), max_responses=-1))
    admin = bench.attach()
    peer.send(b"SUB service 1\r\n")
    admin.send(QUIET)
    asked = MOST_AWAITED + 1000
    for start in range(0, asked, 500):
        admin.send(b"".join(publish(b"service", b"r.%d" % number) for number in range(start, start + 500)))
        peer.receive_all()
    assert peer.link.awaited_responses == MOST_AWAITED
    peer.send(publish(b"r.0") + publish(b"r.%d" % (asked - 1)))
    assert violations(peer) == [b"r.0"]


def test_a_late_response_is_refused(bench: Bench) -> None:
    peer = restricted(bench, PermissionSet(publish_allow=(), max_responses=5, response_seconds=1e-9))
    admin = bench.attach()
    peer.send(b"SUB service 1\r\n")
    admin.send(QUIET + publish(b"service", b"r.1"))
    peer.send(publish(b"r.1"))
    assert violations(peer) == [b"r.1"]
    assert peer.link.awaited_responses == 0


def test_a_set_is_freed_with_its_last_link(bench: Bench) -> None:
    permissions = PermissionSet(publish_deny=[b"x"], subscribe_deny=[(b"y", None), (b"z", b"q")])
    reference = weakref.ref(permissions)
    peer = restricted(bench, permissions)
    del permissions
    peer.send(b"SUB > 1\r\nSUB > q 2\r\nPUB a 0\r\n\r\n")
    assert reference() is not None
    peer.link.restrict(None)
    gc.collect()
    assert reference() is None

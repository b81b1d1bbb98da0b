"""Very many subscriptions of one connection, which are kept in parts that are split and joined."""

from __future__ import annotations

from random import Random

from headrace.engine.core.link import Link
from headrace.engine.core.trie import Subscription
from tests.engine.core.harness import Bench

SIZES = (3, 500, 520, 9000, 1200, 20_000, 400, 5000, 0)


def walked(link: Link) -> list[Subscription]:
    some, place = link.some_subscriptions(0)
    found = list(some)
    while place:
        some, place = link.some_subscriptions(place)
        found += some
    return found


def resize(link: Link, known: dict[bytes, bytes], size: int, random: Random) -> None:
    """Subscriptions come, more often than they go, until there are so many; or the other way round."""
    grows = size > len(known)
    while len(known) != size:
        sid = b"%d" % random.randrange(60_000)
        if (random.random() < 0.8) == grows:
            known.setdefault(sid, b"s." + sid)
            link.subscribe(b"s." + sid, b"queue" if int(sid) % 2 else None, sid)
        elif known:
            sid = sid if sid in known else next(iter(known))
            del known[sid]
            link.unsubscribe(sid, -1)


def test_subscriptions_that_come_and_go_are_those_of_a_dict(bench: Bench) -> None:
    link, random = bench.connect().link, Random(3)
    known: dict[bytes, bytes] = {}
    for size in SIZES:
        resize(link, known, size, random)
        assert len(link.subscriptions) == len(known) == bench.interest.count
        assert set(link.subscriptions) == known.keys()
        assert {each.sid: each.subject for each in walked(link)} == known
        assert all(b"%d" % number in link.subscriptions for number in range(100) if b"%d" % number in known)
    assert bench.interest.node_count == 0


def test_a_walk_meets_all_that_stay_once(bench: Bench) -> None:
    """Whatever is split or joined between its steps."""
    link, random = bench.connect().link, Random(4)
    known: dict[bytes, bytes] = {}
    staying = {b"stays-%d" % number for number in range(2000)}
    for sid in staying:
        link.subscribe(b"a", None, sid)
    for sizes in ((0, 10_000, 0), (10_000, 0, 5000)):
        met: list[bytes] = []
        some, place = link.some_subscriptions(0)
        for size in sizes:
            met += [each.sid for each in some]
            some, place = link.some_subscriptions(place)
            resize(link, known, size, random)
        met += [each.sid for each in some]
        while place:
            some, place = link.some_subscriptions(place)
            met += [each.sid for each in some]
        assert sorted(sid for sid in met if sid in staying) == sorted(staying)


def test_leaving_out_some_leaves_out_as_many(bench: Bench) -> None:
    link = bench.connect().link
    for number in range(7000):
        link.subscribe(b"a", None, b"%d" % number)
    everything = [each.sid for each in walked(link)]
    for skipped in (0, 1, 400, 2048, 5000, 6999, 7000, 9000):
        some, place = link.some_subscriptions(0, skipped)
        found = [each.sid for each in some]
        while place:
            some, place = link.some_subscriptions(place)
            found += [each.sid for each in some]
        assert found == everything[skipped:]


def test_a_connection_with_very_many_can_be_closed(bench: Bench) -> None:
    link = bench.connect().link
    for number in range(50_000):
        link.subscribe(b"s.%d" % number, None, b"%d" % number)
    link.unsubscribe_all()
    assert (len(link.subscriptions), bench.interest.count, bench.interest.node_count) == (0, 0, 0)
    link.subscribe(b"again", None, b"1")
    assert [each.sid for each in walked(link)] == [b"1"]

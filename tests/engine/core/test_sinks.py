"""Receivers within the process: they get what a client would, at the end of the tick."""

from __future__ import annotations

import gc
import weakref
from random import Random

from headrace.broker.internal import InternalClient
from headrace.engine.core.sinks import Inbox, InboxMessage
from tests.engine.core.harness import Bench
from tests.model import matches


def raise_bug(error: Exception) -> None:
    raise error


def client_of(bench: Bench) -> InternalClient:
    return InternalClient(bench.hub, bench.interest, raise_bug)


def test_an_inbox_gets_subject_reply_headers_and_payload(bench: Bench) -> None:
    got: list[InboxMessage] = []
    client = client_of(bench)
    client.subscribe(b"orders.*", got.append)
    peer = bench.connect(headers=True)
    peer.send(b"HPUB orders.eu back 12 17\r\nNATS/1.0\r\n\r\nhello\r\nPUB orders.us 2\r\nhi\r\n")
    assert [(m.subject, m.reply, m.headers, m.payload) for m in got] == [
        (b"orders.eu", b"back", b"NATS/1.0\r\n\r\n", b"hello"),
        (b"orders.us", b"", b"", b"hi"),
    ]
    assert got[0].publisher is peer.owner


def test_a_handler_may_publish_and_subscribe(bench: Bench) -> None:
    client = client_of(bench)

    def answer(message: InboxMessage) -> None:
        client.publish(message.reply, b"pong", headers=b"NATS/1.0\r\nA: b\r\n\r\n")
        client.subscribe(b"later", lambda late: got.append(late))

    got: list[InboxMessage] = []
    client.subscribe(b"ping", answer)
    peer = bench.connect(headers=True)
    peer.send(b"SUB back 1\r\nPUB ping back 0\r\n\r\nPUB later 1\r\nx\r\n")
    frames = [frame for frame in peer.frames() if frame.operation == "HMSG"]
    assert [(f.subject, f.payload) for f in frames] == [(b"back", b"pong")]
    assert not got, "the message came in the same tick, before anybody had subscribed"
    peer.send(b"PUB later 1\r\nx\r\n")
    assert [m.payload for m in got] == [b"x"]


def test_what_one_handler_publishes_reaches_another(bench: Bench) -> None:
    client = client_of(bench)
    got: list[bytes] = []
    client.subscribe(b"second", lambda message: got.append(message.payload))
    client.subscribe(b"first", lambda message: bool(client.publish(b"second", message.payload)) and None)
    bench.connect().send(b"PUB first 3\r\nabc\r\n")
    assert got == [b"abc"]


def test_publishing_tells_whether_anybody_listens(bench: Bench) -> None:
    client = client_of(bench)
    assert not client.publish(b"nobody", b"x")
    assert not client.has_interest(b"nobody")
    bench.connect().send(b"SUB somebody 1\r\n")
    assert client.publish(b"somebody", b"x")
    assert client.has_interest(b"somebody")


def test_interest_in_a_subject_is_reported_as_it_comes_and_goes(bench: Bench) -> None:
    client = client_of(bench)
    seen: list[bool] = []
    client.watch_interest(b"deliver.here", seen.append)
    peer = bench.connect()
    peer.send(b"SUB deliver.here 1\r\n")
    assert seen == [True]
    peer.send(b"UNSUB 1\r\n")
    assert seen == [True, False]
    peer.send(b"SUB deliver.here 2\r\n")
    peer.socket.close()
    bench.settle()
    assert seen == [True, False, True, False]
    client.unwatch_interest(b"deliver.here", seen.append)
    bench.connect().send(b"SUB deliver.here 1\r\n")
    assert len(seen) == 4


def test_several_may_watch_a_subject_and_leave_one_by_one(bench: Bench) -> None:
    client = client_of(bench)
    first: list[bool] = []
    second: list[bool] = []
    client.watch_interest(b"deliver.here", first.append)
    client.watch_interest(b"deliver.here", second.append)
    peer = bench.connect()
    peer.send(b"SUB deliver.here 1\r\n")
    client.unwatch_interest(b"deliver.here", first.append)
    client.unwatch_interest(b"deliver.here", first.append)  # it has left already
    peer.send(b"UNSUB 1\r\n")
    assert (first, second) == ([True], [True, False])
    client.unwatch_interest(b"deliver.here", second.append)
    peer.send(b"SUB deliver.here 1\r\n")
    assert second == [True, False]


def test_several_clients_may_watch_the_same_subject(bench: Bench) -> None:
    clients = [client_of(bench), client_of(bench)]
    seen: list[list[bool]] = [[], []]
    for client, reports in zip(clients, seen, strict=True):
        client.watch_interest(b"deliver.here", reports.append)
    peer = bench.connect()
    peer.send(b"SUB deliver.here 1\r\n")
    assert seen == [[True], [True]]
    clients[0].unwatch_interest(b"deliver.here", seen[0].append)
    peer.send(b"UNSUB 1\r\n")
    assert seen == [[True], [True, False]]


def test_one_that_leaves_within_the_tick_is_not_told(bench: Bench) -> None:
    client = client_of(bench)
    seen: list[bool] = []

    def leave(_: bool) -> None:
        client.unwatch_interest(b"deliver.here", seen.append)

    client.watch_interest(b"deliver.here", leave)
    client.watch_interest(b"deliver.here", seen.append)
    bench.connect().send(b"SUB deliver.here 1\r\n")
    assert seen == []


def test_a_sink_that_nobody_refers_to_lives_as_long_as_it_subscribes(bench: Bench) -> None:
    got: list[bytes] = []

    def subscribe() -> None:
        inbox = Inbox(bench.hub, bench.interest, lambda messages: got.extend(m.payload for m in messages))
        inbox.subscribe(b"left.alone", None, b"1")
        inbox.subscribe(b"left.*", b"group", b"2")

    subscribe()
    gc.collect()
    bench.connect().send(b"PUB left.alone 1\r\nx\r\n")
    assert got == [b"x", b"x"]


def test_a_sink_is_freed_once_it_subscribes_no_more(bench: Bench) -> None:
    class Listener:
        def receive(self, messages: list[InboxMessage]) -> None: ...

    listener = Listener()
    gone = weakref.ref(listener)
    inbox = Inbox(bench.hub, bench.interest, listener.receive)
    for sid in (b"1", b"2"):
        inbox.subscribe(b"a.b", None, sid)
    inbox.unsubscribe(b"1", -1)
    inbox.unsubscribe_all()
    del inbox, listener
    gc.collect()
    assert gone() is None


def test_interest_that_nobody_refers_to_is_freed_with_its_sinks() -> None:
    class Listener:
        def receive(self, messages: list[InboxMessage]) -> None: ...

    listener = Listener()
    gone = weakref.ref(listener)
    bench = Bench()
    Inbox(bench.hub, bench.interest, listener.receive).subscribe(b"a.b", None, b"1")
    bench.close()
    del bench, listener
    gc.collect()
    assert gone() is None


def test_what_was_found_for_one_subject_serves_only_those_with_the_same_matches(bench: Bench) -> None:
    """Against a model, with subscriptions of a sink and of a client that come and go between the messages.

    Some of the sink's are members of a queue group, of which one gets a message.
    """
    random, got = Random(20261117), set[bytes]()
    tokens = [b"a", b"b", b"1", b"22", b"", b"*"]
    patterns = [b"a.b.*.*", b"a.b.>", b"a.*.*.*", b"a.b.1.*", b"a.b.*.22", b"a.>", b"*.b.*.*", b"b.*", b">"]
    inbox = Inbox(bench.hub, bench.interest, lambda messages: got.update(message.sid for message in messages))
    held: dict[bytes, tuple[bytes, bytes | None]] = {}
    client = bench.connect()
    for _ in range(400):
        sid, pattern = b"%d" % random.randrange(6), random.choice(patterns)
        if sid in held:
            inbox.unsubscribe(sid, -1)
            del held[sid]
        else:
            queue = random.choice([None, b"workers"])
            inbox.subscribe(pattern, queue, sid)
            held[sid] = pattern, queue
        if random.random() < 0.2:
            client.send(b"UNSUB 7\r\nSUB %b 7\r\n" % pattern)
        for _ in range(8):
            start = random.choice([b"a.b.", b"a.b.", b"a.", b"b."])
            subject = start + b".".join(random.choices(tokens, k=random.randrange(1, 4)))
            got.clear()
            bench.hub.publish(bench.interest, subject, b"x")
            bench.hub.flush()
            matching = {sid: queue for sid, (pattern, queue) in held.items() if matches(pattern, subject)}
            members = {sid for sid, queue in matching.items() if queue}
            assert got - members == matching.keys() - members
            assert len(got & members) == min(len(members), 1)
            client.receive_all()

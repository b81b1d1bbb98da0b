"""Messages whose headers ask for a trace: which ones the engine asks its owner about, and what it then does.

What a trace says is compared with nats-server's in tests/monitor/system.
"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.engine.core.interest import Interest
from headrace.engine.core.sinks import Inbox, InboxMessage
from tests.engine.core.harness import RecordingOwner, bench

HEAD = b"NATS/1.0\r\n"


class RecordingTrace:
    """Writes down what it is told."""

    def __init__(self, *, is_only: bool = False) -> None:
        self.is_only = is_only
        self.told: list[tuple[Any, ...]] = []

    def on_refused(self, kind: str, detail: bytes) -> None:
        self.told.append(("refused", kind, detail))

    def on_mapped(self, subject: bytes) -> None:
        self.told.append(("mapped", subject))

    def on_exported(self, interest: Interest, subject: bytes) -> None:
        self.told.append(("exported", subject))

    def on_egress(
        self, receiver: RecordingOwner, subject: bytes, queue: bytes | None, error: str | None
    ) -> None:
        self.told.append(("egress", subject, queue, error))

    def finish(self) -> None:
        self.told.append(("finished",))


def frame(block: bytes, payload: bytes = b"hello", subject: bytes = b"x", reply: bytes = b"") -> bytes:
    head = HEAD + block + b"\r\n"
    words = b" ".join(filter(None, (subject, reply, b"%d %d" % (len(head), len(head + payload)))))
    return b"HPUB " + words + b"\r\n" + head + payload + b"\r\n"


ASKING = [
    b"Nats-Trace-Dest: t\r\n",
    b"A: b\r\nNats-Trace-Dest:t\r\n",
    b"Nats-Trace-Dest: t\r\nNats-Other: 1\r\n",
]
PARENTS = [b"traceparent: a\r\n", b"A:1\r\nTraceParent:a\r\n", b"TRACEPARENT: a\r\n"]
SILENT = [
    b"",
    b"A: b\r\n",
    b"A: Nats-Trace-Dest: t\r\n",
    b"nats-trace-dest: t\r\n",
    b"Nats-Trace-Destination: t\r\n",
    b"Nats-Trace-Only: true\r\n",
    b"Nats-Trace-Des: t\r\n",
    b"N: 1\r\nT: 2\r\n",
    b"traceparents: a\r\n",
    b"traceparen: a\r\n",
    b"tracepare\x4e\x54 : a\r\n",
    b"\r\n\r\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
]


@pytest.mark.parametrize("traces_parents", [False, True])
@pytest.mark.parametrize("block", ASKING + PARENTS + SILENT)
def test_the_owner_is_asked_about_messages_with_such_a_header(block: bytes, traces_parents: bool) -> None:
    is_asking = block in ASKING or (traces_parents and block in PARENTS)
    with bench() as made:
        made.interest.traces_parents = traces_parents
        sender, receiver = made.connect(), made.subscriber(b"x")
        sender.send(frame(block))
        asked = [event for event in sender.owner.events if event[0] == "traced"]
        assert len(asked) == is_asking
        assert receiver.payloads() == [b"hello"]


def test_it_is_asked_once_however_the_bytes_come() -> None:
    data = frame(ASKING[0]) + b"PUB x 3\r\nend\r\n"
    for size in (1, 7, len(data)):
        with bench() as made:
            sender, receiver = made.connect(), made.subscriber(b"x")
            for at in range(0, len(data), size):
                sender.send(data[at : at + size])
            head = HEAD + ASKING[0] + b"\r\n"
            assert sender.owner.events == [("traced", b"x", head, len(head) + 5)]
            assert receiver.payloads() == [b"hello", b"end"]


def test_it_may_drop_the_message_or_change_its_headers() -> None:
    with bench() as made:
        sender, receiver = made.connect(), made.subscriber(b"x")
        sender.owner.trace = False
        sender.send(frame(ASKING[0], b"one"))
        sender.owner.trace = HEAD + b"A: a much longer header than the one before it\r\n\r\n"
        sender.send(frame(ASKING[0], b"two"))
        (got,) = receiver.frames()
        assert (got.headers, got.payload) == (sender.owner.trace, b"two")
        assert sender.link.in_msgs == 1


def test_a_trace_is_told_of_everybody() -> None:
    trace = RecordingTrace()
    with bench() as made:
        sender = made.subscriber(b"x", echo=False)
        receivers = [made.subscriber(b"x"), made.subscriber(b"*"), made.subscriber(b"x group")]
        sender.owner.trace = trace
        sender.send(frame(ASKING[0]))
        assert [one.payloads() for one in receivers] == [[b"hello"]] * 3
    told = sorted(trace.told[:-1], key=repr)
    assert told == sorted(
        [
            ("egress", b"x", None, "Not delivered because of no echo"),
            ("egress", b"x", None, None),
            ("egress", b"*", None, None),
            ("egress", b"x", b"group", None),
        ],
        key=repr,
    )
    assert trace.told[-1] == ("finished",)


@pytest.mark.parametrize("is_only", [False, True])
def test_a_message_that_is_only_traced_counts_for_nobody(is_only: bool) -> None:
    trace = RecordingTrace(is_only=is_only)
    with bench() as made:
        sender, receiver = made.connect(), made.subscriber(b"x")
        receiver.send(b"UNSUB 1 1\r\n")
        sender.owner.trace = trace
        sender.send(2 * frame(ASKING[0]))
        assert receiver.payloads() == ([] if is_only else [b"hello"])
        assert receiver.link.out_msgs == (not is_only)
        assert len(receiver.link.subscriptions) == is_only
    egresses = [event for event in trace.told if event[0] == "egress"]
    assert len(egresses) == (2 if is_only else 1)


def test_a_refused_message_is_told_and_delivered_to_nobody() -> None:
    trace = RecordingTrace()
    with bench() as made:
        sender, receiver = made.connect(), made.subscriber(b">")
        sender.owner.trace = trace
        sender.send(frame(ASKING[0], reply=b"_R_.a"))
        assert sender.owner.violations() == ["reply"]
        assert receiver.payloads() == []
    assert trace.told == [("refused", "reply", b"_R_.a"), ("finished",)]


def test_one_that_is_too_large_is_reported_before_the_violation() -> None:
    with bench(max_payload=100) as made:
        sender = made.connect()
        sender.send(frame(ASKING[0], b"x" * 200))
        kinds = [event[0] for event in sender.owner.events]
        assert kinds == ["oversized", "violation"]


def test_sinks_get_traces_if_they_ask_for_them() -> None:
    trace = RecordingTrace()
    got: list[InboxMessage] = []
    asked: list[bytes] = []

    def take(one: RecordingTrace, subject: bytes) -> bool:
        asked.append(subject)
        return subject != b"x.no"

    with bench() as made:
        plain, asking = Inbox(made.hub, made.interest, got.extend), Inbox(made.hub, made.interest, got.extend)
        plain.subscribe(b"x.>", None, b"1")
        asking.tracer = take
        asking.subscribe(b"x.>", None, b"2")
        sender = made.connect()
        sender.owner.trace = trace
        sender.send(frame(ASKING[0], subject=b"x.yes") + frame(ASKING[0], subject=b"x.no"))
    assert [(one.subject, one.sid, one.trace) for one in sorted(got, key=lambda one: one.sid)] == [
        (b"x.yes", b"1", None),
        (b"x.no", b"1", None),
        (b"x.yes", b"2", trace),
    ]
    assert asked == [b"x.yes", b"x.no"]

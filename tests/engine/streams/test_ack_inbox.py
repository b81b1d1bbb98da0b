"""Acknowledgements: which are settled at once, and which are left to Python."""

from __future__ import annotations

from headrace.engine.streams.ack_inbox import AckInbox
from headrace.engine.streams.pending import Pending
from tests.engine.core.harness import Bench


def test_acks_are_read_from_their_subject(bench: Bench) -> None:
    got: list[tuple[int, int, int, bytes, bytes]] = []
    inbox = AckInbox(
        bench.hub, bench.interest, lambda acks, *_: got.extend(acks), lambda: False, Pending(), ()
    )
    inbox.subscribe(b"$JS.ACK.S.C.>", None, b"1")
    bench.connect().send(
        b"PUB $JS.ACK.S.C.1.22.333.1700000000000000000.7 0\r\n\r\n"
        b"PUB $JS.ACK.S.C.2.23.334.1700000000000000000.6 back 4\r\n-NAK\r\n"
        b"PUB $JS.ACK.S.C.2.x.334.1700000000000000000.6 4\r\n-NAK\r\n"
        b"PUB $JS.ACK.S.C.2 0\r\n\r\n"
        b"PUB $JS.ACK.S.C.2.24.335.1700000000000000000. 0\r\n\r\n"
        b"PUB $JS.ACK.S.C.2.24.335..6 0\r\n\r\n"
        b"PUB $JS.ACK.S.C..24.335.1700000000000000000.6 0\r\n\r\n"
        b"PUB $JS.ACK.S.C.18446744073709551615.18446744073709551614.3.4.5 0\r\n\r\n"
    )
    largest = 2**64 - 1
    assert got == [
        (22, 333, 1, b"", b""),
        (23, 334, 2, b"-NAK", b"back"),
        (largest - 1, 3, largest, b"", b""),
    ]


def ack(seq: int, consumer_seq: int, body: bytes = b"", reply: bytes = b"") -> bytes:
    subject = b"$JS.ACK.S.C.1.%d.%d.1700000000000000000.7" % (seq, consumer_seq)
    return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(body), body)


def test_plain_acks_of_pending_messages_are_settled_and_the_others_kept_in_order(bench: Bench) -> None:
    reports: list[tuple[list[bytes], int, int]] = []
    pending = Pending({seq: (seq - 10, 0) for seq in range(11, 31)})
    queue = {12: None, 13: None}

    def receive(acks: list[tuple[int, int, int, bytes, bytes]], settled: int, lowest: int) -> None:
        reports.append(([b"%d%b" % (seq, body) for seq, _, _, body, _ in acks], settled, lowest))

    allowed = [True, True, True, False]
    inbox = AckInbox(bench.hub, bench.interest, receive, lambda: allowed.pop(0), pending, (queue, {}))
    inbox.subscribe(b"$JS.ACK.S.C.>", None, b"1")
    client = bench.connect()
    client.send(ack(15, 5) + ack(12, 2, b"+ACK") + ack(14, 4, b"+OK"))
    assert reports.pop() == ([], 3, 2)
    assert queue == {13: None}
    client.send(ack(16, 6) + ack(17, 7, b"-NAK") + ack(17, 7) + ack(18, 8, b"+ACK "))
    assert reports.pop() == ([b"17-NAK", b"17", b"18+ACK "], 1, 6)
    client.send(ack(15, 5) + ack(19, 9) + ack(20, 10, reply=b"back"))  # one that is not pending any more
    assert reports.pop() == ([b"15", b"19", b"20"], 0, 6)
    client.send(ack(19, 9))
    assert reports.pop() == ([b"19"], 0, 6)
    assert list(pending) == [11, 13, *range(17, 31)]
    assert allowed == reports == []

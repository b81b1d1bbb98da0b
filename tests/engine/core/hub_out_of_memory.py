"""A hub whose allocations fail, for a process of its own: `python -m tests.engine.core.hub_out_of_memory`.

The same few ticks run again and again, and each time another allocation fails: the first, the second, and so
on until a run needs no more. Whoever was hit may lose its connection. Nobody else may notice, nothing may be
delivered that was not sent, and the hub goes on working.
"""

from __future__ import annotations

import _testcapi
import gc

from tests.engine.core.harness import Bench, Peer, RecordingOwner, bench, message
from tests.frames import read_frames

SMALL_SOCKET = 2048
MESSAGES = 40
PAYLOAD = b"%04d" + b"x" * 500  # as long as those that receivers share
POLLS = 6
FAILURES_IN_A_ROW = (1, 4)
MOST_ALLOCATIONS = 100_000


class Quiet(RecordingOwner):
    """Never raises because of memory itself: what is tested is the engine, and an owner logs at most."""

    def on_bug(self, error: Exception) -> None:
        if not isinstance(error, MemoryError):
            super().on_bug(error)


def connect(made: Bench, *lines: bytes) -> Peer:
    peer = made.connect(Quiet(), buffer_bytes=SMALL_SOCKET)
    peer.send(b"".join(line + b"\r\n" for line in lines))
    return peer


def run(first: int, many: int) -> bool:
    """One run; whether any allocation failed in it."""
    with bench() as made:
        receivers = [connect(made, b"SUB f.> %d" % (number // 2)) for number in range(6)]
        members = [connect(made, b"SUB f.* group 1", b"SUB q.%d other 2" % number) for number in range(3)]
        leaving = connect(made, b"SUB f.1 1", b"SUB f.1 group 2", b"SUB q.0 other 3")
        publisher = connect(made)
        made.settle()
        publisher.send_some(b"".join(message(b"f.1", PAYLOAD % number) for number in range(MESSAGES)))
        members[0].send_some(b"SUB new.one 7\r\nSUB new.two group 8\r\nUNSUB 2\r\nSUB new.*.x more 9\r\n")
        members[1].send_some(b"UNSUB 1\r\nSUB q.0 other 5\r\nSUB q.0 another 6\r\nPING\r\n")
        leaving.socket.close()
        failed = False
        polls = [made.hub.poll] * POLLS  # nothing but the hub allocates in the loop below
        gc.disable()
        _testcapi.set_nomemory(first, first + many)
        try:
            for poll in polls:
                try:
                    poll()
                except MemoryError:
                    failed = True
        except MemoryError:  # even handling the first one needs some
            failed = True
        _testcapi.remove_mem_hooks()
        gc.enable()
        gc.collect()
        made.settle()
        failed = failed or any(peer.owner.closed == "Internal Error" for peer in made.peers)
        check(made, receivers)
        return failed


def check(made: Bench, receivers: list[Peer]) -> None:
    expected = [PAYLOAD % number for number in range(MESSAGES)]
    for peer in receivers:
        frames, _ = read_frames(peer.receive_all())
        payloads = [frame.payload for frame in frames]
        assert payloads == expected[: len(payloads)], "delivered what was not sent, or not in order"
    still_open = [peer for peer in made.peers if not peer.link.closed]
    assert all(peer.owner.closed for peer in made.peers if peer.link.closed), "closed, and nobody was told"
    assert len(made.hub.links) == len(still_open)
    assert made.interest.count == sum(len(peer.link.subscriptions) for peer in still_open)
    for peer in still_open:
        peer.receive_all()
    subscriber, publisher = made.subscriber(b">"), made.connect()
    for subject in (b"f.1", b"q.0", b"q.1", b"q.2", b"new.one", b"new.two", b"new.a.x"):
        publisher.send(message(subject, b"later"))
        assert subscriber.payloads() == [b"later"]
    for peer in still_open:
        frames, _ = read_frames(peer.receive_all())
        assert all(frame.payload == b"later" for frame in frames)


def main() -> None:
    runs = failures = 0
    gc.freeze()  # each run collects what it made, and not all modules
    for many in FAILURES_IN_A_ROW:
        quiet_runs = 0
        for first in range(1, MOST_ALLOCATIONS):
            failed = run(first, many)
            runs, failures = runs + 1, failures + failed
            quiet_runs = 0 if failed else quiet_runs + 1
            if quiet_runs == 200:  # some failures are swallowed where they do no harm
                break
    assert failures
    print(f"{runs} runs with failing allocations, {failures} of them seen by somebody: all hubs went on")


if __name__ == "__main__":
    main()

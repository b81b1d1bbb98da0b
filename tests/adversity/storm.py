"""Everything that can happen to streams, at random, and a ledger of what must be true of them afterwards.

Messages are numbered, and a payload proves which number it is of and that it is whole. After each restart all
of every stream is read: what is there was stored, and what is not there is gone for ever.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any

from tests.adversity.recorder import Connection, is_whole, payload_of

SUBJECTS = 5
STREAMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "small": {"max_msgs_per_subject": 3, "compression": "s2", "allow_rollup_hdrs": True},
    "timed": {"allow_msg_ttl": True, "max_age": 3_000_000_000},
    "queue": {"retention": "workqueue"},
}
CONSUMERS = {"plain": "reader", "queue": "worker"}
MOST_KEPT = 400  # messages of a stream; then it is purged, so that reading it stays cheap


@dataclass
class Ledger:
    """Of one stream, by the numbers of its messages."""

    expires: bool = False  # its messages may be gone at any moment
    sure: dict[int, int] = field(default_factory=dict)  # acknowledged, and not removed: its sequence
    gone: set[int] = field(default_factory=set)  # it must not come back
    unanswered: set[int] = field(default_factory=set)  # published or removed, but we do not know whether
    delivered: set[int] = field(default_factory=set)  # to the consumer

    def doubt(self, numbers: list[int]) -> None:
        for number in numbers:
            if self.sure.pop(number, None) is not None:
                self.unanswered.add(number)

    def confirm_removed(self, numbers: list[int]) -> None:
        for number in numbers:
            self.unanswered.discard(number)
            self.gone.add(number)

    def check(self, found: dict[int, int]) -> None:
        lost = self.sure.keys() - found.keys()
        assert not lost, f"{len(lost)} acknowledged messages are lost: {sorted(lost)[:5]}"
        moved = {number for number, seq in self.sure.items() if found[number] != seq}
        assert not moved, f"messages have other sequences than acknowledged: {sorted(moved)[:5]}"
        back = self.gone & found.keys()
        assert not back, f"{len(back)} removed messages are back: {sorted(back)[:5]}"
        unknown = found.keys() - self.sure.keys() - self.unanswered
        assert not unknown, f"nobody published {sorted(unknown)[:5]}"

    def adopt(self, found: dict[int, int]) -> None:
        self.gone |= self.unanswered - found.keys()
        self.sure = {} if self.expires else dict(found)
        self.unanswered = set(found) if self.expires else set()


class Storm:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.ledgers = {name: Ledger(expires="max_age" in config) for name, config in STREAMS.items()}
        self.next_number = 1
        self.clock = 0
        self.sent: dict[int, int] = {}  # when each number was last published
        self.with_id: dict[int, str] = {}  # unanswered publishes that have an id, and their stream
        self.acknowledgements = 0
        self.operations: dict[str, int] = {}

    # -- before and after ---------------------------------------------------------------------------------

    def create(self, connection: Connection) -> None:
        for name, config in STREAMS.items():
            whole = {"name": name, "subjects": [f"{name}.*"], "allow_direct": True, **config}
            answer = connection.request(f"$JS.API.STREAM.CREATE.{name}", whole)
            assert "error" not in answer, answer
        for stream, consumer in CONSUMERS.items():
            settings = {"durable_name": consumer, "ack_policy": "explicit", "ack_wait": 1_000_000_000}
            request = {"stream_name": stream, "config": settings}
            answer = connection.request(f"$JS.API.CONSUMER.CREATE.{stream}.{consumer}", request)
            assert "error" not in answer, answer

    def check(self, connection: Connection) -> None:
        """After a restart."""
        self._update_plain(connection, -1)  # it may have been killed between two updates
        for name, ledger in self.ledgers.items():
            found = self.read(connection, name)
            ledger.check(found)
            ledger.adopt(found)
        for number, stream in list(self.with_id.items()):
            self._publish_again(connection, number, stream)

    def _publish_again(self, connection: Connection, number: int, stream: str) -> None:
        """Its acknowledgement was lost: sent again with its id, it is there once, unless it was removed."""
        ledger = self.ledgers[stream]
        ledger.unanswered.add(number)
        answer = connection.request(*self._message(stream, number), headers=f"Nats-Msg-Id: {number}")
        del self.with_id[number]
        if "error" in answer:
            return
        known = ledger.sure.get(number)
        assert known is None or answer.get("duplicate"), f"{number} is there twice"
        assert known in (None, answer["seq"])
        ledger.gone.discard(number)
        if not answer.get("duplicate") and not ledger.expires:
            ledger.unanswered.discard(number)
            ledger.sure[number] = answer["seq"]
        self._doubt_what_limits_remove(stream)

    @staticmethod
    def read(connection: Connection, name: str) -> dict[int, int]:
        """All messages of a stream: the sequence of each number."""
        found: dict[int, int] = {}
        state = connection.request(f"$JS.API.STREAM.INFO.{name}")["state"]
        following = state["first_seq"]
        while len(found) < state["messages"]:
            batch = connection.request_batch(f"$JS.API.DIRECT.GET.{name}", {"seq": following, "batch": 200})
            for subject, seq, payload in batch:
                number = int(payload.partition(b" ")[0])
                assert is_whole(payload), f"message {seq} is altered"
                assert subject == f"{name}.{number % SUBJECTS}", f"message {seq} has another subject"
                assert number not in found, f"{number} is there twice"
                assert seq >= following, "out of order"
                found[number] = seq
                following = seq + 1
            if not batch:
                break  # some have expired meanwhile
        return found

    # -- meanwhile ----------------------------------------------------------------------------------------

    def blow(self, connection: Connection, operations: int) -> None:
        """This many operations, one after another, or until the server is gone."""
        for _ in range(operations):
            name = self.chance.choice(list(STREAMS))
            acts = [self.publish] * 4 + [self.delete, self.purge, self.update, self.consume, self.roll_up]
            act = self.chance.choice(acts)
            self.operations[act.__name__] = self.operations.get(act.__name__, 0) + 1
            act(connection, name)

    def _message(self, stream: str, number: int) -> tuple[str, bytes]:
        self.clock += 1
        self.sent[number] = self.clock
        return f"{stream}.{number % SUBJECTS}", payload_of(number)

    def publish(self, connection: Connection, name: str) -> None:
        """A burst, with acknowledgements; some have an id, some expire."""
        ledger = self.ledgers[name]
        if len(ledger.sure) > MOST_KEPT:
            self.purge(connection, name)
        burst = range(self.next_number, self.next_number + self.chance.randrange(1, 40))
        self.next_number = burst.stop
        ledger.unanswered.update(burst)
        with_ids, timed = self.chance.random() < 0.5, name == "timed" and self.chance.random() < 0.5
        lines = ["Nats-TTL: 1s"] if timed else []
        messages = []
        for number in burst:
            block = [*lines, f"Nats-Msg-Id: {number}"] if with_ids else lines
            messages.append((*self._message(name, number), "\r\n".join(block)))
            if with_ids:
                self.with_id[number] = name
        try:
            for number, answer in connection.publish_burst(messages, burst.start):
                self._acknowledged(ledger, number, answer)
        finally:
            self._doubt_what_limits_remove(name)

    def _acknowledged(self, ledger: Ledger, number: int, answer: dict[str, Any]) -> None:
        assert "error" not in answer, answer
        assert not answer.get("duplicate"), answer
        self.acknowledgements += 1
        self.with_id.pop(number, None)
        if not ledger.expires:
            ledger.unanswered.discard(number)
            ledger.sure[number] = answer["seq"]

    def _doubt_what_limits_remove(self, name: str) -> None:
        """Three messages of each subject stay; those that were perhaps stored count, too."""
        if name != "small":
            return
        ledger = self.ledgers[name]
        for place in range(SUBJECTS):
            numbers = {*ledger.sure, *ledger.unanswered}
            of_subject = [number for number in numbers if number % SUBJECTS == place]
            ledger.doubt(sorted(of_subject, key=self.sent.__getitem__)[:-3])

    def delete(self, connection: Connection, name: str) -> None:
        ledger = self.ledgers[name]
        if not ledger.sure:
            return
        number = self.chance.choice(list(ledger.sure))
        request = {"seq": ledger.sure[number], "no_erase": self.chance.random() < 0.5}
        ledger.doubt([number])
        answer = connection.request(f"$JS.API.STREAM.MSG.DELETE.{name}", request)
        if answer.get("success"):
            ledger.confirm_removed([number])

    def purge(self, connection: Connection, name: str) -> None:
        ledger = self.ledgers[name]
        place = self.chance.randrange(SUBJECTS)
        numbers = sorted(ledger.sure)
        request: dict[str, Any] = {}
        kind = self.chance.randrange(4)
        if kind == 1:
            request["filter"] = f"{name}.{place}"
            numbers = [number for number in numbers if number % SUBJECTS == place]
        elif kind == 2 and numbers:
            request["keep"] = self.chance.randrange(1, 20)
            numbers = numbers[: -request["keep"]]
        elif kind == 3 and numbers:
            middle = self.chance.choice(numbers)
            request["seq"] = ledger.sure[middle]
            numbers = [number for number in numbers if ledger.sure[number] < request["seq"]]
        ledger.doubt(numbers)
        answer = connection.request(f"$JS.API.STREAM.PURGE.{name}", request)
        if answer.get("success"):
            ledger.confirm_removed(numbers)

    def update(self, connection: Connection, name: str) -> None:
        """Compression on and off, and a limit that removes messages at once."""
        if name != "plain":
            return
        ledger = self.ledgers[name]
        most = self.chance.choice([50, 100])
        ledger.doubt(sorted(ledger.sure)[:-most])
        self._update_plain(connection, most)
        self._update_plain(connection, -1)

    def _update_plain(self, connection: Connection, most: int) -> None:
        config = {
            "name": "plain",
            "subjects": ["plain.*"],
            "allow_direct": True,
            "compression": self.chance.choice(["none", "s2"]),
            "max_msgs": most,
        }
        answer = connection.request("$JS.API.STREAM.UPDATE.plain", config)
        assert "error" not in answer, answer

    def roll_up(self, connection: Connection, name: str) -> None:
        if name != "small":
            return
        ledger, number = self.ledgers[name], self.next_number
        self.next_number += 1
        which = self.chance.choice(["sub", "all"])
        old = [n for n in ledger.sure if which == "all" or n % SUBJECTS == number % SUBJECTS]
        ledger.doubt(old)
        ledger.unanswered.add(number)
        answer = connection.request(*self._message(name, number), headers=f"Nats-Rollup: {which}")
        assert "error" not in answer, answer
        self.acknowledgements += 1
        ledger.confirm_removed(old)
        ledger.unanswered.discard(number)
        ledger.sure[number] = answer["seq"]

    def consume(self, connection: Connection, name: str) -> None:
        if name not in CONSUMERS:
            return
        ledger = self.ledgers[name]
        fetched = connection.fetch(name, CONSUMERS[name], self.chance.randrange(1, 50))
        for _, payload, reply in fetched:
            number = int(payload.partition(b" ")[0])
            ledger.delivered.add(number)
            if name == "queue":
                ledger.doubt([number])
            connection.send(b"PUB %b 4\r\n+ACK\r\n" % reply)

    def check_consumers(self, connection: Connection) -> None:
        """At the very end: nothing was skipped."""
        for name, consumer in CONSUMERS.items():
            while True:
                state = connection.request(f"$JS.API.CONSUMER.INFO.{name}.{consumer}")
                if not state["num_pending"] and not state["num_ack_pending"]:
                    break
                self.consume(connection, name)
                time.sleep(0.05)  # what was not acknowledged in time comes again
            skipped = self.ledgers[name].sure.keys() - self.ledgers[name].delivered
            assert not skipped, f"{consumer} never got {sorted(skipped)[:5]}"

"""Acknowledgements, as they come in from clients: a batch per tick.

The body says what kind it is: nothing or `+ACK`, `-NAK` with a delay, `+WPI` (still working), `+TERM` with
a reason, `+NXT` with a pull request. One that has a reply subject is answered there with an empty message,
once it is done.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from headrace.config.durations import parse_duration
from headrace.go_formats import NANOSECONDS
from headrace.streams.api.json_requests import unmarshal
from headrace.streams.config import Wire
from headrace.streams.consumers import max_ack_pending
from headrace.streams.consumers.core import Core
from headrace.streams.consumers.rules import sampling_percent
from headrace.streams.errors import ApiError
from headrace.streams.slices import STEP_RECORDS
from headrace.streams.wire_types import Duration

ACK = (b"", b"+ACK", b"+OK")
NAK, PROGRESS, TERM, NEXT = b"-NAK", b"+WPI", b"+TERM", b"+NXT"

Ack = tuple[int, int, int, bytes, bytes]
"""Stream sequence, consumer sequence, deliveries, body, reply."""


class NakOptions(Wire):
    go_name = "ConsumerNakOptions"
    delay: Duration = 0


class Acks:
    def __init__(
        self,
        core: Core,
        *,
        pump: Callable[[], None],
        pull: Callable[[bytes, bytes], None],
        is_closed: Callable[[], bool],
    ) -> None:
        self._core = core
        self._is_closed = is_closed
        self._pump = pump
        self._pull = pull

    def are_plain(self) -> bool:
        """Whether all that an acknowledgement does is to remove a message from the ledger."""
        core = self._core
        return core.config.ack_policy == "explicit" and core.acknowledged is None and not self._sampled()

    def on_acks(self, acks: list[Ack], settled: int, lowest: int) -> None:
        """The acknowledgements of a tick. Settled ones have already left the ledger, see AckInbox."""
        core, ledger = self._core, self._core.ledger
        was_full, queued = max_ack_pending.is_reached(core, settled), len(ledger.queue)
        if settled:
            ledger.move_floor(lowest)
            ledger.last_ack = core.now()
        for seq, consumer_seq, deliveries, body, reply in acks:
            self._handle(seq, consumer_seq, deliveries, body, reply)
        core.changed()
        if was_full or len(ledger.queue) > queued:
            self._pump()

    def _handle(self, seq: int, consumer_seq: int, deliveries: int, body: bytes, reply: bytes) -> None:
        answered = True
        if body in ACK:
            self._sample(seq, consumer_seq, deliveries)
            answered = self.acknowledge(seq, consumer_seq, reply)
        elif body.startswith(NEXT):
            self._sample(seq, consumer_seq, deliveries)
            self.acknowledge(seq, consumer_seq)
            self._pull(reply, body[len(NEXT) :])
            return
        elif body.startswith(NAK):
            self._refuse(seq, consumer_seq, deliveries, body[len(NAK) :].strip())
        elif body == PROGRESS:
            self._core.ledger.renew(seq, self._core.now())
        elif body.startswith(TERM):
            answered = self.acknowledge(seq, consumer_seq, reply)
            reason = body[len(TERM) :].strip().decode("utf-8", "replace")
            self._core.advisories.terminated(seq, consumer_seq, deliveries, reason)
        if answered and reply and seq:
            self._core.client.publish(reply)

    def acknowledge(self, seq: int, consumer_seq: int, reply: bytes = b"") -> bool:
        """Returns False if the message was never delivered; then there is no answer.

        It may acknowledge very many messages before it, in several steps. Then it returns False, too, and
        the last step answers.
        """
        core, ledger = self._core, self._core.ledger
        if seq >= core.cursor.next_seq and not core.config.flow_control:
            return False
        if core.config.ack_policy == "explicit":
            # Like `_done_with`, but inlined: most acknowledgements go through here.
            ledger.acknowledge(seq)
            ledger.last_ack = core.now()
            if core.acknowledged is not None:
                core.acknowledged(seq)
        elif not self._acknowledge_some(seq, consumer_seq):
            self._acknowledge_rest(seq, consumer_seq, reply)
            return False
        return True

    def _acknowledge_some(self, seq: int, consumer_seq: int) -> bool:
        """Acknowledge some of the messages up to this one. Returns whether those were all."""
        ledger = self._core.ledger
        floor_consumer, floor_stream = ledger.floor
        if consumer_seq <= floor_consumer or seq <= floor_stream:
            return True
        done = ledger.acknowledge_up_to(seq, consumer_seq, STEP_RECORDS)
        self._done_with(done or [seq])
        return len(done) < STEP_RECORDS

    def _acknowledge_rest(self, seq: int, consumer_seq: int, reply: bytes) -> None:
        core = self._core
        starts = core.ledger.starts

        def step() -> bool:
            if self._is_closed() or core.ledger.starts != starts:
                return True
            is_done = self._acknowledge_some(seq, consumer_seq)
            if is_done and reply:
                core.client.publish(reply)
            core.changed()
            self._pump()
            core.flush_soon()
            return is_done

        core.slices.add(step)

    def _done_with(self, seqs: list[int]) -> None:
        core = self._core
        core.ledger.last_ack = core.now()
        if core.acknowledged is not None:
            for seq in seqs:
                core.acknowledged(seq)

    def _refuse(self, seq: int, consumer_seq: int, deliveries: int, argument: bytes) -> None:
        core, ledger = self._core, self._core.ledger
        is_known = ledger.floor[0] < consumer_seq <= core.cursor.delivered_seq + 1
        if not is_known or seq not in ledger.pending:
            return
        core.advisories.refused(seq, consumer_seq, deliveries)
        delay = self._delay(argument) if argument else None
        if delay is None:
            ledger.delayed.pop(seq, None)
            ledger.queue.setdefault(seq)
        else:
            due = core.now() + delay
            ledger.delay(seq, due)
            core.alarm.advance("acks", due)

    def _delay(self, argument: bytes) -> int | None:
        """In nanoseconds. None, for a plain NAK, if it is not a valid duration."""
        try:
            if argument.startswith(b"{"):
                return unmarshal(argument, NakOptions).delay
            return round(parse_duration(argument.decode()) * NANOSECONDS)
        except (ApiError, ValueError):
            name = f"{self._core.account} > {self._core.stream} > {self._core.name}"
            self._core.warn(f"JetStream consumer '{name}' bad NAK delay value: {argument!r}")
            return None

    def _sampled(self) -> int:
        return sampling_percent(self._core.config.sample_freq) or 0 if self._core.config.sample_freq else 0

    def _sample(self, seq: int, consumer_seq: int, deliveries: int) -> None:
        percent = self._sampled()
        entry = self._core.ledger.pending.get(seq)
        if entry is None or percent <= 0 or self._core.config.ack_policy != "explicit":
            return
        if percent >= 100 or random.randrange(100) <= percent:
            delay = self._core.now() - entry[1]
            self._core.advisories.acknowledged(seq, consumer_seq, deliveries, delay)

"""Push delivery: messages are sent to a subject as long as somebody subscribes to it.

What holds a message back: nobody listens, the consumer is paused, too many are unacknowledged, flow
control, the rate limit, the original timing. Each of them calls `pump` when it is over.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.streams import headers as header_block
from headrace.streams.consumers import max_ack_pending
from headrace.streams.consumers.acknowledgements import Acks
from headrace.streams.consumers.core import Core
from headrace.streams.consumers.flow_control import FlowControl
from headrace.streams.consumers.heartbeats import schedule_heartbeat, send_heartbeat
from headrace.streams.consumers.next_message import Replay, Upcoming
from headrace.streams.consumers.pause import is_paused
from headrace.streams.consumers.rate_limit import RateLimit

FLOW_CONTROL_REQUEST = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
MOST_DIGITS = 18


class PushDelivery:
    def __init__(self, core: Core, upcoming: Upcoming, replay: Replay, *, burst: int) -> None:
        self._core = core
        self._upcoming = upcoming
        self._replay = replay
        self._burst = burst
        self.is_active = False
        self.on_active: Callable[[bool], None] = lambda is_active: None
        """Called when the deliver subject gains or loses its subscribers."""
        self.flow = FlowControl(core.stream, core.name) if core.config.flow_control else None
        self._rate: RateLimit | None = None
        self.configure()

    def configure(self) -> None:
        """The configuration has changed."""
        bits = self._core.config.rate_limit_bps
        self._rate = RateLimit(bits, self._burst, self._core.now()) if bits else None
        self._subject = self._core.config.deliver_subject.encode()

    def start(self) -> None:
        self._core.client.watch_interest(self._subject, self._on_interest)
        self.is_active = self._has_interest()
        schedule_heartbeat(self._core)

    def stop(self) -> None:
        self._core.client.unwatch_interest(self._subject, self._on_interest)
        self.is_active = False

    def _has_interest(self) -> bool:
        return self._core.client.has_subscriber(self._subject, self._core.config.deliver_group.encode())

    def _on_interest(self, _has_any: bool) -> None:
        self._look_for_subscribers()
        if self.is_active:
            self.pump()

    def _look_for_subscribers(self) -> None:
        was_active, self.is_active = self.is_active, self._has_interest()
        if self.is_active != was_active:
            self.on_active(self.is_active)

    def pump(self) -> None:
        """Deliver as much as can be."""
        delivered = False
        try:
            while self._step():
                delivered = True
        except (OSError, MemoryError):  # the log cannot be read at present, and has said so
            self._core.try_again_later()
        if delivered:
            schedule_heartbeat(self._core)

    def _step(self) -> bool:
        """Deliver something. Returns False if nothing can be delivered now."""
        core, upcoming = self._core, self._upcoming
        if not self.is_active or is_paused(core) or (self.flow is not None and self.flow.is_stalled):
            return False
        single = upcoming.next_single()
        if not single and (
            max_ack_pending.room(core) <= 0 or core.cursor.num_pending <= 0 or self._replay.must_wait()
        ):
            return False
        budget = self._budget()
        if budget < 0:
            return False
        if single:
            size = upcoming.deliver_single(single, self._subject)
            messages = 1 if size else 0
        else:
            messages, size = self._deliver_batch(budget)
        self._replay.note_delivery()
        if core.cursor.unwanted:
            self._look_for_subscribers()
            return False
        self._note(messages, size)
        return messages > 0 and not core.cursor.blocked

    def _budget(self) -> int:
        """Bytes for the next batch, 0 for no limit, -1 for not now."""
        budgets = [] if self.flow is None else [max(1, self.flow.budget)]
        if self._rate is not None:
            tokens = self._rate.budget(self._core.now())
            if tokens <= 0:
                self._core.alarm.set("rate", self._core.now() + self._rate.wait)
                return -1
            budgets.append(tokens)
        return min(budgets, default=0)

    def _deliver_batch(self, budget: int) -> tuple[int, int]:
        upcoming = self._upcoming
        count = 1 if self._replay.is_active else max_ack_pending.room(self._core)
        messages, size = upcoming.deliver_batch(self._subject, count, budget)
        if not messages and self._core.cursor.exceeded:
            return upcoming.deliver_batch(self._subject, 1)
        return messages, size

    def _note(self, messages: int, size: int) -> None:
        if self._rate is not None:
            self._rate.note(size)
        if self.flow is not None and messages:
            self.flow.note(size)
            if self.flow.needs_request or self._must_ask_for_acks():
                self._ask()

    def _must_ask_for_acks(self) -> bool:
        """With the ack policy `flow_control`, answers to flow control requests are the acknowledgements."""
        flow = self.flow
        is_used = flow is not None and not flow.request and self._core.config.ack_policy == "flow_control"
        return is_used and max_ack_pending.is_reached(self._core)

    def _ask(self) -> None:
        assert self.flow is not None
        self._core.send_status(self._subject, FLOW_CONTROL_REQUEST, reply=self.flow.make_request().encode())

    def on_flow_control(self, subject: bytes, headers: bytes, acks: Acks) -> None:
        """The client has answered a request."""
        if self.flow is None or not self.flow.confirm(subject.decode()):
            return
        if self._core.config.ack_policy == "flow_control":
            stream_seq = _sequence_in(headers, b"Nats-Last-Stream")
            if stream_seq:
                consumer_seq, ledger = _sequence_in(headers, b"Nats-Last-Consumer"), self._core.ledger
                acks.acknowledge(
                    min(stream_seq, ledger.delivered_stream), min(consumer_seq, ledger.delivered_consumer)
                )
                self._core.changed()
        self.pump()

    def beat(self) -> None:
        """Nothing was delivered for the duration of a heartbeat."""
        core = self._core
        if self.is_active:
            stalled = self.flow.request if self.flow is not None else ""
            send_heartbeat(core, self._subject, stalled)
            if core.config.ack_policy == "flow_control" and core.ledger.pending and not stalled:
                self._ask()
        schedule_heartbeat(self._core)


def _sequence_in(headers: bytes, name: bytes) -> int:
    """The value of a header that a client has written; 0 if it cannot be a sequence."""
    digits = header_block.text(headers, name)
    return int(digits) if digits.isdigit() and len(digits) <= MOST_DIGITS else 0

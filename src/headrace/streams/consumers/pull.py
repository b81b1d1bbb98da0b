"""Pull delivery: requests wait in a queue, and messages are delivered to them in turn.

`pump` is the one place that delivers; it runs when a request arrives, when messages are committed, when
something must be redelivered, and when a full receiver has room again. A request ends with a
status message: 408 when it expires, 404 if it does not wait, 409 when the next message is too large for it
or its batch is done with bytes left. If the log cannot be read, requests wait until it can.
"""

from __future__ import annotations

from headrace.streams.consumers import max_ack_pending
from headrace.streams.consumers.core import Core, status, status_with_rest
from headrace.streams.consumers.heartbeats import send_heartbeat
from headrace.streams.consumers.next_message import Replay, Upcoming
from headrace.streams.consumers.pause import is_paused
from headrace.streams.consumers.priority_groups import PASS_OVER, SERVE, WRONG_PIN, Pins, overflows
from headrace.streams.consumers.pull_queue import PullQueue
from headrace.streams.consumers.pull_request import BadPull, PullRequest, check_limits, parse_request

SECOND = 1_000_000_000
GATHERING_TIME = 1_000_000
"""Nanoseconds that a prioritized request waits for others, because clients send theirs one by one."""
MANY_MESSAGES = 64
TURN = 16
"""Requests take turns message by message; if many messages are pending for each of them, in larger steps."""


class PullDelivery:
    def __init__(self, core: Core, upcoming: Upcoming, replay: Replay) -> None:
        self._core = core
        self._upcoming = upcoming
        self._replay = replay
        config = core.config
        self.queue = PullQueue(config.max_waiting, prioritized=config.priority_policy == "prioritized")
        self.queue.last_active = core.now()
        self.pins = Pins(core)
        self._last_expiry = 0
        self._is_scheduled = False

    @property
    def num_waiting(self) -> int:
        if self.queue:
            self.expire(end_of_stream=False)
        return len(self.queue)

    def on_request(self, reply: bytes, payload: bytes) -> None:
        """A request from the wire. One that cannot be served is answered at once."""
        core = self._core
        now = core.now()
        try:
            request = parse_request(reply, payload, now)
            check_limits(request, core.config)
            self.pins.check(request)
            if self.queue.is_full and now - self._last_expiry > SECOND:
                self.expire(end_of_stream=False)
            if request.no_wait:
                self._check_no_wait(request, now)
        except BadPull as refusal:
            core.send_status(reply, status(refusal.code, refusal.description))
            return
        if self.queue.is_full:
            # a client that expects heartbeats will notice; telling it would make it ask again at once
            if not request.heartbeat:
                core.send_status(reply, status(409, "Exceeded MaxWaiting"))
            return
        if not core.client.has_interest(reply):
            return  # nobody would receive the answer
        self.queue.add(request)
        if request.due:
            core.alarm.advance("pull", request.due)
        # requests that came together are served together: their priorities decide, not their order
        if self.queue.prioritized:
            core.alarm.advance("serve", now + GATHERING_TIME)
        elif not self._is_scheduled:
            self._is_scheduled = True
            core.later(self._pump_later)

    def _pump_later(self) -> None:
        self._is_scheduled = False
        self.pump()

    def _check_no_wait(self, request: PullRequest, now: int) -> None:
        waiting = self._upcoming.num_pending + len(self._core.ledger.queue)
        if waiting == 0 and not request.expires:
            self.queue.last_active = now
            raise BadPull(404, "No Messages")
        if waiting > 0:
            self.expire(end_of_stream=False)
            if waiting < self.queue.wanted:
                self.queue.last_active = now
                raise BadPull(408, "Requests Pending")

    def pump(self) -> None:
        """Deliver as much as can be."""
        self._pump()

    def on_due(self) -> None:
        """A request expires, or a heartbeat is due.

        As in nats-server, requests that do not wait end now, even those that max_ack_pending holds up, but
        not before what is available for them has been delivered.
        """
        is_gathering = self._core.alarm.when("serve") is not None
        is_served = not is_gathering and self._pump() is not None
        self.expire(end_of_stream=is_served)

    def _pump(self) -> bool | None:
        """Returns the result of _serve; None also if the log cannot be read."""
        try:
            end_of_stream = self._serve()
        except (OSError, MemoryError):  # the log cannot be read at present, and has said so
            self._core.try_again_later()
            self._end_impatient()
            return None
        if end_of_stream is not None and any(request.no_wait for request in self.queue):
            self.expire(end_of_stream=end_of_stream)
        return end_of_stream

    def _serve(self) -> bool | None:
        """True: nothing is left to deliver; False: something is, but must wait; None: continues later."""
        core, upcoming = self._core, self._upcoming
        while len(self.queue):
            if is_paused(core):
                return True
            single = upcoming.next_single()
            if not single:
                if max_ack_pending.room(core) <= 0:
                    return False
                if core.cursor.num_pending <= 0:
                    return True
                if self._replay.must_wait():
                    return None
            request = self._choose(is_new=not single)
            if request is None:
                return True
            if single:
                size = upcoming.deliver_single(single, request.reply, request.max_bytes, self.pins.headers)
                messages = 1 if size else 0
            else:
                count = min(self._turn(request), max_ack_pending.room(core))
                messages, size = upcoming.deliver_batch(
                    request.reply, count, request.max_bytes, self.pins.headers
                )
            self._replay.note_delivery()
            self._account(request, messages, size)
            if core.cursor.blocked:
                return None
            if not messages and not core.cursor.exceeded and not core.cursor.unwanted:
                return True
        return True

    def _turn(self, request: PullRequest) -> int:
        """How many messages the request may get before it is another one's turn."""
        if self._replay.is_active or self._core.config.priority_policy == "overflow":
            return 1
        wanted, rivals = max(1, request.batch), self.queue.rivals
        if rivals == 1:
            return wanted
        if self._core.cursor.num_pending <= rivals * MANY_MESSAGES:
            return 1
        # A client that keeps two pulls in flight: steps of TURN took a third of the server's time.
        return wanted if self.queue.has_one_receiver else min(wanted, TURN)

    def _choose(self, *, is_new: bool) -> PullRequest | None:
        """The request whose turn it is, now at the head. Requests that can no longer be served are ended."""
        core, queue = self._core, self.queue
        now, passed = core.now(), 0
        num_pending = self._upcoming.num_pending + (0 if is_new else 1)
        while (request := queue.head) is not None:
            if request.expires and now >= request.expires:
                self._end(request, 408, "Request Timeout")
                continue
            verdict = self.pins.judge(request)
            if verdict == WRONG_PIN:
                self._end(request, 423, "Nats-Wrong-Pin-Id")
                continue
            if verdict == SERVE and core.config.priority_policy == "overflow":
                verdict = SERVE if overflows(request, num_pending, len(core.ledger.pending)) else PASS_OVER
            if verdict == PASS_OVER:
                queue.pass_over()
                passed += 1
                if passed >= len(queue):
                    return None
                continue
            if core.client.has_interest(request.reply):
                return request
            self.pins.release(request)
            queue.drop_head()
        return None

    def _account(self, request: PullRequest, messages: int, size: int) -> None:
        """Account for what the head of the queue received. Returns whether it is done."""
        core, queue = self._core, self.queue
        if core.cursor.unwanted:
            self.pins.release(request)
            queue.drop_head()
            return
        if not messages:
            if core.cursor.exceeded:
                self.pins.release(request)
                self._end(request, 409, "Message Size Exceeds MaxBytes")
            return
        self.pins.settle()
        now = core.now()
        queue.last_active = now
        request.batch -= messages
        request.delivered += messages
        is_done = request.batch <= 0
        if request.max_bytes > 0:
            request.max_bytes -= size
            if is_done and request.max_bytes > 0:
                self._end(request, 409, "Batch Completed")
                return
            is_done = is_done or request.max_bytes <= 0
        if is_done:
            queue.drop_head()
            return
        if request.heartbeat:
            request.heartbeat_due = now + request.heartbeat
        queue.rotate()

    def _end(self, request: PullRequest, code: int, description: str) -> None:
        """End the request at the head of the queue."""
        self.queue.drop_head()
        headers = status_with_rest(code, description, request.batch, request.max_bytes)
        self._core.send_status(request.reply, headers)

    def expire(self, *, end_of_stream: bool) -> None:
        """End requests that are expired, do not wait, or have no listener; send heartbeats; set the alarm."""
        core, kept = self._core, []
        now = self._last_expiry = core.now()
        due = 0
        for request in self.queue:
            if request.expires and now >= request.expires:
                rest = status_with_rest(408, "Request Timeout", request.batch, request.max_bytes)
                core.send_status(request.reply, rest)
            elif end_of_stream and request.no_wait and (not request.expires or request.delivered):
                core.send_status(request.reply, status(404, "No Messages"))
            elif core.client.has_interest(request.reply):
                self._beat(request, now)
                kept.append(request)
                due = min(due, request.due) if due and request.due else due or request.due
        self.queue.retain(kept)
        if due:
            core.alarm.set("pull", due)

    def _end_impatient(self) -> None:
        """Answer requests that do not wait and never expire, even while the log cannot be read."""
        kept = []
        for request in self.queue:
            if request.no_wait and not request.expires:
                rest = status_with_rest(408, "Request Timeout", request.batch, request.max_bytes)
                self._core.send_status(request.reply, rest)
            else:
                kept.append(request)
        self.queue.retain(kept)

    def _beat(self, request: PullRequest, now: int) -> None:
        if request.heartbeat and now >= request.heartbeat_due:
            send_heartbeat(self._core, request.reply)
            request.heartbeat_due = now + request.heartbeat

    def release_all(self, *, deleted: bool) -> None:
        """The consumer is deleted, or the server stops."""
        for request in self.queue:
            rest = status_with_rest(409, "Server Shutdown", request.batch, request.max_bytes)
            headers = status(409, "Consumer Deleted") if deleted else rest
            self._core.send_status(request.reply, headers)
        self.queue.clear()

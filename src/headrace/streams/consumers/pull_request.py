"""A pull request: what its body asks for, and whether the consumer's limits allow it.

The body is empty (one message), a number of messages, or JSON. Anything else counts as one message.
"""

from __future__ import annotations

import re

import msgspec

from headrace.config.durations import format_duration
from headrace.go_formats import NANOSECONDS
from headrace.streams.api.json_requests import PREFIX, unmarshal
from headrace.streams.config import ConsumerConfig, Wire
from headrace.streams.errors import ApiError
from headrace.streams.wire_types import Duration, Int, Int64
from headrace.unreadable import UNREADABLE_JSON

NUMBER = re.compile(rb"[+-]?\d{1,18}")


class PullBody(Wire):
    """The wire's field names. Priority fields belong to consumers with a priority policy."""

    go_name = "JSApiConsumerGetNextRequest"
    expires: Duration = 0
    batch: Int = 0
    max_bytes: Int = 0
    no_wait: bool = False
    idle_heartbeat: Duration = 0
    group: str = ""
    min_pending: Int64 = 0
    min_ack_pending: Int64 = 0
    id: str = ""
    priority: Int = 0


class BadPull(Exception):
    """The request is answered with this status and forgotten."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.description = description


_DECODER = msgspec.json.Decoder(PullBody)


class PullRequest:
    """A waiting request: what it may still receive, and until when."""

    __slots__ = (
        "batch",
        "delivered",
        "expires",
        "group",
        "has_priority",
        "heartbeat",
        "heartbeat_due",
        "max_bytes",
        "min_ack_pending",
        "min_pending",
        "no_wait",
        "pin_id",
        "priority",
        "received",
        "reply",
    )

    def __init__(self, reply: bytes, body: PullBody, now: int, *, has_priority: bool) -> None:
        self.reply = reply
        self.received = now
        self.batch = body.batch
        self.delivered = 0
        self.max_bytes = body.max_bytes
        self.no_wait = body.no_wait
        self.expires = now + body.expires if body.expires else 0
        self.heartbeat = max(body.idle_heartbeat, 0)
        self.heartbeat_due = now + self.heartbeat if self.heartbeat else 0
        self.has_priority = has_priority  # only a request in JSON can have a priority
        self.group = body.group
        self.pin_id = body.id
        self.priority = body.priority
        self.min_pending = body.min_pending
        self.min_ack_pending = body.min_ack_pending

    @property
    def due(self) -> int:
        """When it must be checked again, for its heartbeat or its end. 0: never."""
        if self.expires and self.heartbeat_due:
            return min(self.expires, self.heartbeat_due)
        return self.expires or self.heartbeat_due


def parse_request(reply: bytes, payload: bytes, now: int) -> PullRequest:
    """Raises BadPull for invalid JSON, or a request that cannot be served."""
    text = payload.strip()
    if text[:1] == b"{":
        body = _decode(text)
        if body.idle_heartbeat > 0 and body.idle_heartbeat * 2 > body.expires:
            raise BadPull(400, "Bad Request - heartbeat value too large")
        return PullRequest(reply, body, now, has_priority=True)
    count = int(text) if NUMBER.fullmatch(text) else 1
    return PullRequest(reply, PullBody(batch=count), now, has_priority=False)


def _decode(text: bytes) -> PullBody:
    try:
        body = _DECODER.decode(text)
        if _fits(body):
            return body
    except UNREADABLE_JSON:
        pass  # Go may accept what msgspec refuses; if not, it has its own error
    try:
        return unmarshal(text, PullBody)
    except ApiError as error:
        reason = error.description.removeprefix(PREFIX).replace(f"field {PullBody.go_name}.", "field .")
        raise BadPull(400, f"Bad Request - {reason}") from error


def _fits(body: PullBody) -> bool:
    """Whether its numbers certainly fit into 64 bits. msgspec accepts integers of any size."""
    numbers = (
        body.expires,
        body.batch,
        body.max_bytes,
        body.idle_heartbeat,
        body.min_pending,
        body.min_ack_pending,
        body.priority,
    )
    return max(numbers) < 1 << 63 and min(numbers) > -1 << 63


def check_limits(request: PullRequest, config: ConsumerConfig) -> None:
    """Raises BadPull if it exceeds the consumer's limits, or asks for priorities that it does not have."""
    if 0 < config.max_batch < request.batch:
        raise BadPull(409, f"Exceeded MaxRequestBatch of {config.max_batch}")
    if request.expires and 0 < config.max_expires < request.expires - request.received:
        longest = format_duration(config.max_expires / NANOSECONDS)
        raise BadPull(409, f"Exceeded MaxRequestExpires of {longest}")
    if 0 < config.max_bytes < request.max_bytes:
        raise BadPull(409, f"Exceeded MaxRequestMaxBytes of {config.max_bytes}")
    if request.has_priority:
        _check_priority(request, config)


def _check_priority(request: PullRequest, config: ConsumerConfig) -> None:
    policy = config.priority_policy
    if (request.min_pending or request.min_ack_pending) and policy != "overflow":
        raise BadPull(400, "Bad Request - Not a Overflow Priority consumer")
    if request.pin_id and policy != "pinned_client":
        raise BadPull(400, "Bad Request - Not a Pinned Client Priority consumer")
    if not 0 <= request.priority <= 9:
        raise BadPull(400, "Bad Request - Priority must be between 0 and 9")
    if policy == "none":
        return
    if not request.group:
        raise BadPull(400, "Bad Request - Priority Group missing")
    if request.group not in config.priority_groups:
        raise BadPull(400, "Bad Request - Invalid Priority Group")

"""Priority groups: which of the waiting requests may be served.

overflow: a request with thresholds is served only while enough messages wait, or enough are unacknowledged.
pinned_client: one client gets everything, as long as it keeps asking; its pin is a random id that comes with each
message and that it sends with each request. prioritized: the queue itself is in that order, see pull_queue.py.
"""

from __future__ import annotations

from headrace.streams.advisories import random_id
from headrace.streams.pull_request import PullRequest

SERVE, PASS_OVER, WRONG_PIN = "serve", "pass over", "wrong pin"


class Pin:
    """Which client is pinned, since when."""

    def __init__(self) -> None:
        self.id = ""
        self.since = 0

    @property
    def headers(self) -> bytes:
        return f"Nats-Pin-Id: {self.id}\r\n".encode() if self.id else b""

    def assign(self, now: int) -> None:
        self.id = random_id()
        self.since = now

    def clear(self) -> None:
        self.id = ""
        self.since = 0

    def judge(self, request: PullRequest) -> str:
        """With a client pinned: is this request from it?"""
        if request.pin_id == self.id:
            return SERVE
        return WRONG_PIN if request.pin_id else PASS_OVER


def overflows(request: PullRequest, num_pending: int, num_ack_pending: int) -> bool:
    """Whether the thresholds of the request are reached; one of them is enough, none at all always is."""
    if request.min_pending <= 0 and request.min_ack_pending <= 0:
        return True
    return (
        0 < request.min_pending <= num_pending or 0 < request.min_ack_pending <= num_ack_pending
    )

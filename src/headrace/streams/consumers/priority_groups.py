"""Priority groups: which of the waiting requests may be served.

overflow: a request with thresholds is served only while enough messages wait, or enough are unacknowledged.
pinned_client: one client gets everything as long as it keeps asking. Its pin is a random id that comes with
each message and that it sends with each request; if it is silent for too long, another client is pinned.
prioritized: the queue itself is ordered by priority, see pull_queue.py.
"""

from __future__ import annotations

from headrace.broker.ids import random_id
from headrace.streams.consumers.core import Core
from headrace.streams.consumers.pull_request import BadPull, PullRequest

SERVE, PASS_OVER, WRONG_PIN = "serve", "pass over", "wrong pin"


def overflows(request: PullRequest, num_pending: int, num_ack_pending: int) -> bool:
    """Whether a threshold of the request is reached, or it has none."""
    if request.min_pending <= 0 and request.min_ack_pending <= 0:
        return True
    return 0 < request.min_pending <= num_pending or 0 < request.min_ack_pending <= num_ack_pending


class Pins:
    """Which client is pinned, and since when. Does nothing for other policies."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.id = ""
        self.since = 0
        self._fresh: PullRequest | None = None

    @property
    def headers(self) -> bytes:
        return f"Nats-Pin-Id: {self.id}\r\n".encode() if self.id else b""

    @property
    def _is_used(self) -> bool:
        return self._core.config.priority_policy == "pinned_client"

    def check(self, request: PullRequest) -> None:
        """A request has arrived: one of the pinned client renews its pin, one with another pin is refused."""
        if not self.id or not request.has_priority:
            return
        if request.pin_id == self.id:
            self._keep()
        elif request.pin_id:
            raise BadPull(423, "Nats-Pin-Id mismatch")

    def judge(self, request: PullRequest) -> str:
        """Whether the request may be served. The first one without a pin gets a free one."""
        if not self._is_used:
            return SERVE
        if not self.id:
            if request.pin_id:
                return WRONG_PIN
            self._assign(request)
            return SERVE
        if request.pin_id == self.id:
            return SERVE
        return WRONG_PIN if request.pin_id else PASS_OVER

    def _assign(self, request: PullRequest) -> None:
        if not request.group:
            return
        self.id = request.pin_id = random_id()
        self.since = self._core.time_of_day()
        self._fresh = request
        self._keep()
        self._core.advisories.pinned(request.group, self.id)

    def _keep(self) -> None:
        self._core.alarm.set("pin", self._core.now() + self._core.config.priority_timeout)

    def release(self, request: PullRequest) -> None:
        """The request received nothing: if it was pinned just for that, another one may be."""
        if self._fresh is request:
            self.clear()

    def settle(self) -> None:
        """The freshly pinned request was served."""
        self._fresh = None

    def clear(self) -> None:
        self.id = ""
        self.since = 0
        self._fresh = None
        self._core.alarm.clear("pin")

    def unpin(self, group: str, reason: str) -> None:
        self.clear()
        self._core.advisories.unpinned(group, reason)

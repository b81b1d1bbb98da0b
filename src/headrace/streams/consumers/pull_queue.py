"""The pull requests that wait for messages, in the order in which they are served.

Requests take turns: one that received something and wants more goes to the end. With priorities, it goes to
the end of those with the same priority, and a lower number is served first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from headrace.streams.consumers.pull_request import PullRequest

NO_PRIORITY = 1 << 31


class PullQueue:
    def __init__(self, max_waiting: int, *, prioritized: bool) -> None:
        self.max_waiting = max_waiting
        self.prioritized = prioritized
        self.last_active = 0
        """When a client was last active; consumers without any activity are deleted."""
        self._waiting: deque[PullRequest] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[PullRequest]:
        return iter(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) == self.max_waiting

    @property
    def head(self) -> PullRequest | None:
        return self._waiting[0] if self._waiting else None

    @property
    def wanted(self) -> int:
        """How many messages all requests still want."""
        return sum(request.batch for request in self._waiting)

    @property
    def rivals(self) -> int:
        """How many requests take turns with the first one, including itself."""
        if not self.prioritized:
            return len(self._waiting)
        first = _priority(self._waiting[0])
        return sum(1 for request in self._waiting if _priority(request) == first)

    @property
    def has_one_receiver(self) -> bool:
        """Whether all requests are answered on one subject: then nobody waits while one of them is served."""
        reply = self._waiting[0].reply
        return all(request.reply == reply for request in self._waiting)

    def add(self, request: PullRequest) -> None:
        self.last_active = request.received
        self._insert(request)

    def rotate(self) -> None:
        """The first one had its turn, and wants more."""
        if len(self._waiting) > 1:
            self._insert(self._waiting.popleft())

    def pass_over(self) -> None:
        """The first one cannot be served now: move it to the very end."""
        self._waiting.rotate(-1)

    def drop_head(self) -> None:
        self._waiting.popleft()

    def retain(self, requests: list[PullRequest]) -> None:
        self._waiting = deque(requests)

    def clear(self) -> None:
        self._waiting.clear()

    def _insert(self, request: PullRequest) -> None:
        if not self.prioritized:
            self._waiting.append(request)
            return
        priority = _priority(request)
        index = next(
            (at for at, other in enumerate(self._waiting) if _priority(other) > priority), len(self._waiting)
        )
        self._waiting.insert(index, request)


def _priority(request: PullRequest) -> int:
    return request.priority if request.has_priority else NO_PRIORITY

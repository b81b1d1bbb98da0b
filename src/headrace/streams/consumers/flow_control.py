"""Flow control: a window of bytes that the client of a push consumer must confirm before more is sent.

When more than half of the window is on its way, a request is sent along; the client answers it when it has
got that far. While more than the whole window is on its way, nothing is sent. Each answer doubles the window,
up to a limit.
"""

from __future__ import annotations

from headrace.broker.ids import random_id

WINDOW_LIMIT = 32 * 1024 * 1024
FIRST_WINDOW = WINDOW_LIMIT // 16


class FlowControl:
    def __init__(self, stream: str, consumer: str) -> None:
        self._prefix = f"$JS.FC.{stream}.{consumer}."
        self.window = FIRST_WINDOW
        self.under_way = 0
        self.request = ""
        """The subject on which the answer is awaited."""
        self._requested = 0

    @property
    def is_stalled(self) -> bool:
        return self.under_way > self.window

    @property
    def needs_request(self) -> bool:
        return not self.request and self.under_way > self.window // 2

    @property
    def budget(self) -> int:
        """How many bytes may be sent until there is something to do; if not positive, one more message."""
        return (self.window if self.request else self.window // 2) - self.under_way

    def note(self, size: int) -> None:
        self.under_way += size

    def make_request(self) -> str:
        self.request = self._prefix + random_id(4)
        self._requested = self.under_way
        return self.request

    def confirm(self, subject: str) -> bool:
        """The client has answered on that subject. False if it is not the latest request."""
        if subject != self.request:
            return False
        self.window = min(self.window * 2, WINDOW_LIMIT)
        self.under_way = max(0, self.under_way - self._requested)
        self.request = ""
        self._requested = 0
        return True

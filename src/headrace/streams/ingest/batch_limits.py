"""How many batches there may be at a time, how long, and how long they may be silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.streams.errors import api_error

if TYPE_CHECKING:
    from headrace.config.options import JetStreamLimits

DEFAULT_MESSAGES = 1000
DEFAULT_TIMEOUT_SECONDS = 10.0


class BatchLimits:
    """What the configuration says; `per_stream` and `in_all` where it says nothing."""

    def __init__(self, limits: JetStreamLimits, *, per_stream: int, in_all: int) -> None:
        self.per_stream = limits.max_batch_inflight_per_stream or per_stream
        self.in_all = limits.max_batch_inflight_total or in_all
        self.messages = limits.max_batch_size or DEFAULT_MESSAGES
        self.timeout = limits.max_batch_timeout or DEFAULT_TIMEOUT_SECONDS

    def check_length(self, messages: int) -> None:
        if messages > self.messages:
            raise api_error("atomic_publish_too_large_batch", size=self.messages)

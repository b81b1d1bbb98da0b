"""One message on its way into a stream: what was published, and what the checks have found so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.broker.message_trace.trace import PartInStream

FILE_OVERHEAD, FILE_HEADER_OVERHEAD, MEMORY_OVERHEAD = 30, 4, 16


@dataclass(slots=True)
class Publication:
    """`subject`, `headers` and `payload` change on the way.

    Transforms, counters and schedules rewrite them.
    """

    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes
    is_sourced: bool = False  # from another stream, or created by this server
    is_checked: bool = False  # as part of a batch, before any of its messages was stored
    seq: int = 0  # its stored sequence. If not 0 before storing, it is required: mirrors keep the origin's
    time: int = 0  # likewise
    msg_id: bytes = b""
    increment: int | None = None
    rollup: str = ""
    ttl: int = 0  # seconds; -1: never expires; 0: none of its own
    has_schedule: bool = False
    replaced: list[int] = field(default_factory=list)  # the sequences of what a rollup removes
    republished_to: bytes = b""
    previous_seq: int = 0  # of the same subject; only looked up for messages that are republished
    trace: PartInStream | None = None  # records what happens to it

    def stored_size(self, storage: str) -> int:
        """Its size as nats-server counts it for max_bytes."""
        size = len(self.subject) + len(self.headers) + len(self.payload)
        if storage == "memory":
            return size + MEMORY_OVERHEAD
        return size + FILE_OVERHEAD + (FILE_HEADER_OVERHEAD if self.headers else 0)


class Duplicate(Exception):
    """The message has the Nats-Msg-Id of one that is stored already, as `seq`."""

    def __init__(self, seq: int) -> None:
        super().__init__(f"duplicate of {seq}")
        self.seq = seq

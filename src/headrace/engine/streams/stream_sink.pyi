from typing import Any, Protocol, final

from headrace.engine.core.hub import Hub
from headrace.engine.core.interest import Interest
from headrace.engine.core.sinks import Sink
from headrace.engine.store.log import Log
from headrace.engine.streams.duplicate_window import DuplicateWindow

class Stream(Protocol):
    def on_publish(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Decide about a message that the C path does not take. Append and answer at once; do not publish."""
    def on_traced(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes, trace: Any) -> None:
        """The same for a message of which a trace is made."""
    def on_no_memory(self, reply: bytes) -> None:
        """There was no memory to take a message. Answer at once; do not publish."""
    def on_store_failure(self, reply: bytes, failure: str) -> None:
        """A message that was to be acknowledged on `reply` did not reach the disk. May publish."""

@final
class StreamSink(Sink):
    log: Log
    ack_prefix: bytes
    ack_suffix: bytes
    max_msg_size: int
    no_ack: bool
    direct: bool
    last_msg_id: bytes
    @property
    def duplicates(self) -> DuplicateWindow: ...
    def __init__(self, hub: Hub, interest: Interest, log: Log, stream: Stream) -> None: ...
    def acknowledge(self, reply: bytes, seq: int) -> None: ...
    def answer(self, reply: bytes, body: bytes) -> None: ...
    def answer_duplicate(self, reply: bytes, seq: int) -> None: ...
    def remember(self, msg_id: bytes, seq: int, time: int) -> None: ...

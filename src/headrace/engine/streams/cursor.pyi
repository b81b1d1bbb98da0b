from collections.abc import Callable

from headrace.engine.basics.filters import Filter
from headrace.engine.core.hub import Hub
from headrace.engine.core.interest import Interest
from headrace.engine.store.log import Log
from headrace.engine.store.store import Watcher
from headrace.engine.streams.pending import Pending

class Cursor(Watcher):
    log: Log
    ack_prefix: bytes
    headers_only: bool
    track: bool
    """Whether what is delivered goes to `pending`."""
    delivered_seq: int
    """The last consumer sequence given out."""
    last_delivered: int
    """The stream sequence of the last message that `deliver` gave out."""
    pending: Pending
    blocked: bool
    """The batch ended early: the outbox is full, or many messages were skipped. `wake()` continues it."""
    exceeded: bool
    """The batch ended because the next message does not fit into `max_bytes`."""
    unwanted: bool
    """The batch ended because nobody subscribes the destination (any more)."""
    def __init__(
        self,
        hub: Hub,
        interest: Interest,
        log: Log,
        filter: Filter,  # noqa: A002
        wake: Callable[[], object],
        *,
        ack_prefix: bytes,
        headers_only: bool = False,
    ) -> None: ...
    def deliver(
        self,
        destination: bytes,
        *,
        count: int,
        max_bytes: int = 0,
        now: int = 0,
        extra_headers: bytes = b"",
    ) -> tuple[int, int]: ...
    def redeliver(
        self,
        seq: int,
        destination: bytes,
        deliveries: int,
        *,
        max_bytes: int = 0,
        now: int = 0,
        extra_headers: bytes = b"",
    ) -> int: ...
    def release(self) -> None: ...

"""max_ack_pending: how many messages may be delivered and not acknowledged. At the limit, delivery stops."""

from __future__ import annotations

from headrace.streams.consumers.core import Core

NO_LIMIT = 1 << 62


def room(core: Core) -> int:
    """How many more messages may wait for an acknowledgement."""
    limit = core.config.max_ack_pending
    if limit <= 0 or not core.has_acks:
        return NO_LIMIT
    return limit - len(core.ledger.pending)


def is_reached(core: Core, more: int = 0) -> bool:
    """Whether the limit is reached, or would be with this many more messages pending."""
    return 0 < core.config.max_ack_pending <= len(core.ledger.pending) + more

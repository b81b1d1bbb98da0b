"""An atomic batch that a crash has cut off: it is the end of a log, without the message that commits it.

They were never acknowledged. A server removes them when it starts; whoever reads the files of one that has
not started since passes over them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

BATCH_ID = b"Nats-Batch-Id"
BATCH_SEQUENCE = b"Nats-Batch-Sequence"
BATCH_COMMIT = b"Nats-Batch-Commit"


class Message(Protocol):
    @property
    def headers(self) -> bytes: ...


def torn_batch(get: Callable[[int], Message | None], last_seq: int) -> list[int]:
    """The sequences of such a batch, the last one first. `get` finds a message; None: it is not there."""
    torn: list[int] = []
    batch_id = b""
    seq = last_seq
    while (message := get(seq)) is not None:
        found = _value(message.headers, BATCH_ID)
        if not found or found != (batch_id or found) or _value(message.headers, BATCH_COMMIT):
            break
        batch_id = found
        torn.append(seq)
        if _value(message.headers, BATCH_SEQUENCE) == b"1":
            break
        seq -= 1
    return torn


def _value(headers: bytes, name: bytes) -> bytes | None:
    """The first of that name, without leading spaces; None if there is no such header."""
    _, found, rest = headers.partition(b"\r\n" + name + b":")
    return rest.partition(b"\r\n")[0].lstrip(b" ") if found else None

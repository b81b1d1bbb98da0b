"""Delete markers (subject_delete_marker_ttl): what is left when the last message of a subject expires.

The message is not just removed: a marker replaces it, without a payload, so that those who follow the stream
learn that the subject is empty. The marker expires in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.config.durations import format_duration
from headrace.streams import headers
from headrace.streams.ingest.publication import Publication

if TYPE_CHECKING:
    from headrace.engine.store.log import Log
    from headrace.engine.store.readings import Stored


def needs_marker(log: Log, message: Stored) -> bool:
    """Whether a message that expires is the last one of its subject, and not a marker itself."""
    if is_marker(message.headers):
        return False
    state = log.subject_state(message.subject)
    return state is not None and state[0] == 1


def is_marker(block: bytes) -> bool:
    """A delete marker, or a delete or purge of a key-value store, needs no marker of its own."""
    return bool(headers.text(block, headers.MARKER_REASON)) or (
        headers.get(block, headers.KEY_VALUE_OPERATION) == b"PURGE"
    )


def make_marker(subject: bytes, seconds: int) -> Publication:
    """A marker that lives for this long."""
    block = headers.append(b"", headers.MARKER_REASON, b"MaxAge")
    block = headers.append(block, headers.TTL, format_duration(seconds).encode())
    block = headers.append(block, headers.ROLLUP, b"sub")  # removes the message itself
    return Publication(subject, b"", block, b"", is_sourced=True)

"""Nats-Rollup: a message that replaces all earlier ones of its subject (`sub`) or of the stream (`all`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headrace.engine.basics.filters import Filter
from headrace.streams import headers
from headrace.streams.errors import api_error

if TYPE_CHECKING:
    from headrace.engine.store.log import Log
    from headrace.streams.config import StreamConfig

SUBJECT = "sub"
ALL = "all"


def read_rollup(block: bytes) -> str:
    return headers.text(block, headers.ROLLUP).decode("utf-8", "replace").lower()


def is_permitted(config: StreamConfig) -> bool:
    return config.allow_rollup_hdrs and not config.deny_purge


def check_rollup(rollup: str, config: StreamConfig, *, is_sourced: bool) -> None:
    if not rollup:
        return
    if not is_permitted(config) and not is_sourced:
        raise api_error("stream_rollup_failed", err="rollup not permitted")
    if rollup not in (SUBJECT, ALL):
        raise api_error(
            "stream_rollup_failed", err=f"rollup value invalid: {json.dumps(rollup, ensure_ascii=False)}"
        )


def messages_of(log: Log, subject: bytes) -> list[int]:
    """The sequences of a subject's messages, those that are not on disk yet included. Raises OSError.

    A message can be published on a subject with a wildcard; its rollup then applies to all that match.
    """
    wanted = Filter((subject,))
    seq, last = log.first_seq, log.last_seq
    if wanted.literal:
        state = log.subject_state(subject)
        if state is None:
            return []
        _, seq, last = state
    found: list[int] = []
    while (message := log.next(seq, wanted)) is not None:
        found.append(message.seq)
        seq = message.seq + 1
    seq = log.following(max(log.committed_seq + 1, seq))
    while seq <= last:
        pending = log.get(seq)
        if pending is not None and wanted.matches(pending.subject):
            found.append(seq)
        seq = log.following(seq + 1)
    return found

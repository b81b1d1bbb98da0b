"""Republishing.

Every stored message is also published under another subject, for subscribers without a consumer.

A message is republished when it is on disk, in the order of the stream, so that nobody receives a message
that a crash then loses. Its headers have its sequence, and that of the previous message of its subject: a
subscriber notices a gap and can fetch what it missed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from headrace.streams.formats import format_time
from headrace.subjects import grammar
from headrace.subjects.transform import Transform

if TYPE_CHECKING:
    from headrace.broker.internal import InternalClient
    from headrace.streams.config import RePublish
    from headrace.streams.ingest.publication import Publication


class Republisher:
    """Republishes for one stream. Call `note` for stored messages, and `publish` when they are on disk."""

    def __init__(self, config: RePublish, stream: str, client: InternalClient) -> None:
        self._stream = stream
        self._client = client
        self._headers_only = config.headers_only
        self._transform = Transform(config.src, config.dest)
        self._waiting: deque[tuple[int, bytes, bytes, bytes]] = deque()

    def target(self, subject: bytes) -> bytes:
        """Where a message of this subject is republished to; empty: nowhere."""
        target = self._transform.apply(subject)
        if not target or not grammar.is_valid_publish_subject(grammar.decode(target)):
            return b""
        return target

    def note(self, publication: Publication) -> None:
        """Note a message that was stored and whose subject has a target."""
        seq, block = publication.seq, publication.headers
        fields = [
            b"Nats-Stream: " + self._stream.encode(),
            b"Nats-Subject: " + publication.subject,
            b"Nats-Sequence: %d" % seq,
            b"Nats-Time-Stamp: " + format_time(publication.time).encode(),
            b"Nats-Last-Sequence: %d" % publication.previous_seq,
        ]
        if self._headers_only:
            fields.append(b"Nats-Msg-Size: %d" % len(publication.payload))
        start = block[:-2] if block else b"NATS/1.0\r\n"
        block = start + b"\r\n".join(fields) + b"\r\n\r\n"
        payload = b"" if self._headers_only else publication.payload
        while self._waiting and self._waiting[-1][0] >= seq:
            self._waiting.pop()  # a failed write has undone it
        self._waiting.append((seq, publication.republished_to, block, payload))

    def publish(self, committed_seq: int) -> None:
        while self._waiting and self._waiting[0][0] <= committed_seq:
            _, target, block, payload = self._waiting.popleft()
            self._client.publish(target, payload, headers=block)

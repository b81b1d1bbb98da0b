"""What an endpoint gets and what it returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.broker.broker import Broker
from headrace.monitor.documents import encode_pieces
from headrace.monitor.usage import ProcessorShare

if TYPE_CHECKING:
    from headrace.streams.jetstream import JetStream

JSON = "application/json"
HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"


class Context(msgspec.Struct, frozen=True):
    """What endpoints report on. `request_counts` are those of /varz: an endpoint counts itself there."""

    broker: Broker
    base_path: str
    request_counts: Counter[str]
    processor_share: ProcessorShare
    jetstream: JetStream | None = None


class Answer(msgspec.Struct, frozen=True):
    """A response. Its body may be made while it is sent; an empty fragment ends a turn."""

    body: Iterable[bytes]
    content_type: str = JSON
    status: int = 200


def answer_document(document: dict[str, Any]) -> Answer:
    return Answer(encode_pieces(document))


def answer_text(status: int, text: str) -> Answer:
    return Answer([text.encode("utf-8", "surrogateescape")], TEXT, status)

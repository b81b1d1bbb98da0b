"""What an endpoint gets and what it returns."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from headrace.broker.broker import Broker
from headrace.http.message import Answer
from headrace.monitor.documents import Document, encode_document
from headrace.monitor.usage import ProcessorShare

if TYPE_CHECKING:
    from headrace.monitor.console.console import Console
    from headrace.monitor.landings import Landings
    from headrace.monitor.metrics.loop_stalls import LoopStalls
    from headrace.streams.jetstream import JetStream


class Context(msgspec.Struct, frozen=True):
    """What endpoints report on. `request_counts` are those of /varz: an endpoint counts itself there."""

    broker: Broker
    base_path: str
    request_counts: Counter[str]
    processor_share: ProcessorShare
    jetstream: JetStream | None = None
    landings: Landings | None = None
    loop_stalls: LoopStalls | None = None
    console: Console | None = None


def new_context(broker: Broker) -> Context:
    return Context(
        broker=broker,
        base_path="/" + broker.options.http_base_path.strip("/"),
        request_counts=Counter(),
        processor_share=ProcessorShare(),
    )


def answer_document(document: Document) -> Answer:
    return Answer(encode_document(document))
